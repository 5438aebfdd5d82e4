"""What durability costs: pushes a second of a kept stream against one in memory."""

import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from runner import Lap, main, measurement
from tailrace import Categorical, Event, HistogramStream, Integer, PureDP, Schema, Stream, User

STEPS = 60


def domain(bins: int) -> Schema:
    return Schema(place=Integer(0, bins // 2 - 1), sex=Categorical(["f", "m"]))


def days(bins: int, rows: int) -> list[pl.DataFrame]:
    rng = np.random.default_rng(0)
    return [
        pl.DataFrame(
            {
                "id": rng.integers(0, 20_000, rows),
                "place": rng.integers(0, bins // 2, rows),
                "sex": rng.choice(["f", "m"], rows),
            }
        )
        for _ in range(STEPS)
    ]


def speed(stream: Stream, batches: list[pl.DataFrame]) -> float:
    """Pushes a second after the first five."""
    for batch in batches[:5]:
        stream.push(batch)
    with Lap() as lap:
        for batch in batches[5:]:
            stream.push(batch)
    return (len(batches) - 5) / lap.seconds


@measurement(
    "stream",
    keys="bins , | rows a step , | unit",
    columns="kept: pushes/s .0f | in memory: pushes/s .0f | durability ms/step .1f"
    f" | state.db MB after {STEPS} steps .1f | goal met ?",
    goal="50 pushes a second for a histogram of 10,000 bins",
)
def pushes():
    for bins, rows in ((100, 100), (10_000, 100), (10_000, 1000)):
        for name, unit in (("Event", Event()), ("User, events=3", User(column="id", events=3))):
            mechanism = HistogramStream(
                domain=domain(bins), privacy=PureDP(epsilon=1), unit=unit, horizon=STEPS
            )
            batches = days(bins, rows)
            with tempfile.TemporaryDirectory() as folder:
                with Stream.create(Path(folder) / "s.tail", mechanism, population="p") as kept:
                    durable = speed(kept, batches)
                size = (Path(folder) / "s.tail" / "private" / "state.db").stat().st_size
            with Stream(mechanism) as held:
                memory = speed(held, batches)
            overhead = 1000 / durable - 1000 / memory
            met = durable >= 50 if bins == 10_000 else None
            yield [bins, rows, name, durable, memory, overhead, size / 1e6, met]


if __name__ == "__main__":
    main(__doc__)
