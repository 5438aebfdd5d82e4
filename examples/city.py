"""Places that come and go: a generated city, released day by day for two weeks, and a question to
the last release.

python examples/city.py
"""

import polars as pl

import tailrace as tr
from tailrace.report.demo import CITY, days


def main() -> None:
    mechanism = tr.SpatialStream(
        domain=CITY, privacy=tr.PureDP(epsilon=1), unit=tr.Event(), horizon=14
    )
    with tr.Stream(mechanism) as stream:  # in memory; Stream.create keeps it in a folder
        for day, _ in zip(days(), range(14), strict=False):
            came, left = (
                pl.DataFrame(places, schema=CITY.columns) for places in (day.came, day.left)
            )
            release = stream.push(came, deletes=left)
    print(f"{len(release.table):,} synthetic points, {len(release.view.leaves.count)} leaves")
    print(f"in the old town: {release.view.count(low=(2, 4), high=(5, 6))}")
    print(release.guarantee)


if __name__ == "__main__":
    main()
