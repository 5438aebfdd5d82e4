"""Sinks: adapters that take each release once."""

from tailrace.sinks.base import Memory, Sink, digest
from tailrace.sinks.delta import DeltaTables
from tailrace.sinks.folders import CsvFolder, ParquetFolder
from tailrace.sinks.spark import SparkTables
from tailrace.sinks.sql import SqlTable

__all__ = [
    "CsvFolder",
    "DeltaTables",
    "Memory",
    "ParquetFolder",
    "Sink",
    "SparkTables",
    "SqlTable",
    "digest",
]

# The kinds of `[[sink]]`; those of other distributions come through `tailrace.registry`.
KINDS = {
    "CsvFolder": CsvFolder,
    "DeltaTables": DeltaTables,
    "ParquetFolder": ParquetFolder,
    "SparkTables": SparkTables,
    "SqlTable": SqlTable,
}
