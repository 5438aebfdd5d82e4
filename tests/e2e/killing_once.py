"""A process that makes one release of trajectories in children and kills them: `python
killing_once.py FOLDER UNIT MECHANISM EVERY`.
"""

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
from killing import begin, ended, held, killed_at, logged

from tailrace import Box, Event, Noise, PureDP, Stream, Trajectories, User, papers

SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=16)
UNITS = {"event": Event(), "user": User(column="id")}
MAKES = {"default": Trajectories, "paper": papers.trajectories}


def rows():
    import polars as pl

    rng = np.random.default_rng(0)
    trip = np.repeat(np.arange(60), rng.integers(1, 30, 60))
    walk = rng.normal(0, 0.04, (len(trip), 2)).cumsum(axis=0) % 1
    return pl.DataFrame(
        {
            "trip": trip,
            "at": np.arange(len(trip)),
            "x": walk[:, 0],
            "y": walk[:, 1],
            "id": trip % 20,
        }
    )


def mechanism(unit, make):
    return MAKES[make](
        domain=SQUARE, privacy=PureDP(epsilon=3), unit=UNITS[unit], trajectory="trip", order="at"
    )


def work(folder, unit, make):
    """What a process does: create or open, and push if that was not done."""
    path = folder / "ward.tail"
    made = {"population": "city", "noise": Noise.insecure(1)}
    stream = (
        Stream.open(path) if path.exists() else Stream.create(path, mechanism(unit, make), **made)
    )
    with stream:
        stream.push(rows(), step=1)


def warm(unit, make):
    """Load the compiled loops once, here, rather than in every child; Polars is not touched."""
    from tailrace.counting.journeys import kernel as reading
    from tailrace.counting.journeys.reading import Journeys
    from tailrace.domain import kernel
    from tailrace.stream.state import no_rows

    some = np.arange(40) % 7
    numbers, many = reading.numbered(some.astype(np.uint64), some.astype(np.uint64))
    reading.grouped(numbers, many, some + 0.5, some)
    kernel.grid(np.array([0.5]), 0.0, 1.0, 16.0, 16, False)
    kernel.join(np.zeros(1, np.int64), np.zeros(1, np.int64), 16)
    made = mechanism(unit, make)
    state, again, journeys = (
        made.init(),
        True,
        Journeys(
            np.arange(200) % 256, np.arange(5, 201, 5), np.ones(40, np.int64), np.zeros((2, 40))
        ),
    )
    noise = Noise.insecure(2)
    while again:
        counts = made.plan(state.public).counts(journeys)
        step = made.measure(state, counts, noise.at("warm", int(state.public.round)))
        state, again = step.state, step.again
    made.sample(made.view(state.public), no_rows(made), np.random.default_rng(0))


def killed_in_round(number, job, kind):
    """`job`, which kills itself when it is about to measure this round, or (None) to sample."""

    def run():
        name = "sample" if number is None else "measure"
        real, left = getattr(kind, name), [(number or 0) + 1]

        def dies(self, *arguments):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(self, *arguments)

        setattr(kind, name, dies)
        job()

    return run


def at_each(folder, unit, make):
    """Killed once at every durable point of create and push, and once in every round; each in a
    directory of its own, then resumed.
    """
    first = folder / "0"
    first.mkdir()
    points = logged(lambda: work(first, unit, make), folder / "points")
    kind, rounds = type(mechanism(unit, make)), mechanism(unit, make).rounds
    ways = [lambda job, n=n: killed_at(n, job) for n in range(1, len(points) + 1)]
    ways += [lambda job, n=n: killed_in_round(n, job, kind) for n in (*range(rounds), None)]
    numbers = range(1, len(ways) + 1)
    for number in numbers:
        own, way = folder / str(number), ways[number - 1]
        own.mkdir()
        job = lambda own=own: work(own, unit, make)  # noqa: E731
        assert ended(begin(way(job))) == -signal.SIGKILL, number
        before = held(own)
        assert ended(begin(job)) == 0, number
        assert all(held(own)[step] == digest for step, digest in before.items()), number
    return {"numbers": list(numbers), "ways": len(ways), "points": points, "rounds": rounds}


if __name__ == "__main__":
    import polars  # noqa: F401 (imported, not used: its threads start with the first frame)

    where, whose, which = sys.argv[1:]
    warm(whose, which)
    print(json.dumps(at_each(Path(where), whose, which)))
