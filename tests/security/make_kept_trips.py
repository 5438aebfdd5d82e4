"""Makes kept_trips.tar.gz, streams of journeys that later versions must open: `python
make_kept_trips.py`, with the version that is to be kept.

Made at 017ef2f, the first with JourneyStream, and again (kept_trips2.tar.gz) at 2c27a5c. Each has released four steps, and closed an epoch.
One then had rows added, one was cut off in its fifth step, one protects people, one lies on roads.
"""

import contextlib
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from keeping import keep

from tailrace import Box, Event, JourneyStream, PureDP, Stream, User
from tailrace.domain.geometry import Roads
from tailrace.storage import durable

SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=8)
STREETS = [[(0, at), (1, at)] for at in (0, 0.5, 1)] + [[(at, 0), (at, 1)] for at in (0, 0.5, 1)]


class Cut(BaseException):
    pass


def trips(step, many=60):
    at = np.linspace(0.1, 0.9, 12)
    rng = np.random.default_rng(step)
    x, y = np.clip(at + rng.normal(0, 0.02, (2, many, len(at))), 0, 1)
    trip, order = np.divmod(np.arange(many * len(at)), len(at))
    places = {"x": x.ravel(), "y": y.ravel()}
    return pl.DataFrame({"trip": trip, "at": order, "id": trip % 30, **places})


def stop(point: str) -> None:
    if point == "intent, after":
        raise Cut


def main() -> None:
    import shapely

    roads = Roads(shapely.MultiLineString(STREETS), columns=("x", "y"), cells=8)
    own = {"privacy": PureDP(epsilon=5000), "horizon": 12, "trajectory": "trip", "order": "at"}
    about = {
        "added": (SQUARE, Event()),
        "cut": (SQUARE, Event()),
        "people": (SQUARE, User(column="id", events=2)),
        "roads": (roads, Event()),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, (domain, unit) in about.items():
            mechanism = JourneyStream(domain=domain, unit=unit, **own)
            stream = Stream.create(folder / f"{title}.tail", mechanism, population=title)
            for step in range(1, 5):
                stream.push(trips(step))
            if title == "added":
                stream.add(trips(5))
            elif title == "cut":
                durable.hook = stop
                with contextlib.suppress(Cut):
                    stream.push(trips(5))
                durable.hook = None
            stream.close()
        keep(folder, "kept_trips.tar.gz")


if __name__ == "__main__":
    main()
