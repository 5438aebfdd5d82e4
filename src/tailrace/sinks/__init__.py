"""Sinks: adapters that take each release once."""

from tailrace.sinks.base import Memory, Sink, digest
from tailrace.sinks.folders import CsvFolder, ParquetFolder
from tailrace.sinks.sql import SqlTable

__all__ = ["CsvFolder", "Memory", "ParquetFolder", "Sink", "SqlTable", "digest"]

# The kinds of `[[sink]]`; those of other distributions come through `tailrace.registry`.
KINDS = {"CsvFolder": CsvFolder, "ParquetFolder": ParquetFolder, "SqlTable": SqlTable}
