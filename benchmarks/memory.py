"""A step of the unit memory with ten million units: time, and the peak of resident memory.

Goal: under 10 s a step and under 1 GB. Each step runs in a process of its own, loops compiled
before. The time is that of `bound` alone, from ids and cells to the new segment on disk, all files
synced. The peak (VmHWM) is of the whole process, nothing subtracted: Python, NumPy and numba (and
PyArrow, for text), the inputs, which are mapped from files and count where they are touched, and
the accepted cells that are returned.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from results import save
from tailrace.counting.memory import bound
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
    """Ids in random order, cells of the step before and of this one, and the memory after the step
    before.
    """
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
        bound(
            old=None,
            new=folder / f"old{place}",
            unit=unit,
            key=KEY,
            adds=batch(folder, "before", text),
            deletes=None,
        )


def measure(folder: Path, place: int) -> None:
    """One step, in this process; prints seconds and megabytes."""
    unit, old, adds, deletes, text = list(CASES.values())[place]
    adds, deletes = batch(folder, adds, text), batch(folder, deletes, text)
    tiny = [None if rows is None else (rows[0][:1], rows[1][:1]) for rows in (adds, deletes)]
    bound(old=None, new=folder / "warm", unit=unit, key=KEY, adds=tiny[0], deletes=tiny[1])
    before, after = folder / f"old{place}" if old else None, folder / f"new{place}"
    start = time.perf_counter()
    bound(old=before, new=after, unit=unit, key=KEY, adds=adds, deletes=deletes)
    seconds = time.perf_counter() - start
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    size = sum(file.stat().st_size for file in after.iterdir())
    print(json.dumps([seconds, int(status["VmHWM"].split()[0]) * 1024 / 1e6, size / 1e6]))


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as name:
        subprocess.run([sys.executable, __file__, "prepare", name], check=True)
        for place, case in enumerate(CASES):
            command = [sys.executable, __file__, "measure", name, str(place)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            seconds, peak, size = json.loads(output)
            goal = "yes" if seconds < 10 and peak < 1000 else "NO"
            rows.append([case, f"{UNITS:,}", f"{seconds:.2f}", f"{peak:.0f}", f"{size:.0f}", goal])
    save("memory", ["step", "units", "seconds", "peak MB", "segment MB", "goal met"], rows)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["prepare", folder]:
            prepare(Path(folder))
        case ["measure", folder, place]:
            measure(Path(folder), int(place))
        case _:
            main()
