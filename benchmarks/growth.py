"""Cost that follows change: bytes a step, disk, openings, pushes, ten thousand steps, starts.

Bytes are exact (what the process wrote, by /proc/self/io); work is processor time and, but for
starts, compared with itself at another size. Linux only.
"""

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import tailrace as tr
from runner import HERE, Lap, main, measurement

Rows = Callable[[int], pl.DataFrame]
ALL = ("histogram", "spatial", "tabular", "panel", "snapshot")
# Whose people are all in every step.
WHOLE = ("panel", "snapshot")
# Rows pushed at a step of the others; a tenth of it over a thousand steps.
EACH = 1000
CITY: dict[str, Any] = {"low": (0, 0), "high": (1, 1), "columns": ("x", "y")}
PAIRS = tr.Schema(a=tr.Integer(0, 99), b=tr.Integer(0, 99))


def made(kind: str, steps: int) -> tuple[Any, Rows]:
    """A mechanism over `steps`, and rows for it."""
    rng = np.random.default_rng(0)
    pure = tr.PureDP(epsilon=1)
    events: dict[str, Any] = {"privacy": pure, "unit": tr.Event(), "horizon": steps}
    if kind == "spatial":
        mechanism = tr.SpatialStream(domain=tr.Box(**CITY, cells=1024), **events)
        return mechanism, lambda many: pl.DataFrame(
            {"x": rng.random(many) ** 2, "y": rng.random(many)}
        )
    if kind == "tabular":
        columns = {f"c{number}": tr.Integer(0, 5) for number in range(8)}
        mechanism = tr.TabularStream(domain=tr.Schema(**columns), **events)
        return mechanism, lambda many: pl.DataFrame(
            {name: rng.integers(0, 6, many) for name in columns}
        )
    if kind == "journeys":
        mechanism = tr.Trajectories(
            domain=tr.Box(**CITY, cells=64),
            privacy=pure,
            unit=tr.Event(),
            trajectory="trip",
            order="minute",
        )
        return mechanism, lambda many: _walks(rng, many // 20)
    if kind == "panel":
        mechanism = tr.PanelWindow(
            domain=tr.Schema(poor=tr.Integer(0, 1)),
            unit=tr.User(column="id"),
            window=3,
            horizon=steps,
            privacy=tr.ZCDP(rho=0.5),
            neighbours=tr.AddRemove,
        )
        return mechanism, lambda many: pl.DataFrame(
            {"id": np.arange(many), "poor": rng.integers(0, 2, many)}
        )
    if kind == "snapshot":
        mechanism = tr.SnapshotHistogram(
            domain=PAIRS, unit=tr.User(column="id", records=1), privacy=pure, horizon=steps
        )
    else:
        mechanism = tr.HistogramStream(domain=PAIRS, **events)

    def pairs(many: int) -> pl.DataFrame:
        a, b = rng.integers(0, 100, many), (rng.random(many) ** 2 * 100).astype(int)
        return pl.DataFrame({"id": np.arange(many), "a": a, "b": b})

    return mechanism, pairs


def _walks(rng: np.random.Generator, many: int) -> pl.DataFrame:
    start, moves = rng.uniform(0.1, 0.4, (many, 1, 2)), rng.normal(0.02, 0.03, (many, 20, 2))
    places = start + moves.cumsum(axis=1)
    trips = {"trip": np.repeat(np.arange(many), 20), "minute": np.tile(np.arange(20), many)}
    return pl.DataFrame({**trips, "x": places[..., 0].ravel(), "y": places[..., 1].ravel()})


@contextmanager
def kept(kind: str, steps: int) -> Iterator[tuple[tr.Stream, Path, Rows]]:
    """A new stream in a folder that goes away."""
    mechanism, rows = made(kind, steps)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.tail"
        noise = tr.Noise.insecure(1)
        with tr.Stream.create(path, mechanism, population="p", noise=noise) as stream:
            yield stream, path, rows


def _told(file: str, name: str) -> int:
    """A number that the kernel tells of this process."""
    found = re.search(rf"^{name}:\s+(\d+)", Path("/proc/self", file).read_text(), re.M)
    assert found is not None
    return int(found.group(1))


def _changed(path: Path, step: int) -> int:
    """Bytes of what a step added and removed."""
    files = (path / "releases" / part / f"{step:06d}.parquet" for part in ("added", "removed"))
    return sum(file.stat().st_size for file in files if file.exists())


GRID = [(kind, 10_000, steps) for kind in ALL for steps in (10, 100, 1000)]
GRID += [(kind, size, 10) for size in (100_000, 1_000_000) for kind in ALL]
GRID += [(kind, 3_000_000, 10) for kind in ("histogram", "spatial", "tabular")]


@measurement(
    "growth_bytes",
    keys="mechanism | rows | steps",
    columns="kB written a step .1f | kB added and removed .1f | kB in the worst step .1f"
    " | of the bound .2f | goal met ?",
    cases=GRID,
    goal="a step writes at most 3 times what it added and removed, and 50 kB, in the mean",
)
def written(kind: str, size: int, steps: int):
    """Bytes written by the steps after the first."""
    totals, changes, each = [], [], EACH if steps < 1000 else EACH // 10
    with kept(kind, steps) as (stream, path, rows):
        stream.push(rows(size))
        for step in range(2, steps + 1):
            frame, before = rows(size if kind in WHOLE else each), _told("io", "wchar")
            stream.push(frame)
            totals.append(_told("io", "wchar") - before)
            changes.append(_changed(path, step))
    mean, change = statistics.mean(totals), statistics.mean(changes)
    share = mean / (3 * change + 50_000)
    yield [kind, size, steps, mean / 1e3, change / 1e3, max(totals) / 1e3, share, share <= 1]


@measurement(
    "growth_disk",
    keys="mechanism | rows | steps",
    columns="MB on disk .1f | MB added and removed .1f | goal met ?",
    cases=[("spatial", 1_000_000, 60)],
    goal="at most 100 MB",
)
def disk(kind: str, size: int, steps: int):
    """Disk of a stream that grows to its size step by step."""
    with kept(kind, steps) as (stream, path, rows):
        for _ in range(steps):
            stream.push(rows(size // steps))
        # A file with two names is there once.
        files = {stat.st_ino: stat for stat in (one.stat() for one in path.rglob("*"))}
        total = sum(512 * stat.st_blocks for stat in files.values()) / 1e6
        change = sum(_changed(path, step) for step in range(1, steps + 1)) / 1e6
        yield [kind, size, steps, total, change, total <= 100]


@measurement(
    "growth_open",
    keys="mechanism | steps",
    columns="ms after 10 .2f | ms after all .2f | ratio .2f | goal met ?",
    cases=[("histogram", 1000), ("spatial", 1000)],
    goal="opening after 1,000 steps takes at most 1.5 times as long as after 10",
)
def opening(kind: str, steps: int, rounds: int = 15):
    """Processor time of opening, the best of some rounds."""
    with kept(kind, steps) as (stream, path, rows):
        best = []
        for upto in (10, steps):
            while stream.step < upto:
                stream.push(rows(20))
            stream.close()
            laps = []
            for _ in range(rounds):
                with Lap() as lap:
                    stream = tr.Stream.open(path)
                laps.append(1e3 * lap.processor)
                stream.close()
            best.append(min(laps))
            stream = tr.Stream.open(path)
        stream.close()
    yield [kind, steps, *best, best[1] / best[0], best[1] <= 1.5 * best[0]]


@measurement(
    "growth_push",
    keys="mechanism",
    columns="ms at 10^4 rows .1f | ms at 3*10^6 rows .1f | ratio .2f | median at 10^4 .1f"
    " | median at 3*10^6 .1f | ratio of medians .2f | goal met ?",
    cases=[("histogram",), ("spatial",), ("tabular",)],
    goal="a push of 1,000 rows at 3*10^6 rows takes at most 3 times that at 10^4, in the mean",
)
def pushing(kind: str, pushes: int = 60):
    """Processor time of a push among 400 steps; epochs that close by the calendar are in the mean."""
    means, medians = [], []
    for size in (10_000, 3_000_000):
        laps = []
        with kept(kind, 400) as (stream, _, rows):
            stream.push(rows(size))
            for _ in range(pushes + 2):
                frame = rows(EACH)
                with Lap() as lap:
                    stream.push(frame)
                laps.append(1e3 * lap.processor)
        # The first two still compile and read.
        means.append(statistics.mean(laps[2:]))
        medians.append(statistics.median(laps[2:]))
    ratios = means[1] / means[0], medians[1] / medians[0]
    yield [kind, *means, ratios[0], *medians, ratios[1], ratios[0] <= 3]


@measurement(
    "growth_steady",
    keys="mechanism",
    columns="steps , | MB after a tenth .1f | MB at the end .1f | files open after a tenth"
    " | files open at the end | ms a step, first tenth .2f | last tenth .2f | ratio .2f"
    " | goal met ?",
    cases=[("histogram",)],
    goal="memory and time within 1.1 times, no more open files",
)
def steady(kind: str, steps: int = 10_000):
    """Memory, open files and processor time of many steps, of data that keep their size."""
    laps, marks, frame = [], [], None
    with kept(kind, steps) as (stream, _, rows):
        for step in range(1, steps + 1):
            before, frame = frame, rows(100)
            with Lap() as lap:
                stream.push(frame, deletes=before)
            laps.append(1e3 * lap.processor)
            if step in (steps // 10, steps):
                opened = len(os.listdir("/proc/self/fd"))
                marks.append((_told("status", "VmRSS") * 1024 / 1e6, opened))
    part = steps // 10
    first, last = statistics.median(laps[:part]), statistics.median(laps[-part:])
    (before, few), (after, many) = marks
    met = last <= 1.1 * first and after <= 1.1 * before and many <= few
    yield [kind, steps, before, after, few, many, first, last, last / first, met]


IMPORTED = """
import growth, numba, tailrace.registry
growth.made("tabular", 4), tailrace.registry.parts(), numba.njit(lambda x: x + 1)(1)
print("pushed")
"""
STARTED = "import growth; growth.first_push({!r})"


def first_push(kind: str) -> None:
    """Make a stream and push once, as a process of its own does."""
    with kept(kind, 4) as (stream, _, rows):
        stream.push(rows(2000))
        print("pushed", flush=True)


def _seconds(code: str, folder: Path) -> float:
    """How long a new process takes to its first line."""
    left = {name: one for name, one in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    kept_in = {
        "NUMBA_CACHE_DIR": str(folder / "loops"),
        "PYTHONPYCACHEPREFIX": str(folder / "code"),
    }
    begun = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=HERE,
        env=left | kept_in,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "pushed\n"
        return time.perf_counter() - begun


@measurement(
    "growth_start",
    keys="mechanism",
    columns="s of the first process .1f | s of the second .2f | goal met ?",
    cases=[(kind,) for kind in (*ALL, "journeys")],
    goal="3 s from the start of a process to its first release, journeys 8 s; 1 s once compiled",
)
def starting(kind: str, rounds: int = 3):
    """From the start of a process to its first release, nothing compiled and all compiled."""
    with tempfile.TemporaryDirectory() as name:
        # As installed: Python's own bytecode is there.
        _seconds(IMPORTED, Path(name))
        shutil.rmtree(Path(name) / "loops", ignore_errors=True)
        cold = _seconds(STARTED.format(kind), Path(name))
        warm = min(_seconds(STARTED.format(kind), Path(name)) for _ in range(rounds))
    yield [kind, cold, warm, cold <= (8 if kind == "journeys" else 3) and warm <= 1]


if __name__ == "__main__":
    main(__doc__)
