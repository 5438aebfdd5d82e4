"""How far synthetic data are from the true ones: private numbers, for the curator and for benchmarks on public data."""

from tailrace.metrics.ranges import RangeError, Rectangles, count, random_rectangles, relative_error, standard_queries
from tailrace.metrics.snapshots import Ranges, SnapshotError, answers, random_ranges, ranges_of_size, snapshot_error

__all__ = [
    "RangeError",
    "Ranges",
    "Rectangles",
    "SnapshotError",
    "answers",
    "count",
    "random_ranges",
    "random_rectangles",
    "ranges_of_size",
    "relative_error",
    "snapshot_error",
    "standard_queries",
]
