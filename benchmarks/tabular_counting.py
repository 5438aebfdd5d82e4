"""Counting 1e6 rows of 22 attributes in all 231 pairs, against `np.bincount` for each pair.

The floor is given the numbers of the values column by column, as numpy likes them best, and forms
each pair's cell numbers itself; `Marginals.tally` gets them row by row. A plan on a frame also reads the frame; on a lazy one the engine counts, and only counts are
fetched.
"""

import duckdb
import numpy as np
import polars as pl

from runner import best_of, main, measurement
from tailrace.counting.marginals import Marginals, all_ways
from tailrace.counting.plan import Plan
from tailrace.domain import Integer, Schema

ROWS, ROUNDS = 1_000_000, 5
SHAPE = (2, 5, 8, 16, 7, 14, 6, 5, 2, 42, 10, 10, 10, 3, 4, 9, 12, 20, 2, 2, 15, 30)


def floor(columns: list[np.ndarray], pairs: Marginals) -> np.ndarray:
    counts = []
    for a, b in pairs.cliques:
        cells = columns[a] * np.int32(SHAPE[b]) + columns[b]
        counts.append(np.bincount(cells, minlength=SHAPE[a] * SHAPE[b]))
    return np.concatenate(counts)


def drawn(rng: np.random.Generator, size: int, skewed: bool) -> np.ndarray:
    """One attribute's values: all alike, or each half as frequent as the one before."""
    if not skewed:
        return rng.integers(0, size, ROWS).astype(np.int32)
    return np.minimum(rng.geometric(0.5, ROWS) - 1, size - 1).astype(np.int32)


@measurement(
    "tabular_counting",
    keys="values | counted by",
    columns="ms .0f | np.bincount ms .0f | ratio .2f | goal met ?",
    goal="Marginals.tally takes no longer than np.bincount",
)
def pairs():
    ways = all_ways(SHAPE, 2)
    schema = Schema(**{f"c{a}": Integer(0, size - 1) for a, size in enumerate(SHAPE)})
    plan = Plan(schema, marginals=ways)
    for values in ("even", "skewed"):
        rng = np.random.default_rng(0)
        columns = [drawn(rng, size, values == "skewed") for size in SHAPE]
        digits = np.stack(columns, axis=1)
        frame = pl.DataFrame(dict(zip(schema.columns, columns, strict=True)))
        least, expected = best_of(ROUNDS, lambda _: floor(columns, ways))
        works = {
            "Marginals.tally": lambda _: ways.tally(digits),
            "Plan, Polars": lambda _: plan.count(frame),
            "Plan, lazy Polars": lambda _: plan.count(frame.lazy()),
            "Plan, DuckDB": lambda _: plan.count(duckdb.from_arrow(frame.to_arrow())),
        }
        for name, work in works.items():
            # One round more: the first compiles.
            taken, counts = best_of(ROUNDS + 1, work)
            assert np.array_equal(counts, expected)
            ratio = taken.seconds / least.seconds
            met = None if name.startswith("Plan") else ratio <= 1
            yield [values, name, 1e3 * taken.seconds, 1e3 * least.seconds, ratio, met]


if __name__ == "__main__":
    main(__doc__)
