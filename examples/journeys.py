"""Journeys through a city: trips from homes to a few places of work, released once as synthetic
trips over the same map.

python examples/journeys.py
"""

import numpy as np
import polars as pl

import tailrace as tr

CITY = tr.Box(
    low=(0, 0), high=(10, 8), columns=("east", "north"), cells=256
)  # public, never read off the data
TRIPS, MINUTES = 20_000, 20


def trips(rng: np.random.Generator) -> pl.DataFrame:
    """A point a minute: first along the street of the home, then up or down the avenue of the place
    of work.
    """
    work = np.array([(3.0, 5.0), (4.0, 5.5), (7.5, 2.0)])[rng.choice(3, TRIPS, p=(0.5, 0.3, 0.2))]
    home = rng.uniform((0.5, 0.5), (9.5, 7.5), (TRIPS, 2))
    corner = np.stack([work[:, 0], home[:, 1]], axis=1)
    part = np.linspace(0, 2, MINUTES)[None, :, None]
    places = home[:, None] + np.minimum(part, 1) * (corner - home)[:, None]
    places = (
        places
        + np.maximum(part - 1, 0) * (work - corner)[:, None]
        + rng.normal(0, 0.05, (TRIPS, MINUTES, 2))
    )
    return pl.DataFrame(
        {
            "trip": np.repeat(np.arange(TRIPS), MINUTES),
            "minute": np.tile(np.arange(MINUTES), TRIPS),
            "east": places[..., 0].ravel(),
            "north": places[..., 1].ravel(),
        }
    )


def main() -> None:
    mechanism = tr.Trajectories(
        domain=CITY,
        privacy=tr.PureDP(epsilon=1),
        unit=tr.Event(),
        trajectory="trip",
        order="minute",
    )
    release = tr.release_once(
        mechanism, trips(np.random.default_rng(1))
    )  # Stream.create keeps it, and charges a ledger
    print(f"{release.table['trip'].n_unique():,} synthetic trips, {len(release.table):,} points")
    print(f"trips: {release.view.total}")
    print(release.view.advice)
    print(
        f"begin or end in the old town, on average over both: "
        f"{release.view.count(low=(2, 4), high=(5, 6))}"
    )
    print(release.guarantee)


if __name__ == "__main__":
    main()
