"""The demonstration: a generated city, its releases and report."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from tailrace.calendar import Calendar
from tailrace.errors import ConfigError
from tailrace.ledger import Ledger
from tailrace.mechanisms import SpatialStream
from tailrace.privacy.guarantee import Guarantee
from tailrace.privacy.loss import PureDP
from tailrace.privacy.unit import Event
from tailrace.report.city import CITY, DAYS, days
from tailrace.report.lives import lives
from tailrace.report.of_stream import stream_report
from tailrace.report.places import follow
from tailrace.storage.durable import write_file
from tailrace.stream.stream import Stream

EPSILON = 1
STREAM = "city.tail"
MARKER = "DEMO.txt"  # says that the folder is the demonstration's own


@dataclass(frozen=True)
class Demo:
    """Files and figures of a demonstration."""

    folder: Path
    report: Path
    private_report: Path
    guarantee: Guarantee
    people: int  # generated
    synthetic: int
    error: tuple[float, float]  # of a count in a rectangle on the last day: measured and stated


def run(folder: Path, *, progress: Callable[[], None]) -> Demo:
    """Release the city into `folder` and write both reports.

    An earlier demonstration there is replaced.
    """
    _clear(folder)
    mechanism = SpatialStream(
        domain=CITY, privacy=PureDP(epsilon=EPSILON), unit=Event(), horizon=DAYS
    )
    calendar = Calendar(start="2026-03-01", period="1 day")
    changes = []
    with Stream.create(
        folder / STREAM, mechanism, population="generated city", calendar=calendar
    ) as stream:
        for day in days():
            stream.push(_frame(day.came), deletes=_frame(day.left))
            changes.append((day.came, day.left))
            progress()
        truth, entries = lives(changes), Ledger(folder / "tailrace.ledger").entries()
        report = folder / "report.html"
        private = folder / STREAM / "private" / "PRIVATE-report.html"
        report.write_text(stream_report(stream, entries), encoding="utf-8")
        write_file(private, stream_report(stream, entries, truth).encode(), private=True)
        followed = follow(stream, truth)
        assert followed.measured is not None
        return Demo(
            folder=folder / STREAM,
            report=report,
            private_report=private,
            guarantee=stream.guarantee,
            people=len(truth.at(DAYS)),
            synthetic=len(followed.synthetic.at(DAYS)),
            error=(float(followed.measured[-1]), float(followed.predicted[-1])),
        )


def _clear(folder: Path) -> None:
    """Remove an earlier demonstration, or refuse the folder."""
    made = [folder / name for name in (STREAM, "tailrace.ledger", "report.html")]
    marker = folder / MARKER
    if any(one.exists() for one in made) and not marker.is_file():
        raise ConfigError(
            f"{folder} holds something that the demonstration did not make: choose another folder "
            f"with --to."
        )
    for old in made:
        shutil.rmtree(old) if old.is_dir() else old.unlink(missing_ok=True)
    marker.write_text(
        "What lies here was made by tailrace demo, which replaces it when it is called again.\n"
    )


def _frame(places: np.ndarray) -> pl.DataFrame:
    return pl.DataFrame({name: places[:, axis] for axis, name in enumerate(CITY.columns)})
