"""One runner for all measurements: command line, cases, timing, data, results.

A script declares measurements, generators of rows, and ends with `main(__doc__)`:

    @measurement("speeds", keys="method | size", columns="ms .1f | ratio .2f | goal met ?",
                 cases=[("ours",), ("theirs",)], goal="at most 3 times the floor")
    def speed(method, seeds=3):
        yield [method, 100, ms, ratio, ratio <= 3]

Rows go to results/speeds.csv, each with the commit and machine it was measured at. A column may end
with a format of its numbers; `?` is a verdict (True, False, or None where there is no goal). A case
is the first key cells of its rows: it replaces the saved rows that begin so, all others stay, and
the file is written after each case. Every parameter with a default is an option of the script.

    python benchmarks/runner.py             run every script (--list: name all measurements)
"""

import argparse
import contextlib
import csv
import functools
import inspect
import multiprocessing
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import accumulate
from operator import eq
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
STAMP = ["commit", "machine"]
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

    @property
    def options(self) -> dict[str, Any]:
        """Parameters with a default, and that default."""
        found = inspect.signature(self.work).parameters.values()
        return {one.name: one.default for one in found if one.default is not one.empty}

    def cells(self, row: Sequence[object], stamp: list[str]) -> list[str]:
        """The row as text, stamped."""
        return [*(_cell(*pair) for pair in zip(row, self.formats, strict=True)), *stamp]


MEASUREMENTS: dict[str, Measurement] = {}


def measurement(
    file: str,
    *,
    keys: str,
    columns: str,
    cases: Iterable[tuple] = ((),),
    goal: str = "",
    then: Callable[..., Any] | None = None,
    processes: int = 1,
) -> Callable[[Callable], Callable]:
    """Declare the decorated generator of rows as a measurement.

    Parameters
    file: the results' name.
    keys, columns: names between bars; a column's format follows its name.
    cases: arguments of one call each, the first key cells of its rows.
    goal: what a verdict says, in words.
    then: called with the saved rows (dictionaries) and the case after each; may yield more rows,
        and saved ones with other cells, which keep their stamp.
    processes: how many cases run at a time.
    """

    def declare(work: Callable) -> Callable:
        named = [FORMAT.split(one)[:2] for one in f"{keys} | {columns}".split(" | ")]
        header, formats = [one[0] for one in named], ["".join(one[1:]) for one in named]
        MEASUREMENTS[work.__name__] = Measurement(
            work,
            file,
            keys.count(" | ") + 1,
            [*header, *STAMP],
            formats,
            list(cases),
            goal,
            then,
            processes,
        )
        return work

    return declare


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
    """A file of real data: in TAILRACE_DATA, or in ../shared/data beside the checkout."""
    path = Path(os.environ.get("TAILRACE_DATA") or HERE.parents[1] / "shared" / "data", *names)
    if not path.exists():
        raise NotHereError("/".join(names))
    return path


# Timing


class Lap:
    """Wall and processor seconds of a `with` block."""

    def __enter__(self) -> "Lap":
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
    """Where results go: TAILRACE_RESULTS (the option --to), or results/."""
    return Path(os.environ.get("TAILRACE_RESULTS") or HERE / "results")


def read(file: str) -> list[dict[str, str]]:
    """Saved rows; none where nothing was saved."""
    header, rows = _table(file)
    return [dict(zip(header, row, strict=True)) for row in rows]


def draw(file: str, svg: str) -> None:
    """Save a figure beside the results."""
    folder().mkdir(parents=True, exist_ok=True)
    (folder() / f"{file}.svg").write_text(svg + "\n")
    print(f"  {folder().name}/{file}.svg")


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
    return header, rows


def _keep(of: Measurement, file: str, rows: Rows, case: tuple[str, ...] = ()) -> None:
    """Merge rows into a file, in one move."""
    header, saved = _table(file)
    if header not in ([], of.header):
        sys.exit(f"{file}.csv has other columns than this measurement: move it away first.")
    folder().mkdir(parents=True, exist_ok=True)
    path = folder() / f"{file}.csv"
    with path.with_suffix(".new").open("w", newline="") as opened:
        merged = merge(saved, rows, keys=of.keys, case=case)
        csv.writer(opened, lineterminator="\n").writerows([of.header, *merged])
    path.with_suffix(".new").replace(path)


@functools.cache
def _stamp() -> tuple[str, str]:
    """The commit (marked where files differ from it), and the machine."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(HERE.parent), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    changed = git("status", "--porcelain", "--", "src", "benchmarks/*.py")
    processor = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        named = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        processor = named.group(1).strip() if named else processor
    commit = git("rev-parse", "--short", "HEAD") + ("+changes" if changed else "")
    return commit, f"{processor}; Python {platform.python_version()}"


# Running


def run(of: Measurement, given: argparse.Namespace) -> None:
    """Run a measurement's cases and save each."""
    asked = {name: value for name, value in vars(given).items() if value is not None}
    options = {name: asked.get(name, default) for name, default in of.options.items()}
    unusual = [f"{name} {value}" for name, value in options.items() if value != of.options[name]]
    commit, machine = _stamp()
    stamp = [", ".join([commit, *unusual]), machine]
    file = f"trial_{of.file}" if options.get("trial") else of.file
    cases = [case for case in of.cases if all(one in map(str, case) for one in given.only)]
    if given.resume:
        done = {tuple(row[: of.keys]) for row in _table(file)[1] if row[-2] == stamp[0]}
        cases = [case for case in cases if not any(key[: len(case)] == _text(case) for key in done)]
    verdicts = [place for place, form in enumerate(of.formats) if form == "?"]
    found, start = {}, time.perf_counter()

    def keep(rows: Iterable[Sequence[object]], case: tuple[str, ...] = ()) -> None:
        cells = [[*row.values()] if isinstance(row, dict) else of.cells(row, stamp) for row in rows]
        _keep(of, file, cells, case)
        found.update((tuple(row[: of.keys]), row) for row in cells)
        for row in cells:
            print("   ", "  ".join(row[:-2]), flush=True)

    each = _each(of, cases, options, given.processes)
    for number, (case, rows, missing) in enumerate(each, start=1):
        about = ", ".join(_text(case))
        print(f"{time.perf_counter() - start:6.0f} s  {number}/{len(cases)}  {about}", flush=True)
        if missing:
            print(f"    {missing}: not here, skipped")
        if rows:
            keep(rows, () if missing else _text(case))
            keep((of.then and of.then(read(file), *case)) or [])
    cells = [row[place] for row in found.values() for place in verdicts]
    if not cases:
        print("    no case is left to measure")
    elif verdicts:
        many = [sum(word in cell for cell in cells) for word in ("yes", "NO")]
        print("goals: {} met, {} missed".format(*many))
    for key, row in found.items():
        if any("NO" in row[place] for place in verdicts):
            print("  missed:", ", ".join(key))


def _each(
    of: Measurement, cases: list[tuple], options: dict, processes: int | None
) -> Iterator[tuple[tuple, list, str]]:
    """Each case with its rows, as they come."""
    if (processes or of.processes) == 1:
        yield from ((case, *_rows(of.work, case, options)) for case in cases)
        return
    with ProcessPoolExecutor(processes or of.processes, mp_context=SPAWN) as pool:
        futures = {pool.submit(_rows, of.work, case, options): case for case in cases}
        yield from ((futures[done], *done.result()) for done in as_completed(futures))


def _rows(work: Callable, case: tuple, options: dict) -> tuple[list, str]:
    """The rows of a case, and which data they end at because they are not here."""
    rows = []
    try:
        rows.extend(work(*case, **options))
    except NotHereError as missing:
        return rows, str(missing)
    return rows, ""


def _text(case: tuple) -> tuple[str, ...]:
    return tuple(map(str, case))


def main(about: str | None) -> None:
    """Read a script's command line and run its measurements."""
    script = Path(sys.argv[0]).name
    parser = argparse.ArgumentParser(
        description=about,
        epilog=f"example: python benchmarks/{script} {next(iter(MEASUREMENTS))} --to /tmp/results",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    names = ", ".join(MEASUREMENTS)
    add("measurements", nargs="*", metavar="measurement", help=f"{names} (without any: all)")
    add("--list", action="store_true", help="name the measurements, their results and goals")
    add("--only", nargs="+", default=[], metavar="VALUE", help="cases that have all these values")
    add("--resume", action="store_true", help="skip cases saved at this commit with these options")
    add("--to", metavar="FOLDER", help="where results go, instead of benchmarks/results")
    add("--processes", type=int, metavar="N", help="cases at a time")
    options = {name: one for of in MEASUREMENTS.values() for name, one in of.options.items()}
    for name, default in options.items():
        users = {key: of.options[name] for key, of in MEASUREMENTS.items() if name in of.options}
        text = "default: " + ", ".join(f"{key} {value}" for key, value in users.items())
        add(f"--{name}", type=type(default), metavar="N", help=text)
    given = parser.parse_args()
    if given.to:
        os.environ["TAILRACE_RESULTS"] = str(Path(given.to).resolve())
    unknown = set(given.measurements) - MEASUREMENTS.keys()
    if unknown:
        parser.error(f"no measurement {', '.join(sorted(unknown))}; there are {names}")
    for name in given.measurements or MEASUREMENTS:
        of = MEASUREMENTS[name]
        print(f"{script} {name} -> {of.file}.csv", f"({of.goal})" if of.goal else "", flush=True)
        if not given.list:
            run(of, given)


if __name__ == "__main__":
    scripts = [one for one in sorted(HERE.glob("*.py")) if "\n@measurement(" in one.read_text()]
    for script in scripts:
        code = subprocess.run([sys.executable, str(script), *sys.argv[1:]], check=False).returncode
        if code:
            sys.exit(code)
