"""Where measurements go: a CSV per claim, headed by what it was measured on."""

import csv
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).parent / "results"


def commit() -> str:
    """The commit that was measured; marked where files differ from it."""
    head = _git("rev-parse", "--short", "HEAD")
    return head + (
        "+changes" if _git("status", "--porcelain", "--", "src", "benchmarks/*.py") else ""
    )


def _git(*arguments: str) -> str:
    folder = Path(__file__).parents[1]
    return subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


def processor() -> str:
    """The processor's own name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )


def save(name: str, header: list[str], rows: Sequence[Sequence[object]]) -> None:
    """Write results/NAME.csv, and print it."""
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / f"{name}.csv").open("w", newline="") as file:
        file.write(f"# commit {commit()}; {processor()}; Python {platform.python_version()}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
    print(f"\nresults/{name}.csv")
    widths = [max(len(str(row[i])) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, *rows]:
        print("  ".join(str(cell).rjust(width) for cell, width in zip(row, widths, strict=True)))
