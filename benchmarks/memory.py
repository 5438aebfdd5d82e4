"""A step of the unit memory with ten million units: time, and the peak of resident memory.

Each step runs in a process of its own, loops compiled
before. The time is that of `bound` alone, from ids and cells to the new memory on disk, all files
synced. The peak (VmHWM) is of the whole process, nothing subtracted: Python, NumPy and numba (and
PyArrow, for text), the inputs, which are mapped from files and count where they are touched, and
the accepted cells that are returned.

Also steps of 1,000 rows into memories of 10^4 to 3*10^6 units; and a step larger than memory,
counted from a Parquet file.
"""

import tempfile
import time
from pathlib import Path

import numpy as np

from runner import Lap, alone, main, measurement
from tailrace.counting.memory import bound, counted
from tailrace.counting.plan import Plan
from tailrace.domain import Integer, Schema
from tailrace.privacy.unit import User

UNITS, CELLS = 10_000_000, 10_000
KEY = bytes(range(16))
TWICE, ONE = User(column="id", events=2), User(column="id", records=1)
CASES = {  # name: (the unit, rows of old memory?, inserts, deletes, text?)
    "first step, every unit inserts": (TWICE, False, "now", None, False),
    "every unit inserts once more": (TWICE, True, "now", None, False),
    "every unit inserts, ids are text": (TWICE, True, "now", None, True),
    "1 unit in 100 inserts": (TWICE, True, "few", None, False),
    "every unit inserts more than it may": (ONE, True, "now", None, False),
    "every unit moves: a delete and an insert": (ONE, True, "now", "before", False),
}


def batch(folder: Path, name: str | None, text: bool):
    """Ids and cells mapped from files, or nothing."""
    if name is None:
        return None
    cells = np.load(folder / f"{name}.npy", mmap_mode="r")
    if text:
        import pyarrow as pa

        return pa.ipc.open_file(pa.memory_map(str(folder / "names.arrow"))).read_all()["id"], cells
    return np.load(folder / "ids.npy", mmap_mode="r")[: len(cells)], cells


def prepare(folder: Path) -> None:
    """Write ids, cells of two steps, and the memory after the first."""
    import pyarrow as pa

    random = np.random.default_rng(0)
    ids = random.permutation(UNITS)
    np.save(folder / "ids.npy", ids)
    for name, rows in (("before", UNITS), ("now", UNITS), ("few", UNITS // 100)):
        np.save(folder / f"{name}.npy", random.integers(0, CELLS, rows))
    schema = pa.schema([("id", pa.string())])
    with pa.ipc.new_file(str(folder / "names.arrow"), schema) as file:
        for part in np.array_split(ids, 20):
            file.write(pa.record_batch([pa.array([f"person-{i:08d}" for i in part])], schema))
    for place, (unit, _, _, _, text) in enumerate(CASES.values()):
        adds, new = batch(folder, "before", text), folder / f"old{place}"
        bound(old=None, new=new, unit=unit, key=KEY, adds=adds, deletes=None)


def step(folder: Path, place: int) -> tuple[float, float]:
    """Seconds of one step in this process, and the megabytes that it wrote."""
    unit, old, adds, deletes, text = list(CASES.values())[place]
    adds, deletes = batch(folder, adds, text), batch(folder, deletes, text)
    tiny = [None if rows is None else (rows[0][:1], rows[1][:1]) for rows in (adds, deletes)]
    bound(old=None, new=folder / "warm", unit=unit, key=KEY, adds=tiny[0], deletes=tiny[1])
    before, after = folder / f"old{place}" if old else None, folder / f"new{place}"
    with Lap() as lap:
        bound(old=before, new=after, unit=unit, key=KEY, adds=adds, deletes=deletes)
    # What stays is a second name of an old file.
    files = [file.stat() for file in after.iterdir()]
    return lap.seconds, sum(file.st_size for file in files if file.st_nlink == 1) / 1e6


@measurement(
    "memory",
    keys="step",
    columns="units , | seconds .2f | peak MB .0f | written MB .1f | goal met ?",
    goal="under 10 s a step and under 1 GB",
)
def steps():
    with tempfile.TemporaryDirectory() as name:
        alone(prepare, Path(name))
        for place, case in enumerate(CASES):
            (seconds, size), peak = alone(step, Path(name), place)
            yield [case, UNITS, seconds, peak, size, seconds < 10 and peak < 1000]


def small_steps(units: int, steps: int = 40) -> tuple[float, float]:
    """The median CPU time (ms) of steps of 1,000 rows, and the kB that each wrote on average."""
    random, unit, spent, written = np.random.default_rng(0), User(column="id", events=3), [], 0
    with tempfile.TemporaryDirectory() as name:
        old, rows = None, (np.arange(units), random.integers(0, CELLS, units))
        for number in range(steps + 1):
            new, start = Path(name) / str(number), time.process_time()
            bound(old=old, new=new, unit=unit, key=KEY, adds=rows, deletes=None)
            if number:
                spent.append(time.process_time() - start)
                files = [file.stat() for file in new.iterdir()]
                written += sum(file.st_size for file in files if file.st_nlink == 1)
            old, rows = new, (random.integers(0, units, 1000), random.integers(0, CELLS, 1000))
    return 1e3 * float(np.median(spent)), written / steps / 1e3


@measurement(
    "memory_change",
    keys="units ,",
    columns="CPU ms .1f | ratio to 10,000 units .1f | written kB .0f",
)
def change():
    alone(small_steps, 100)
    least = None
    for units in (10**4, 10**5, 10**6, 3 * 10**6):
        (ms, written), _ = alone(small_steps, units)
        least = least or ms
        yield [units, ms, ms / least, written]


def larger_step(folder: Path, engine: str) -> float:
    """Seconds to count the rows of a Parquet file within the bound of each of its people."""
    import duckdb
    import polars as pl

    path, plan = str(folder / "rows.parquet"), Plan(Schema(v=Integer(0, 99)), key="id")
    frame = pl.scan_parquet(path) if engine == "Polars" else duckdb.connect().read_parquet(path)
    with Lap() as lap:
        counted(plan, TWICE, frame, None, old=None, new=folder / engine, key=KEY)
    return lap.seconds


def write_rows(folder: Path, rows: int) -> None:
    import duckdb

    query = f"select hash(range) % {UNITS} id, hash(range + 7) % 100 v from range({rows})"
    duckdb.sql(f"copy ({query}) to '{folder / 'rows.parquet'}'")


@measurement(
    "memory_larger",
    keys="engine",
    columns="rows , | seconds .0f | peak MB .0f | goal met ?",
    goal="under 1 GB",
)
def larger(rows=50_000_000):
    with tempfile.TemporaryDirectory() as name:
        alone(write_rows, Path(name), rows)
        for engine in ("Polars", "DuckDB"):
            seconds, peak = alone(larger_step, Path(name), engine)
            yield [engine, rows, seconds, peak, peak < 1000]


if __name__ == "__main__":
    main(__doc__)
