"""Streams of tables, and what the paper prints for them.

Adult in random and in sorted order, and San Francisco's evictions. The evictions are those of 2011
to 2015, in 261 weeks; the paper's stream began in 1997 and has 1,409, so what it prints for them is
of another length. Their lists of places are read off the data, as the paper does it; a missing
place is a value of its own.

The printed errors are the paper's tables 1 and 2, by the author's dissertation (its tables 4.1 to
4.3), where they can all be read.
"""

import functools
import json
from dataclasses import dataclass, replace

import narwhals as nw
import numpy as np
import polars as pl

from tailrace import Categorical, Integer, Schema
from tailrace.experiments.runner import data

NAMES = (
    "adult-randomized-50",
    "adult-randomized-200",
    "adult-ordered-50",
    "adult-ordered-200",
    "evictions-weekly",
    "evictions-bi-weekly",
)
METRICS = ("AvgRelWE", "AvgWE", "MaxRelWE", "MaxWE", "AvgTV")


@dataclass(frozen=True, eq=False)
class TableStream:
    """Rows in the order in which they come, cut into steps."""

    name: str
    domain: Schema
    frame: pl.DataFrame
    cuts: np.ndarray  # (steps + 1,) where each step's rows begin, and the end
    # Cells of a junction tree, for every method: 22 columns at each step would else take hours.
    limit: int

    def __len__(self) -> int:
        return len(self.cuts) - 1

    @functools.cached_property
    def digits(self) -> np.ndarray:
        """(rows, columns) the numbers of the values."""
        return self.domain.digits(nw.from_native(self.frame, eager_only=True))

    def batch(self, step: int) -> slice:
        """The rows of a step; the first is step 1."""
        return slice(int(self.cuts[step - 1]), int(self.cuts[step]))

    def first(self, steps: int) -> "TableStream":
        """A shorter stream, for a trial of some steps (0: all)."""
        return replace(self, cuts=self.cuts[: steps + 1]) if steps else self


@functools.lru_cache(maxsize=2)
def stream(name: str, seed: int = 0) -> TableStream:
    """One of `NAMES`; `seed` shuffles the randomized ones."""
    kind, order, *size = name.split("-", 2)
    if kind == "evictions":
        return evictions(name, days=7 if order == "weekly" else 14)
    frame, domain = adult()
    shuffled = np.random.default_rng(seed).permutation(len(frame))
    frame = frame[shuffled] if order == "randomized" else frame.sort(frame.columns)
    return batched(name, domain, frame, int(size[0]))


def batched(name: str, domain: Schema, frame: pl.DataFrame, size: int) -> TableStream:
    """So many rows at every step; fewer at the last."""
    return TableStream(
        name, domain, frame, np.append(np.arange(0, len(frame), size), len(frame)), 2**16
    )


def generated(name: str, *, rows: int = 48_842, seed: int = 0) -> TableStream:
    """A table of Adult's size whose columns hang on the one before, in steps like the named."""
    rng, shape = np.random.default_rng(seed), (6, 5, 12, 7, 14, 6, 5, 2, 10, 4, 9, 20, 2)
    columns = [rng.integers(0, shape[0], rows)]
    for values in shape[1:]:
        follows = rng.random(rows) < 0.6
        columns.append(np.where(follows, columns[-1] % values, rng.integers(0, values, rows)))
    names = [f"c{number}" for number in range(len(shape))]
    domain = Schema(**{c: Integer(0, size - 1) for c, size in zip(names, shape, strict=True)})
    size = name.rsplit("-", 1)[1]
    each = int(size) if size.isdigit() else 50
    return batched(name, domain, pl.DataFrame(dict(zip(names, columns, strict=True))), each)


@functools.lru_cache(maxsize=1)
def adult() -> tuple[pl.DataFrame, Schema]:
    """48,842 rows of 13 columns, numbers in a few bins; the sizes of the columns are public."""
    frame = pl.read_parquet(data("adult", "adult_binned.parquet"))
    known = json.loads(data("adult", "adult_binned-domain.json").read_text())
    return frame, Schema(**{column: Integer(0, known[column] - 1) for column in frame.columns})


def evictions(name: str, *, days: int) -> TableStream:
    frame = pl.read_parquet(data("sf_evictions", "evictions.parquet"))
    frame = frame.sort("file_date", maintain_order=True)
    causes = [column for column, kind in frame.schema.items() if kind == pl.Boolean]
    domain = Schema(
        zip=Categorical(frame["zip"].unique().sort().to_list()),
        supervisor_district=Integer(1, 11, outside="other"),
        neighborhood=Categorical(
            frame["neighborhood"].drop_nulls().unique().sort().to_list(), outside="other"
        ),
        **{cause: Categorical([False, True]) for cause in causes},
    )
    since = frame["file_date"].to_numpy() - np.datetime64("2011-01-01")
    since = since.astype("timedelta64[D]").astype(int)
    cuts = np.searchsorted(since // days, np.arange(since.max() // days + 2))
    return TableStream(name, domain, frame.select(domain.columns), cuts, 2**14)


# By stream and epsilon: the baseline, then the proposed method, in the order of METRICS; total
# variations are not printed.
PRINTED: dict[str, dict[float, tuple[tuple[float, ...], tuple[float, ...]]]] = {
    "adult-randomized-50": {
        0.5: ((0.5624, 0.0151, 3.6469, 0.1182), (0.3035, 0.0075, 1.7575, 0.0504)),
        1.0: ((0.4005, 0.0103, 2.3292, 0.0712), (0.3191, 0.0079, 1.8162, 0.0514)),
        2.0: ((0.3510, 0.0085, 1.5646, 0.0488), (0.1863, 0.0039, 0.9770, 0.0208)),
        4.0: ((0.2606, 0.0058, 0.9187, 0.0243), (0.1673, 0.0033, 0.9778, 0.0208)),
    },
    "adult-randomized-200": {
        0.5: ((0.4113, 0.0104, 2.1987, 0.0698), (0.2658, 0.0064, 1.6246, 0.0419)),
        1.0: ((0.2786, 0.0065, 1.0789, 0.0323), (0.1975, 0.0044, 1.1166, 0.0249)),
        2.0: ((0.1802, 0.0036, 0.8907, 0.0191), (0.1802, 0.0036, 0.8907, 0.0191)),
        4.0: ((0.1802, 0.0036, 0.8907, 0.0191), (0.1802, 0.0036, 0.8907, 0.0191)),
    },
    "adult-ordered-50": {
        0.5: ((0.5559, 0.0149, 3.5589, 0.1157), (0.3165, 0.0080, 1.9028, 0.0497)),
        1.0: ((0.3953, 0.0102, 2.2663, 0.0695), (0.3214, 0.0080, 1.9528, 0.0547)),
        2.0: ((0.3264, 0.0079, 1.4234, 0.0444), (0.1904, 0.0040, 0.9798, 0.0208)),
        4.0: ((0.2402, 0.0053, 0.9192, 0.0211), (0.1667, 0.0033, 0.9780, 0.0208)),
    },
    "adult-ordered-200": {
        0.5: ((0.3810, 0.0096, 1.9203, 0.0601), (0.2593, 0.0063, 1.6522, 0.0413)),
        1.0: ((0.2608, 0.0060, 1.0060, 0.0302), (0.1972, 0.0043, 1.0670, 0.0232)),
        2.0: ((0.1969, 0.0041, 0.7189, 0.0152), (0.1711, 0.0035, 0.9752, 0.0208)),
        4.0: ((0.1705, 0.0034, 0.8939, 0.0190), (0.1563, 0.0031, 0.9776, 0.0208)),
    },
    "evictions-weekly": {
        0.5: ((1.4523, 0.0478, 4.0261, 0.0818), (0.6024, 0.0191, 1.7817, 0.0467)),
        1.0: ((0.6906, 0.0219, 1.7988, 0.0378), (0.4409, 0.0140, 1.3978, 0.0436)),
        2.0: ((0.3309, 0.0096, 1.1009, 0.0320), (0.2746, 0.0079, 0.7573, 0.0154)),
        4.0: ((0.2066, 0.0054, 0.9230, 0.0303), (0.2632, 0.0075, 0.7100, 0.0162)),
    },
    "evictions-bi-weekly": {
        0.5: ((0.7719, 0.0248, 2.0291, 0.0430), (0.4009, 0.0121, 1.6396, 0.0499)),
        1.0: ((0.3487, 0.0100, 1.1644, 0.0331), (0.2864, 0.0082, 1.1651, 0.0411)),
        2.0: ((0.2046, 0.0053, 1.0008, 0.0333), (0.2166, 0.0060, 0.7100, 0.0141)),
        4.0: ((0.1571, 0.0039, 0.6945, 0.0238), (0.2207, 0.0064, 0.7100, 0.0167)),
    },
}
# Table 3 (4.4 and 4.5 of the dissertation): with block counters.
PRINTED_BLOCKS: dict[str, dict[float, tuple[float, ...]]] = {
    "evictions-weekly": {
        0.5: (0.2545, 0.0092, 1.4485, 0.0507),
        1.0: (0.2553, 0.0136, 1.2361, 0.057),
        2.0: (0.2376, 0.0126, 1.121, 0.044),
        4.0: (0.2284, 0.012, 0.71, 0.0411),
    },
    "adult-randomized-50": {
        0.5: (0.3718, 0.0092, 1.9395, 0.0525),
        1.0: (0.2534, 0.0058, 1.5294, 0.0383),
        2.0: (0.1862, 0.0039, 0.9804, 0.0208),
        4.0: (0.1629, 0.0032, 0.9779, 0.0208),
    },
    "adult-ordered-50": {
        0.5: (0.3698, 0.0093, 2.2472, 0.0572),
        1.0: (0.2552, 0.0059, 1.3285, 0.0338),
        2.0: (0.1864, 0.0039, 1.0114, 0.0208),
        4.0: (0.1632, 0.0032, 0.978, 0.0208),
    },
}


def printed(name: str, epsilon: float, method: str) -> tuple[float, ...]:
    """What tables 1 to 3 print for a method; nothing for ours."""
    baseline, simple = PRINTED[name][epsilon]
    block = PRINTED_BLOCKS[name][epsilon]
    known = {"baseline": baseline, "paper, simple": simple, "paper, block": block}
    return known.get(method, ())
