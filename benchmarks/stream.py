"""What durability costs: pushes a second of a kept stream against the same stream in memory, in one
run.

Goal: at least 50 pushes a second for a histogram of 10,000 bins.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from results import save
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
    start = time.perf_counter()
    for batch in batches[5:]:
        stream.push(batch)
    return (len(batches) - 5) / (time.perf_counter() - start)


def main() -> None:
    results = []
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
            met = "" if bins != 10_000 else "yes" if durable >= 50 else "NO"
            numbers = [f"{durable:.0f}", f"{memory:.0f}", f"{overhead:.1f}", f"{size / 1e6:.1f}"]
            results.append([f"{bins:,}", f"{rows:,}", name, *numbers, met])
    header = [
        "bins",
        "rows a step",
        "unit",
        "kept: pushes/s",
        "in memory: pushes/s",
        "durability ms/step",
        "state.db MB after 60 steps",
        "goal met",
    ]
    save("stream", header, results)


if __name__ == "__main__":
    main()
