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

Ours are QE_path, which counts the lines between points as QE counts points, and the flows per hour
between districts, of journeys with times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tailrace.calls import told
from tailrace.errors import ConfigError, DataError
from tailrace.metrics.given import corners, numbers
from tailrace.metrics.ranges import FLOOR, Rectangles, error_of_counts, gridded, random_rectangles
from tailrace.privacy.loss import whole

# Of the grid for ends and patterns: the dissertation's.
SIDE = 40
# Of the grid for trips and places: AdaTrace's.
COARSE_SIDE = 6
# The finest grid of districts: pairs of its cells are 63-bit numbers.
_FINEST = 10_000
PATTERNS, SHORTEST, LONGEST = 200, 2, 5
BINS = 20
QUERIES, LEAST, MOST = 500, 0.0001, 0.001


@told
@dataclass(frozen=True, eq=False)
class Tracks:
    """Trajectories one after another.

    The i-th has the points from offsets[i] up to offsets[i + 1]. Points that are not finite are
    left out, and so are trajectories without a point.

    >>> Tracks([0, 2, 2, 3], [0.0, 1.0, 5.0], [0.0, 1.0, 5.0]).offsets
    array([0, 2, 3])
    """

    offsets: np.ndarray  # (trajectories + 1,)
    x: np.ndarray
    y: np.ndarray

    def __post_init__(self) -> None:
        offsets = numbers("offsets", self.offsets, int)
        x, y = (numbers(name, getattr(self, name)) for name in ("x", "y"))
        if x.ndim != 1 or x.shape != y.shape or offsets.ndim != 1 or not len(offsets):
            raise DataError(
                "offsets, x and y of Tracks must be arrays of one dimension, x and y of one length."
            )
        if offsets[0] != 0 or offsets[-1] != len(x) or (np.diff(offsets) < 0).any():
            raise DataError("offsets of Tracks must rise from 0 to the number of points.")
        finite = np.isfinite(x) & np.isfinite(y)
        sizes = np.diff(np.concatenate([[0], np.cumsum(finite)])[offsets])
        offsets = np.append(0, np.cumsum(sizes[sizes > 0])).astype(np.int64)
        for name, value in {"offsets": offsets, "x": x[finite], "y": y[finite]}.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of_rows(
        cls, trajectory: np.ndarray, order: np.ndarray, x: np.ndarray, y: np.ndarray
    ) -> Tracks:
        """The trajectories of a table's columns.

        The rows of a trajectory are taken in their order, wherever they stand.

        >>> trajectory, order = np.array([5, 2, 5]), np.array([1, 0, 0])
        >>> Tracks.of_rows(trajectory, order, np.array([3.0, 1.0, 2.0]), np.zeros(3)).x
        array([1., 2., 3.])
        """
        rows = np.lexsort((order, trajectory))
        named = trajectory[rows]
        inner = np.flatnonzero(named[1:] != named[:-1]) + 1
        # Without rows one trajectory without points, which is left out.
        return cls(np.concatenate([[0], inner, [len(rows)]]), x[rows], y[rows])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def pick(self, which: ArrayLike) -> Tracks:
        """The trajectories of these numbers, in their order."""
        chosen = np.asarray(which, np.int64)
        sizes = np.diff(self.offsets)[chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        points = np.arange(offsets[-1]) + np.repeat(self.offsets[chosen] - offsets[:-1], sizes)
        return Tracks(offsets, self.x[points], self.y[points])


@dataclass(frozen=True, eq=False)
class Visits:
    """Cells of a grid of `number` cells, as visited."""

    offsets: np.ndarray
    cells: np.ndarray
    number: int

    def moves(self) -> Visits:
        """The visits with repeated cells in a row taken once.

        >>> Visits(np.array([0, 3, 5]), np.array([7, 7, 2, 2, 2]), 9).moves().cells
        array([7, 2, 2])
        """
        kept = np.ones(len(self.cells), bool)
        kept[1:] = self.cells[1:] != self.cells[:-1]
        kept[self.offsets[:-1]] = True
        offsets = np.append(0, np.cumsum(kept))[self.offsets]
        return Visits(offsets, self.cells[kept], self.number)

    def ends(self) -> np.ndarray:
        """The pair of first and last cell, as one number."""
        return self.cells[self.offsets[:-1]] * self.number + self.cells[self.offsets[1:] - 1]


def visits(tracks: Tracks, *, low: ArrayLike, high: ArrayLike, side: int) -> Visits:
    """The cell of every point in an even grid.

    The grid divides the box (side, side); points outside count for the nearest cell.
    """
    lowest, highest = corners(low, high)
    if len(lowest) != 2:
        raise ConfigError("low and high must have two numbers each: tracks lie on a map.")
    places = (np.stack([tracks.x, tracks.y], axis=1) - lowest) * (side / (highest - lowest))
    column, row = np.clip(np.floor(places), 0, side - 1).astype(np.int64).T
    return Visits(tracks.offsets, row * side + column, side * side)


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
    paths: float  # QE_path
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
    pairs = {
        "ends": ends_error(*fine),
        "patterns": patterns_error(*fine),
        "moves": patterns_error(*(part.moves() for part in fine)),
    }
    return TrajectoryError(
        **{f"{name}_are": are for name, (are, _) in pairs.items()},
        **{f"{name}_jsd": jsd for name, (_, jsd) in pairs.items()},
        queries=query_error(true, synthetic, rectangles),
        paths=path_error(true, synthetic, rectangles),
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
    kept = [(part[part > 0], middle[part > 0]) for part in (p, q)]
    total = sum((part * np.log(part / other)).sum() for part, other in kept)
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
    codes, counts = _patterns(visits)
    most = np.lexsort((codes, -counts))[:number]
    return codes[most], counts[most]


def pattern_counts(visits: Visits, codes: np.ndarray) -> np.ndarray:
    """The number of occurrences of each pattern."""
    found, counts = _patterns(visits)
    if not len(found):
        return np.zeros(len(codes), np.int64)
    at = np.minimum(np.searchsorted(found, codes), len(found) - 1)
    return np.where(found[at] == codes, counts[at], 0)


def _patterns(visits: Visits) -> tuple[np.ndarray, np.ndarray]:
    """Patterns of all lengths in rising order, and counts."""
    from tailrace.metrics import kernel

    base = visits.number + 1
    if base**LONGEST >= 1 << 63:
        raise ConfigError(
            f"a grid for patterns of {LONGEST} cells can have at most 6,207 cells (a side of 78)."
        )
    codes = [
        kernel.pattern_codes(visits.offsets, visits.cells, length, base)
        for length in range(SHORTEST, LONGEST + 1)
    ]
    return np.unique(np.concatenate(codes), return_counts=True)


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


def path_error(true: Tracks, synthetic: Tracks, rectangles: Rectangles) -> float:
    """QE_path: as QE, with straight lines between points counted too."""
    f, g = (trajectories_through(tracks, rectangles) for tracks in (true, synthetic))
    return error_of_counts(f, g, len(true), floor=FLOOR).every


def trajectories_through(tracks: Tracks, rectangles: Rectangles) -> np.ndarray:
    """The number of trajectories whose lines meet each rectangle."""
    from tailrace.metrics import kernel

    corners = (rectangles.low, rectangles.high)
    return kernel.crossing(tracks.offsets, tracks.x, tracks.y, *corners)


@told
def flow_error(
    true: Tracks,
    synthetic: Tracks,
    *,
    hours: tuple[ArrayLike, ArrayLike],
    low: ArrayLike,
    high: ArrayLike,
    side: int = COARSE_SIDE,
) -> float:
    """The divergence of flows per hour between districts.

    A flow is the number of trajectories that begin in one hour (of a day, of a week: any whole
    numbers, one for each trajectory of `true` and of `synthetic`), go from one cell of an even grid
    (side, side), and end in another.
    """
    if whole("side", side) > _FINEST:
        raise ConfigError(f"side must be at most {_FINEST:,}: districts are larger than that.")
    codes = []
    for tracks, each in zip((true, synthetic), hours, strict=True):
        hour = numbers("hours", each, int)
        if hour.shape != (len(tracks),):
            raise DataError("hours must be two arrays, a whole number for each trajectory.")
        ends = visits(tracks, low=low, high=high, side=side).ends()
        codes.append(np.stack([hour, ends]))
    both = np.unique(np.concatenate(codes, axis=1), axis=1, return_inverse=True)[1].reshape(-1)
    size = int(both.max(initial=-1)) + 1
    return divergence(
        np.bincount(both[: len(true)], minlength=size),
        np.bincount(both[len(true) :], minlength=size),
    )


def trajectories_in(tracks: Tracks, rectangles: Rectangles) -> np.ndarray:
    """The number of trajectories with a point in each rectangle."""
    from tailrace.metrics import kernel

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
    from tailrace.metrics import kernel

    return kernel.diameters(tracks.offsets, tracks.x, tracks.y)


def lengths(tracks: Tracks) -> np.ndarray:
    """The distance travelled along each trajectory."""
    from tailrace.metrics import kernel

    return kernel.lengths(tracks.offsets, tracks.x, tracks.y)


def histogram_divergence(true: np.ndarray, synthetic: np.ndarray) -> float:
    """The divergence of two sets of numbers, in 20 bins."""
    if not len(true):
        return float("nan")
    width = max(float(true.max()), np.finfo(float).tiny * BINS) / BINS
    counts = [
        np.bincount(np.minimum(values / width, BINS - 1).astype(np.int64), minlength=BINS)
        for values in (true, synthetic)
    ]
    return divergence(*counts)


def places_tau(true: Visits, synthetic: Visits) -> float:
    """Kendall's tau-b of visits to each cell; nan where tied."""
    from tailrace.metrics import kernel

    f, g = (kernel.visits(part.offsets, part.cells, part.number) for part in (true, synthetic))
    above_f, above_g = np.sign(f[:, None] - f), np.sign(g[:, None] - g)
    pairs = np.sqrt(float((above_f != 0).sum()) * float((above_g != 0).sum()))
    return float((above_f * above_g).sum() / pairs) if pairs else float("nan")


def _counted(true: np.ndarray, synthetic: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count each value that occurs in either array."""
    values = np.union1d(true, synthetic)
    places = (np.searchsorted(values, part) for part in (true, synthetic))
    first, second = (np.bincount(place, minlength=len(values)) for place in places)
    return first, second
