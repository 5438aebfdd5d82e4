"""One runner for benchmarks and experiments: cases, data, timing, results.

A measurement is a generator of rows:

    Measurement.of(speed, "speeds", keys="method | size", columns="ms .1f | ratio .2f | goal met ?",
                   cases=[("ours",), ("theirs",)], goal="at most 3 times the floor")

    def speed(method, seeds=3):
        yield [method, 100, ms, ratio, ratio <= 3]

Rows go to speeds.csv, each with the settings, commit and machine it was measured at. A column may
end with a format of its numbers; `?` is a verdict (True, False, or None where there is no goal). A
case is the first key cells of its rows: it replaces the saved rows that begin so, all others stay,
and the file is written after each case. Every parameter with a default is a setting.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import inspect
import multiprocessing
import os
import platform
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import accumulate
from operator import eq
from pathlib import Path
from typing import Any

import numpy as np

import tailrace
from tailrace.errors import ConfigError

# The clone that this file lies in, if it does: an installed package has no benchmarks.
_ABOVE = Path(__file__).parents[3]
CLONE = _ABOVE if (_ABOVE / "benchmarks").is_dir() else None
STAMP = ["settings", "commit", "machine"]
SPAWN = multiprocessing.get_context("spawn")
FORMAT = re.compile(r" (\?|,|\.\d[fg])$")
Rows = list[list[str]]


# Declaring


@dataclass(frozen=True)
class Measurement:
    """A generator of rows, and where they go."""

    work: Callable[..., Iterable[Sequence[object]]]
    file: str
    keys: int
    header: list[str]
    formats: list[str]
    cases: list[tuple]
    goal: str
    then: Callable[..., Iterable[Sequence[object]] | None] | None
    processes: int
    needs: tuple[str, ...]

    @classmethod
    def of(
        cls,
        work: Callable[..., Iterable[Sequence[object]]],
        file: str,
        *,
        keys: str,
        columns: str,
        cases: Iterable[tuple] = ((),),
        goal: str = "",
        then: Callable[..., Any] | None = None,
        processes: int = 1,
        needs: tuple[str, ...] = (),
    ) -> Measurement:
        """Read a declaration.

        Parameters
        work: the generator.
        file: the results' name.
        keys, columns: names between bars; a column's format follows its name.
        cases: arguments of one call each, the first key cells of its rows.
        goal: what a verdict says, in words.
        then: called with the saved rows (dictionaries) and the case after each; may yield more
            rows, and saved ones with other cells, which keep their stamp.
        processes: how many cases run at a time.
        needs: folders of real data that generated ones stand in for; settings name the absent.
        """
        named = [FORMAT.split(one)[:2] for one in f"{keys} | {columns}".split(" | ")]
        header, formats = [one[0] for one in named], ["".join(one[1:]) for one in named]
        header += STAMP
        many = keys.count(" | ") + 1
        return cls(work, file, many, header, formats, list(cases), goal, then, processes, needs)

    @property
    def options(self) -> dict[str, Any]:
        """Parameters with a default, and that default."""
        found = inspect.signature(self.work).parameters.values()
        return {one.name: one.default for one in found if one.default is not one.empty}

    def cells(self, row: Sequence[object], stamp: list[str]) -> list[str]:
        """The row as text, stamped."""
        return [*(_cell(*pair) for pair in zip(row, self.formats, strict=True)), *stamp]


def _cell(value: object, form: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "NO"
    return format(value, form) if isinstance(value, int | float | np.number) else str(value)


# Data


class NotHereError(FileNotFoundError):
    """Real data that this machine does not have."""


def data(*names: str) -> Path:
    """A file of real data: in TAILRACE_DATA, or in shared/data beside the clone or this folder."""
    beside = (CLONE or Path.cwd()).parent / "shared" / "data"
    path = Path(os.environ.get("TAILRACE_DATA") or beside, *names)
    if not path.exists():
        raise NotHereError("/".join(names))
    return path


# Timing


class Lap:
    """Wall and processor seconds of a `with` block."""

    def __enter__(self) -> Lap:
        self.seconds, self.processor = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self.seconds
        self.processor = time.process_time() - self.processor


def best_of(rounds: int, work: Callable[[int], Any]) -> tuple[Lap, Any]:
    """The fastest of some calls with 0, 1, ..., and the last result."""
    laps, result = [], None
    for number in range(rounds):
        with Lap() as lap:
            result = work(number)
        laps.append(lap)
    return min(laps, key=lambda lap: lap.seconds), result


def alone(work: Callable[..., Any], *given: object) -> tuple[Any, float]:
    """Its result in a process of its own, and that process's peak of resident MB."""
    with ProcessPoolExecutor(1, mp_context=SPAWN) as pool:
        return pool.submit(_peaked, work, given).result()


def _peaked(work: Callable[..., Any], given: tuple) -> tuple[Any, float]:
    result = work(*given)
    status = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return result, int(status.group(1)) * 1024 / 1e6 if status else float("nan")


def mean_error(values: np.ndarray) -> np.ndarray:
    """The standard error of means over the first axis; 0 for one value."""
    many = len(values)
    return values.std(axis=0, ddof=1) / many**0.5 if many > 1 else 0 * values[0]


# Results


def folder() -> Path:
    """Where results go: TAILRACE_RESULTS (the option --to), or benchmarks/results."""
    return Path(os.environ.get("TAILRACE_RESULTS") or (CLONE or Path()) / "benchmarks" / "results")


def read(file: str) -> list[dict[str, str]]:
    """Saved rows; none where nothing was saved."""
    header, rows = _table(file)
    return [dict(zip(header, row, strict=True)) for row in rows]


def draw(file: str, svg: str) -> None:
    """Save a figure beside the results."""
    folder().mkdir(parents=True, exist_ok=True)
    (folder() / f"{file}.svg").write_text(svg + "\n")


def merge(saved: Rows, rows: Rows, *, keys: int, case: tuple[str, ...] = ()) -> Rows:
    """Put rows in the place of saved ones of their case or key; all others stay.

    A row without a predecessor comes after the last one that shares most of its key.
    """
    new = {tuple(row[:keys]): row for row in rows}
    if len(new) < len(rows):
        raise ValueError("two rows have the same key: a measurement's keys name each row once")
    stale = [bool(case) and tuple(row[: len(case)]) == case for row in saved]
    merged = [
        new.pop(tuple(row[:keys]), row)
        for row, old in zip(saved, stale, strict=True)
        if not old or tuple(row[:keys]) in new
    ]
    for key, row in new.items():
        shared = [sum(accumulate(map(eq, other, key), min)) for other in merged]
        last = max(range(len(merged)), key=lambda place: (shared[place], place), default=-1)
        merged.insert(last + 1, row)
    return merged


def _table(file: str) -> tuple[list[str], Rows]:
    path = folder() / f"{file}.csv"
    if not path.exists():
        return [], []
    with path.open(newline="") as opened:
        header, *rows = csv.reader(opened)
    if header[-2:] == STAMP[1:] and STAMP[0] not in header:
        # Earlier results have settings after the commit, in one cell.
        cells = ([*row[-2].split(", ", 1), ""][1::-1] for row in rows)
        rows = [[*row[:-2], *cell, row[-1]] for row, cell in zip(rows, cells, strict=True)]
        header = [*header[:-2], *STAMP]
    return header, rows


def _keep(of: Measurement, file: str, rows: Rows, case: tuple[str, ...] = ()) -> None:
    """Merge rows into a file, in one move."""
    path, saved = folder() / f"{file}.csv", _table(file)[1]
    folder().mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".new").open("w", newline="") as opened:
        merged = merge(saved, rows, keys=of.keys, case=case)
        csv.writer(opened, lineterminator="\n").writerows([of.header, *merged])
    path.with_suffix(".new").replace(path)


@functools.cache
def _stamp() -> tuple[str, str]:
    """The commit (marked where files differ from it) or version, and the machine."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(CLONE), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    commit = f"tailrace {tailrace.__version__}"
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        if CLONE:
            changed = git("status", "--porcelain", "--", "src", "benchmarks/*.py")
            commit = git("rev-parse", "--short", "HEAD") + ("+changes" if changed else "")
    processor = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        named = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        processor = named.group(1).strip() if named else processor
    return commit, f"{processor}; Python {platform.python_version()}"


# Running


@dataclass(frozen=True)
class Done:
    """A case that was measured, or that began to be."""

    number: int  # of `many`, from 1
    many: int
    case: tuple
    rows: Rows
    missing: str  # data that are not here


def run(
    of: Measurement,
    *,
    settings: Mapping[str, Any] | None = None,
    cases: Sequence[tuple] | None = None,
    resume: bool = False,
    processes: int | None = None,
) -> Iterator[Done]:
    """Measure cases and save each as it ends; `resume` leaves out saved ones.

    A saved case counts if its rows have the same settings and commit.
    """
    options = {**of.options, **{k: v for k, v in (settings or {}).items() if k in of.options}}
    about = [f"without {one}" for one in of.needs if not _here(one)]
    about += [f"{name} {value}" for name, value in options.items()]
    stamp = [", ".join(about), *_stamp()]
    file = f"trial_{of.file}" if options.get("trial") else of.file
    cases = list(of.cases if cases is None else cases)
    header, saved = _table(file)
    if header not in ([], of.header):
        path = folder() / f"{file}.csv"
        raise ConfigError(f"{path} has other columns than this measurement: move it away first.")
    if resume:
        done = {tuple(row[: of.keys]) for row in saved if row[-3:-1] == stamp[:2]}
        cases = [
            case for case in cases if not any(key[: len(case)] == text_of(case) for key in done)
        ]

    def keep(rows: Iterable[Sequence[object]], case: tuple[str, ...] = ()) -> Rows:
        cells = [[*row.values()] if isinstance(row, dict) else of.cells(row, stamp) for row in rows]
        _keep(of, file, cells, case)
        return cells

    each = _each(of, cases, options, processes)
    for number, (case, rows, missing) in enumerate(each, start=1):
        kept = keep(rows, () if missing else text_of(case)) if rows else []
        kept += keep((rows and of.then and of.then(read(file), *case)) or [])
        yield Done(number, len(cases), case, kept, missing)


def _here(*names: str) -> bool:
    with contextlib.suppress(NotHereError):
        return data(*names).exists()
    return False


def _each(
    of: Measurement, cases: list[tuple], options: dict, processes: int | None
) -> Iterator[tuple[tuple, list, str]]:
    """Each case with its rows, as they come."""
    if (processes or of.processes) == 1:
        yield from ((case, *_rows(of.work, case, options)) for case in cases)
        return
    pool = _pool(processes or of.processes)
    futures = {pool.submit(_rows, of.work, case, options): case for case in cases}
    try:
        yield from ((futures[done], *done.result()) for done in as_completed(futures))
    except BaseException:
        # Stopped, or failed: nobody waits for the other cases.
        for worker in multiprocessing.active_children():
            worker.terminate()
        raise


@functools.cache
def _pool(processes: int) -> ProcessPoolExecutor:
    """Workers for all measurements; Ctrl-C is told to their parent alone."""
    ignore = (signal.SIGINT, signal.SIG_IGN)
    return ProcessPoolExecutor(processes, SPAWN, signal.signal, ignore)


def _rows(work: Callable, case: tuple, options: dict) -> tuple[list, str]:
    """The rows of a case, and which data they end at because they are not here."""
    rows = []
    try:
        rows.extend(work(*case, **options))
    except NotHereError as missing:
        return rows, str(missing)
    return rows, ""


def text_of(case: tuple) -> tuple[str, ...]:
    return tuple(map(str, case))
