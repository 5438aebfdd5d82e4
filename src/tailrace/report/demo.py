"""The demonstration: a generated city that nobody lives in."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from tailrace.calendar import Calendar
from tailrace.domain import Box
from tailrace.errors import ConfigError
from tailrace.ledger import Ledger
from tailrace.mechanisms.spatial.stream import SpatialStream
from tailrace.privacy.guarantee import Guarantee
from tailrace.privacy.loss import PureDP
from tailrace.privacy.unit import Event
from tailrace.report.page import stream_report
from tailrace.report.places import follow
from tailrace.report.truth import frame_at, true_history
from tailrace.storage.durable import write_file
from tailrace.stream.stream import Stream

DAYS = 60
CITY = Box(low=(0.0, 0.0), high=(12.0, 9.0), columns=("east", "north"))  # kilometres
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
    privacy, changes = PureDP(epsilon=1), []
    mechanism = SpatialStream(domain=CITY, privacy=privacy, unit=Event(), horizon=DAYS)
    about = {"population": "generated city", "calendar": Calendar(start="2026-03-01", period="day")}
    with Stream.create(folder / STREAM, mechanism, **about) as stream:
        for day in days():
            changes.append((_frame(day.came), _frame(day.left)))
            stream.push(changes[-1][0], deletes=changes[-1][1])
            progress()
        truth = true_history(changes, mechanism)
        entries = Ledger(folder / "tailrace.ledger").entries()
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
            people=len(frame_at(truth, DAYS)),
            synthetic=len(stream.release(DAYS).rows),
            error=(float(followed.measured[-1]), float(followed.stated[-1])),
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


@dataclass(frozen=True)
class Day:
    """Places of arrivals and departures; a move is both."""

    came: np.ndarray  # (rows, 2)
    left: np.ndarray


def days(
    seed: int = 60, *, arrivals: int = 700, moves: float = 0.02, leaves: float = 0.01
) -> Iterator[Day]:
    """Generate sixty days of arrivals and departures.

    Quarters grow and drift, nobody lives in the river, and a new quarter begins at half time.
    """
    rng = np.random.default_rng(seed)
    quarters = rng.uniform((1.0, 1.0), (11.0, 8.0), (14, 2))
    drift = rng.normal(0, 0.02, (14, 2))
    width = rng.uniform(0.15, 0.6, 14)
    size = rng.dirichlet(np.full(14, 1.5))
    people = np.zeros((0, 2))
    for day in range(DAYS):
        grown = size.copy()
        grown[-1] *= 6.0 if day >= DAYS // 2 else 0.0  # the new quarter
        centres = quarters + drift * day
        leaving = rng.random(len(people)) < leaves
        moving = ~leaving & (rng.random(len(people)) < moves)
        came = _homes(rng, arrivals + int(moving.sum()), centres, width, grown / grown.sum())
        gone = people[leaving | moving]
        people = np.concatenate([people[~(leaving | moving)], came])
        yield Day(came, gone)


def _homes(
    rng: np.random.Generator, count: int, centres: np.ndarray, width: np.ndarray, share: np.ndarray
) -> np.ndarray:
    """Draw places around the centres, on dry ground."""
    homes = np.zeros((0, 2))
    while len(homes) < count:
        quarter = rng.choice(len(centres), count, p=share)
        found = centres[quarter] + rng.normal(0, 1, (count, 2)) * width[quarter, None]
        anywhere = rng.random(count) < 0.05
        found[anywhere] = rng.uniform(CITY.low, CITY.high, (int(anywhere.sum()), 2))
        river = 4.5 + 1.2 * np.sin(found[:, 0] * 0.6)
        dry = np.abs(found[:, 1] - river) > 0.18
        inside = ((found > CITY.low) & (found < CITY.high)).all(axis=1)
        homes = np.concatenate([homes, found[dry & inside]])
    return homes[:count]
