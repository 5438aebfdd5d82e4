"""What a claim costs with a rollback journal (EXTRA) against the write-ahead log (FULL).

Both do what `Ledger.claim` does: open the file, read a stream's row, move its mark, commit, close.
They take turns, so that whatever else the machine does falls on both. A step of a small stream,
with its claim, stands beside: it is what a user waits for.
"""

import contextlib
import sqlite3
import statistics
import tempfile
from pathlib import Path

import polars as pl

from runner import Lap, main, measurement
from tailrace import (
    AddRemove,
    Categorical,
    Event,
    Guarantee,
    HistogramStream,
    Ledger,
    PureDP,
    Schema,
    Stream,
)

ENTRIES, ROUNDS, TURN = 20, 40, 5
MODES = {"log, FULL": ("WAL", "FULL"), "journal, EXTRA": ("DELETE", "EXTRA")}


def made(path: Path, journal: str) -> str:
    """A ledger with some entries, kept in this way; one entry's id."""
    promise = Guarantee(PureDP(epsilon=1), Event(), AddRemove, 9)
    entries = [
        Ledger(path).charge(population="p", path=f"{number}", fingerprint="f", guarantee=promise)
        for number in range(ENTRIES)
    ]
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute(f"PRAGMA journal_mode = {journal}")
    return entries[-1].id


def claim(path: Path, synchronous: str, name: str, step: int) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute(f"PRAGMA synchronous = {synchronous}")
        file.execute("BEGIN IMMEDIATE")
        file.execute("SELECT * FROM entries WHERE id = ?", (name,)).fetchone()
        file.execute("UPDATE entries SET step = ? WHERE id = ?", (step, name))
        file.execute("COMMIT")


@measurement("ledger", keys="what", columns="median ms .1f | ratio to log .2f")
def claims():
    times: dict[str, list[float]] = {mode: [] for mode in (*MODES, "a step of a stream")}
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        books = {mode: folder / f"{number}.ledger" for number, mode in enumerate(MODES)}
        ids = {mode: made(books[mode], MODES[mode][0]) for mode in MODES}
        ward = Schema(sex=Categorical(["f", "m"]))
        mechanism = HistogramStream(
            domain=ward, privacy=PureDP(epsilon=1), unit=Event(), horizon=ROUNDS + 1
        )
        day = pl.DataFrame({"sex": ["f", "m"]})
        with Stream.create(
            folder / "w.tail", mechanism, population="w", ledger=books["journal, EXTRA"]
        ) as stream:
            stream.push(day)
            for turn in range(ROUNDS):
                for mode in MODES:
                    with Lap() as lap:
                        for again in range(TURN):
                            claim(books[mode], MODES[mode][1], ids[mode], turn * TURN + again)
                    times[mode].append(lap.seconds / TURN)
                with Lap() as lap:
                    stream.push(day)
                times["a step of a stream"].append(lap.seconds)
    middle = {what: statistics.median(taken) * 1e3 for what, taken in times.items()}
    for what, taken in middle.items():
        yield [what, taken, taken / middle["log, FULL"]]


if __name__ == "__main__":
    main(__doc__)
