"""Counting 1e6 rows of 22 attributes in all 231 pairs, against its floor in the same run:
`np.bincount`, once for each pair.

The floor is given the numbers of the values column by column, as numpy likes them best, and forms
each pair's cell numbers itself. Goal: `Marginals.tally` on the same numbers, row by row, takes no
longer. A plan on a frame also reads the frame; on a lazy one the engine counts, and only counts are
fetched.
"""

import time
from collections.abc import Callable

import duckdb
import numpy as np
import polars as pl

from results import save
from tailrace.counting.marginals import Marginals, all_ways
from tailrace.counting.plan import Plan
from tailrace.domain import Integer, Schema

ROWS, ROUNDS = 1_000_000, 5
SHAPE = (2, 5, 8, 16, 7, 14, 6, 5, 2, 42, 10, 10, 10, 3, 4, 9, 12, 20, 2, 2, 15, 30)


def best_of(work: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    """Milliseconds of the fastest round, and what was counted."""
    times, counts = [], work()  # the first call compiles
    for _ in range(ROUNDS):
        start = time.perf_counter()
        counts = work()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3, counts


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


def main() -> None:
    pairs, rows = all_ways(SHAPE, 2), []
    schema = Schema(**{f"c{a}": Integer(0, size - 1) for a, size in enumerate(SHAPE)})
    plan = Plan(schema, marginals=pairs)
    for values in ("even", "skewed"):
        rng = np.random.default_rng(0)
        columns = [drawn(rng, size, values == "skewed") for size in SHAPE]
        digits = np.stack(columns, axis=1)
        frame = pl.DataFrame(dict(zip(schema.columns, columns, strict=True)))
        least, expected = best_of(lambda: floor(columns, pairs))
        works = {
            "Marginals.tally": lambda: pairs.tally(digits),
            "Plan, Polars": lambda: plan.count(frame),
            "Plan, lazy Polars": lambda: plan.count(frame.lazy()),
            "Plan, DuckDB": lambda: plan.count(duckdb.from_arrow(frame.to_arrow())),
        }
        for name, work in works.items():
            taken, counts = best_of(work)
            assert np.array_equal(counts, expected)
            goal = "" if name.startswith("Plan") else "yes" if taken <= least else "NO"
            rows.append(
                [values, name, f"{taken:.0f}", f"{least:.0f}", f"{taken / least:.2f}", goal]
            )
    save(
        "tabular_counting",
        ["values", "counted by", "ms", "np.bincount ms", "ratio", "goal met"],
        rows,
    )


if __name__ == "__main__":
    main()
