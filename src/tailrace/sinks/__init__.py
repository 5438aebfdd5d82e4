"""Where releases go: one-method adapters that take a step once, whole or not at all."""

from tailrace.sinks.base import Sink, digest
from tailrace.sinks.folders import CsvFolder, ParquetFolder
from tailrace.sinks.memory import Memory
from tailrace.sinks.sql import SqlTable

__all__ = ["CsvFolder", "Memory", "ParquetFolder", "Sink", "SqlTable", "digest"]

# The kinds of `[[sink]]`; those of other distributions come through `tailrace.registry`.
KINDS = {"CsvFolder": CsvFolder, "ParquetFolder": ParquetFolder, "SqlTable": SqlTable}
