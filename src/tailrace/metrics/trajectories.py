"""Errors of synthetic trajectories.

The first five are the dissertation's (chapter 5, on a grid of 40 x 40 cells): JSD there is the
Jensen-Shannon *metric*, the square root of the divergence in natural logarithms (at most sqrt(ln
2), about .833). Patterns are runs of 2 to 5 cells, the 200 that occur most in the true data. Almost
all of those stay in one cell where points are close in time; so they are also counted as "moves",
with cells repeated in a row taken once.

The last four are AdaTrace's: their JSD is the *divergence* in natural logarithms (at most ln 2,
about .693). Where its code and ours differ, ours is the stricter: a trajectory longer than the
longest true one falls into the last bin (there it is forgotten), and Kendall's tau is corrected for
ties (tau-b), so that a perfect copy has 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tailrace.calls import told
from tailrace.errors import ConfigError
from tailrace.metrics.ranges import FLOOR, Rectangles, error_of_counts, gridded, random_rectangles
from tailrace.metrics.tracks import Tracks, Visits, visits

# Of the grid for ends and patterns: the dissertation's.
SIDE = 40
# Of the grid for trips and places: AdaTrace's.
COARSE_SIDE = 6
PATTERNS, SHORTEST, LONGEST = 200, 2, 5
BINS = 20
QUERIES, LEAST, MOST = 500, 0.0001, 0.001


@told
@dataclass(frozen=True, kw_only=True)
class TrajectoryError:
    """The errors of one synthetic data set.

    Smaller is better, but for the places (1 is best); nan: no true trajectories.
    """

    ends_are: float  # SE_ARE
    ends_jsd: float  # SE_JSD
    patterns_are: float  # FP_ARE
    patterns_jsd: float  # FP_JSD
    moves_are: float
    moves_jsd: float
    queries: float  # QE
    trip: float
    diameter: float
    length: float
    places: float  # Kendall's tau


@told
def trajectory_error(
    true: Tracks, synthetic: Tracks, *, low: ArrayLike, high: ArrayLike, rectangles: Rectangles
) -> TrajectoryError:
    """Every error in a box; `rectangles` are the queries."""
    fine = [visits(tracks, low=low, high=high, side=SIDE) for tracks in (true, synthetic)]
    coarse = [visits(tracks, low=low, high=high, side=COARSE_SIDE) for tracks in (true, synthetic)]
    ends_are, ends_jsd = ends_error(*fine)
    patterns_are, patterns_jsd = patterns_error(*fine)
    moves_are, moves_jsd = patterns_error(fine[0].moves(), fine[1].moves())
    return TrajectoryError(
        ends_are=ends_are,
        ends_jsd=ends_jsd,
        patterns_are=patterns_are,
        patterns_jsd=patterns_jsd,
        moves_are=moves_are,
        moves_jsd=moves_jsd,
        queries=query_error(true, synthetic, rectangles),
        trip=divergence(*_counted(*(part.ends() for part in coarse))),
        diameter=histogram_divergence(diameters(true), diameters(synthetic)),
        length=histogram_divergence(lengths(true), lengths(synthetic)),
        places=places_tau(*coarse),
    )


def divergence(true: np.ndarray, synthetic: np.ndarray) -> float:
    """The Jensen-Shannon divergence of two histograms.

    It is in natural logarithms, and ln 2 where the synthetic one is empty.

    >>> divergence(np.array([1, 1]), np.array([2, 2]))
    0.0
    >>> round(divergence(np.array([1, 0]), np.array([0, 1])), 4)
    0.6931
    """
    if not true.sum():
        return float("nan")
    if not synthetic.sum():
        return float(np.log(2))
    p, q = true / true.sum(), synthetic / synthetic.sum()
    middle = (p + q) / 2
    total = sum(
        (part[part > 0] * np.log(part[part > 0] / middle[part > 0])).sum() for part in (p, q)
    )
    return max(0.0, float(total) / 2)


def ends_error(true: Visits, synthetic: Visits) -> tuple[float, float]:
    """SE_ARE and SE_JSD, over pairs of first and last cell.

    The relative error is over the pairs that either has, with a denominator of at least 1.
    """
    f, g = _counted(true.ends(), synthetic.ends())
    if not f.sum():
        return float("nan"), float("nan")
    return float((np.abs(f - g) / np.maximum(f, 1)).mean()), float(np.sqrt(divergence(f, g)))


def patterns_error(true: Visits, synthetic: Visits) -> tuple[float, float]:
    """FP_ARE and FP_JSD, over the most frequent true patterns."""
    codes, f = frequent_patterns(true)
    if not len(codes):
        return float("nan"), float("nan")
    g = pattern_counts(synthetic, codes)
    return float((np.abs(f - g) / f).mean()), float(np.sqrt(divergence(f, g)))


def frequent_patterns(visits: Visits, *, number: int = PATTERNS) -> tuple[np.ndarray, np.ndarray]:
    """The most frequent runs of cells, and their counts.

    Of those that occur equally often the shorter come first, then the lower cells.
    """
    codes, counts = (np.concatenate(parts) for parts in zip(*_patterns(visits), strict=True))
    most = np.lexsort((codes, -counts))[:number]
    return codes[most], counts[most]


def pattern_counts(visits: Visits, codes: np.ndarray) -> np.ndarray:
    """The number of occurrences of each pattern."""
    found, counts = (np.concatenate(parts) for parts in zip(*_patterns(visits), strict=True))
    at = np.minimum(np.searchsorted(found, codes), max(len(found) - 1, 0))
    return (
        np.where(found[at] == codes, counts[at], 0)
        if len(found)
        else np.zeros(len(codes), np.int64)
    )


def _patterns(visits: Visits) -> list[tuple[np.ndarray, np.ndarray]]:
    """Patterns of each length in rising order, and counts."""
    from tailrace.metrics import trajectories_kernel as kernel

    base = visits.number + 1
    if base**LONGEST >= 1 << 63:
        raise ConfigError(
            f"a grid for patterns of {LONGEST} cells can have at most 6,207 cells (a side of 78)."
        )
    return [
        np.unique(
            kernel.pattern_codes(visits.offsets, visits.cells, length, base), return_counts=True
        )
        for length in range(SHORTEST, LONGEST + 1)
    ]


@told
def small_rectangles(rng: np.random.Generator, *, low: ArrayLike, high: ArrayLike) -> Rectangles:
    """The dissertation's queries: 500 of .01 to .1 %."""
    return random_rectangles(rng, low=low, high=high, number=QUERIES, least=LEAST, most=MOST)


def query_error(true: Tracks, synthetic: Tracks, rectangles: Rectangles) -> float:
    """QE: the mean relative error of trajectories per rectangle.

    A trajectory counts if it has a point in the rectangle; the denominator is at least .1 % of the
    true trajectories.
    """
    f, g = (trajectories_in(tracks, rectangles) for tracks in (true, synthetic))
    return error_of_counts(f, g, len(true), floor=FLOOR).every


def trajectories_in(tracks: Tracks, rectangles: Rectangles) -> np.ndarray:
    """The number of trajectories with a point in each rectangle."""
    from tailrace.metrics import trajectories_kernel as kernel

    points = np.stack([tracks.x, tracks.y], axis=1)
    if not len(points):
        return np.zeros(len(rectangles), np.int64)
    grid = gridded(points)
    order = np.argsort(grid.cells, kind="stable")
    owner = np.repeat(np.arange(len(tracks)), np.diff(tracks.offsets))[order]
    place, corners = (grid.low, grid.scale, grid.side), (rectangles.low, rectangles.high)
    return kernel.passing(points[order], owner, grid.starts, *place, *corners, len(tracks))


def diameters(tracks: Tracks) -> np.ndarray:
    """The largest distance between two points of each trajectory."""
    from tailrace.metrics import trajectories_kernel as kernel

    return kernel.diameters(tracks.offsets, tracks.x, tracks.y)


def lengths(tracks: Tracks) -> np.ndarray:
    """The distance travelled along each trajectory."""
    from tailrace.metrics import trajectories_kernel as kernel

    return kernel.lengths(tracks.offsets, tracks.x, tracks.y)


def histogram_divergence(true: np.ndarray, synthetic: np.ndarray) -> float:
    """The divergence of two sets of numbers, in bins.

    There are 20 even bins from 0 to the largest true number; the last holds all beyond.
    """
    if not len(true):
        return float("nan")
    width = max(float(true.max()), np.finfo(float).tiny * BINS) / BINS
    counts = [
        np.bincount(np.minimum(values / width, BINS - 1).astype(np.int64), minlength=BINS)
        for values in (true, synthetic)
    ]
    return divergence(*counts)


def places_tau(true: Visits, synthetic: Visits) -> float:
    """Kendall's tau-b of the trajectories that visit each cell.

    It is nan where all cells have equally many in one of the two.
    """
    from tailrace.metrics import trajectories_kernel as kernel

    f, g = (kernel.visits(part.offsets, part.cells, part.number) for part in (true, synthetic))
    above_f, above_g = np.sign(f[:, None] - f), np.sign(g[:, None] - g)
    pairs = np.sqrt(float((above_f != 0).sum()) * float((above_g != 0).sum()))
    return float((above_f * above_g).sum() / pairs) if pairs else float("nan")


def _counted(true: np.ndarray, synthetic: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count each value that occurs in either array."""
    values = np.union1d(true, synthetic)
    first, second = (
        np.bincount(np.searchsorted(values, part), minlength=len(values))
        for part in (true, synthetic)
    )
    return first, second
