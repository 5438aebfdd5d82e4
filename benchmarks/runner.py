"""What every script of this folder shares: its declarations and its command line.

    python benchmarks/runner.py             run every script (--list: name all measurements)

A script declares measurements (`tailrace.experiments.runner`) and ends with `main(__doc__)`. What
repeats a paper's table or figure lies in `tailrace.experiments`; `tailrace experiments` runs it.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tailrace.errors import Error
from tailrace.experiments.runner import (
    STAMP,
    Lap,
    Measurement,
    NotHereError,
    alone,
    best_of,
    data,
    draw,
    mean_error,
    merge,
    read,
    run,
    text_of,
)

__all__ = [
    "HERE",
    "Lap",
    "NotHereError",
    "alone",
    "best_of",
    "data",
    "draw",
    "main",
    "mean_error",
    "measurement",
    "merge",
    "read",
]

HERE = Path(__file__).parent
MEASUREMENTS: dict[str, Measurement] = {}


def measurement(file: str, **about: Any) -> Callable[[Callable], Callable]:
    """Declare the decorated generator of rows: `Measurement.of`."""

    def declare(work: Callable) -> Callable:
        MEASUREMENTS[work.__name__] = Measurement.of(work, file, **about)
        return work

    return declare


def _told(of: Measurement, given: argparse.Namespace) -> None:
    """Run a script's measurement and print rows, and goals met."""
    asked = {name: value for name, value in vars(given).items() if value is not None}
    cases = [case for case in of.cases if all(one in map(str, case) for one in given.only)]
    verdicts = [place for place, form in enumerate(of.formats) if form == "?"]
    found, start = {}, time.perf_counter()
    ran = run(of, settings=asked, cases=cases, resume=given.resume, processes=given.processes)
    number = 0
    for done in ran:
        number, rows, about = done.number, done.rows, ", ".join(text_of(done.case))
        print(f"{time.perf_counter() - start:6.0f} s  {number}/{done.many}  {about}", flush=True)
        if done.missing:
            print(f"    {done.missing}: not here, skipped")
        found.update((tuple(row[: of.keys]), row) for row in rows)
        for row in rows:
            print("   ", "  ".join(row[: -len(STAMP)]), flush=True)
    cells = [row[place] for row in found.values() for place in verdicts]
    if not number:
        print("    no case is left to measure")
    elif verdicts:
        many = [sum(word in cell for cell in cells) for word in ("yes", "NO")]
        print("goals: {} met, {} missed".format(*many))
    for key, row in found.items():
        if any("NO" in row[place] for place in verdicts):
            print("  missed:", ", ".join(key))


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
            try:
                _told(of, given)
            except Error as error:
                sys.exit(str(error))


if __name__ == "__main__":
    scripts = [one for one in sorted(HERE.glob("*.py")) if "\n@measurement(" in one.read_text()]
    for script in scripts:
        code = subprocess.run([sys.executable, str(script), *sys.argv[1:]], check=False).returncode
        if code:
            sys.exit(code)
