"""Records with several columns that come and go: notices to tenants, released week by week, and
questions to the last release.

python examples/tables.py
"""

from collections import deque

import numpy as np
import polars as pl

import tailrace as tr

NOTICES = tr.Schema(  # public, never read off the data
    district=tr.Integer(1, 11),
    cause=tr.Categorical(["payment", "breach", "owner"], outside="other"),
    weeks=tr.Real(edges=(0, 2, 4, 8, 26, 104)),
    appealed=tr.Categorical([False, True]),
)
WEEKS, OPEN, A_WEEK = 12, 6, 500  # a notice is open for six weeks


def notices(rng: np.random.Generator) -> pl.DataFrame:
    """A week's notices: outer districts wait longer, and those who wait appeal more often."""
    district = rng.integers(1, 12, A_WEEK)
    weeks = rng.exponential(1.5 * district)
    return pl.DataFrame(
        {
            "district": district,
            "cause": rng.choice(["payment", "breach", "owner"], A_WEEK, p=(0.6, 0.25, 0.15)),
            "weeks": weeks,
            "appealed": rng.random(A_WEEK) < np.minimum(weeks / 40, 0.8),
        }
    )


def main() -> None:
    mechanism = tr.TabularStream(
        domain=NOTICES, privacy=tr.PureDP(epsilon=1), unit=tr.Event(), horizon=WEEKS
    )
    rng, still_open = np.random.default_rng(1), deque()
    with tr.Stream(mechanism) as stream:  # in memory; Stream.create keeps it in a folder
        for _ in range(WEEKS):
            still_open.append(notices(rng))
            release = stream.push(
                still_open[-1], deletes=still_open.popleft() if len(still_open) > OPEN else None
            )
    true = pl.concat(still_open)
    print(f"{len(release.table):,} synthetic notices")
    appealed, outer = pl.col("appealed"), pl.col("district") >= 9
    print(f"open: {release.view.count()} (true: {len(true):,})")
    print(f"appealed: {release.view.count(appealed=True)} (true: {len(true.filter(appealed)):,})")
    both = release.view.count(appealed=True, district=(9, 11))
    print(f"appealed in districts 9 to 11: {both} (true: {len(true.filter(appealed, outer)):,})")
    print(release.guarantee)


if __name__ == "__main__":
    main()
