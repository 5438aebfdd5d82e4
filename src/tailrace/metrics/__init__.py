"""How far synthetic data are from the true ones: private numbers, for the curator and for benchmarks on public data."""

from tailrace.metrics.ranges import RangeError, Rectangles, count, random_rectangles, relative_error, standard_queries

__all__ = ["RangeError", "Rectangles", "count", "random_rectangles", "relative_error", "standard_queries"]
