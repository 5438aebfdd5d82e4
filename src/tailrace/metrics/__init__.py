"""Errors of synthetic data against the true data.

They are private numbers, for the curator and for benchmarks on public data.
"""

from tailrace.metrics.comparing import compare
from tailrace.metrics.ranges import (
    RangeError,
    Rectangles,
    count,
    random_rectangles,
    relative_error,
    standard_queries,
)
from tailrace.metrics.snapshots import (
    Ranges,
    SnapshotError,
    answers,
    random_ranges,
    ranges_of_size,
    snapshot_error,
)
from tailrace.metrics.trajectories import (
    Tracks,
    TrajectoryError,
    flow_error,
    small_rectangles,
    trajectory_error,
)
from tailrace.metrics.workloads import WorkloadError, workload_error

__all__ = [
    "RangeError",
    "Ranges",
    "Rectangles",
    "SnapshotError",
    "Tracks",
    "TrajectoryError",
    "WorkloadError",
    "answers",
    "compare",
    "count",
    "flow_error",
    "random_ranges",
    "random_rectangles",
    "ranges_of_size",
    "relative_error",
    "small_rectangles",
    "snapshot_error",
    "standard_queries",
    "trajectory_error",
    "workload_error",
]
