"""A process that works on a stream of journeys in children and kills them: `python
killing_trips.py MODE FOLDER`.
"""

import json
import sys
from pathlib import Path

import numpy as np
from killing import begin, ended, killed_until_done

from tailrace import Box, JourneyStream, Noise, PureDP, Stream, User

STEPS = 6
SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=16)


def day(step):
    import polars as pl

    rng = np.random.default_rng(step)
    trip = np.repeat(np.arange(40), rng.integers(1, 9, 40))
    walk = rng.normal(0, 0.04, (len(trip), 2)).cumsum(axis=0) % 1
    places = {"x": walk[:, 0], "y": walk[:, 1]}
    return pl.DataFrame({"trip": trip, "at": np.arange(len(trip)), **places, "id": trip % 20})


def mechanism():
    person = User(column="id", events=9)
    parts = {"domain": SQUARE, "privacy": PureDP(epsilon=6000), "unit": person, "horizon": STEPS}
    return JourneyStream(trajectory="trip", order="at", **parts)


def work(folder):
    """What a process does: create or open, then push what is missing; even steps in two parts."""
    path = folder / "city.tail"
    made = {"population": "city", "noise": Noise.insecure(1)}
    stream = Stream.open(path) if path.exists() else Stream.create(path, mechanism(), **made)
    with stream:
        for step in range(stream.step + 1, STEPS + 1):
            rows = day(step)
            if step % 2 == 0:
                stream.add(rows[:50], key=f"{step}")
            stream.push(rows[50:] if step % 2 == 0 else rows, step=step)


def warm():
    """Load the compiled loops once, here, rather than in every child; Polars is not touched."""
    from tailrace.counting.journeys.reading import Journeys
    from tailrace.stream.state import no_rows

    made, noise = mechanism(), Noise.insecure(2)
    state, table, rng = made.init(), no_rows(made), np.random.default_rng(0)
    ends = np.arange(5, 201, 5)
    journeys = Journeys(np.arange(200) % 256, ends, np.ones(40, np.int64), np.zeros((2, 40)))
    for step in range(2):
        counts = made.plan(state.public).counts(journeys)
        state = made.measure(state, counts, noise.at("warm", step)).state
        table = made.sample(made.view(state.public), table, rng).table


def unbroken(folder):
    assert ended(begin(lambda: work(folder))) == 0
    return {}


def at_writes(folder):
    """Killed at a random durable write of each life until the work is done."""
    return killed_until_done(16, lambda: work(folder))


if __name__ == "__main__":
    import polars  # noqa: F401 (imported, not used: its threads start with the first frame)

    mode, where = sys.argv[1:]
    warm()
    Path(where).mkdir()
    print(json.dumps(globals()[mode](Path(where))))
