"""Makes kept_places.tar.gz, places that later versions must open: `python make_kept_places.py`, with
the version that is to be kept.

Made at e6b96df, whose trees hold counts of every epoch and whose open epoch is kept by leaf. Each
stream is cut off in its last step, but for one whose last step is open, with rows added.
"""

import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from keeping import keep

from tailrace import Box, Event, PureDP, SpatialStream, Stream
from tailrace.storage import durable

SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=64)


class Cut(BaseException):
    pass


def points(seed, many=600):
    rng = np.random.default_rng(seed)
    return pl.DataFrame({"x": rng.beta(2, 8, many), "y": rng.beta(3, 3, many)})


def stop(point: str) -> None:
    if point == "intent, after":
        raise Cut


def main() -> None:
    about = {"domain": SQUARE, "privacy": PureDP(epsilon=1), "unit": Event(), "horizon": 40}
    made = {
        "places": SpatialStream(**about),
        "kept": SpatialStream(**about, retention=4),
        "waiting": SpatialStream(**about, begin=8),
        "adding": SpatialStream(**about),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, mechanism in made.items():
            stream = Stream.create(folder / f"{title}.tail", mechanism, population=title)
            for step in range(5):
                stream.push(points(step))
            if title == "adding":
                stream.add(points(5))
            else:
                durable.hook = stop
                try:
                    stream.push(points(5))
                except Cut:
                    durable.hook = None
            stream.close()
        keep(folder, "kept_places.tar.gz")


if __name__ == "__main__":
    main()
