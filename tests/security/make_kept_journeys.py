"""Makes kept_journeys.tar.gz, journeys that later versions must open: `python make_kept_journeys.py`,
with the version that is to be kept.

Made at 294b508, whose Trajectories count everything in one round. One stream is new, one is cut off
in its only step, one has released.
"""

import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from keeping import keep

from tailrace import Box, Event, PureDP, Stream, Trajectories
from tailrace.storage import durable

SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=8)


class Cut(BaseException):
    pass


def trips(many=200):
    at = np.linspace(0.1, 0.9, 12)
    rng = np.random.default_rng(1)
    x, y = np.clip(at + rng.normal(0, 0.02, (2, many, len(at))), 0, 1)
    trip, order = np.divmod(np.arange(many * len(at)), len(at))
    return pl.DataFrame({"trip": trip, "at": order, "x": x.ravel(), "y": y.ravel()})


def stop(point: str) -> None:
    if point == "intent, after":
        raise Cut


def main() -> None:
    own = {"trajectory": "trip", "order": "at"}
    about = {"domain": SQUARE, "privacy": PureDP(epsilon=50), "unit": Event(), **own}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title in ("new", "cut", "released"):
            mechanism = Trajectories(**about)
            stream = Stream.create(folder / f"{title}.tail", mechanism, population=title)
            durable.hook = stop if title == "cut" else None
            try:
                if title != "new":
                    stream.push(trips())
            except Cut:
                pass
            durable.hook = None
            stream.close()
        keep(folder, "kept_journeys.tar.gz")


if __name__ == "__main__":
    main()
