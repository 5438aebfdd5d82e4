"""`tailrace status`: read while another process may have the stream open."""

from __future__ import annotations

import json as encoding
import sqlite3
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from tailrace.cli import say
from tailrace.cli.monitor import health, write_metrics
from tailrace.config import Config, load
from tailrace.errors import ConfigError, Corrupt, StateError
from tailrace.ledger import Ledger, population_name
from tailrace.sources.base import now
from tailrace.storage.store import loses_commits, peek
from tailrace.stream.directory import calendar_of, ledger_of

_FLAWED = (
    f"{sqlite3.sqlite_version} can lose a commit of a WAL database that several programs write "
    "(mended in 3.51.3). A stream has one writer and a ledger no WAL, so let no other program "
    "write private/state.db; update SQLite when you can"
)


@dataclass(frozen=True)
class Place:
    """A stream's folder, and the configuration where that was given."""

    folder: Path
    config: Config | None

    @classmethod
    def of(cls, path: Path) -> Place:
        if path.is_dir():
            return cls(path.resolve(), None)
        config = load(path)
        if not config.path.is_dir():
            raise StateError(f"{config.path.name} is not there yet: tailrace run {path} makes it.")
        return cls(config.path.resolve(), config)

    @property
    def ledger(self) -> Ledger:
        return ledger_of(self.folder, self.config.ledger if self.config else None)


def show_status(
    path: Path, *, private: bool, json: bool, fail_if_late: bool, slack: str, metrics: Path | None
) -> None:
    """Show promise, step and ledger, and to the curator the files.

    With `fail_if_late`, end with a code of its own where a step or a sink is late.
    """
    place = Place.of(path)
    about, standing = peek(place.folder / "private", "about", "standing")
    promise = _promise(place.folder / "releases" / "guarantee.json")
    book = place.ledger
    entry = next((one for one in book.entries() if one.id == about["entry"]), None)
    calendar, step, horizon = calendar_of(about), standing["step"], promise["horizon"]
    following = (
        None if calendar is None or step == horizon else calendar.closes(step + 1).isoformat()
    )
    stands = health(place.config, calendar, step=step, horizon=horizon, now=now(), slack=slack)
    if fail_if_late and calendar is None:
        raise ConfigError(
            "Without a calendar no step has a time, so none can be late: leave --fail-if-late out."
        )
    if metrics is not None:
        write_metrics(metrics, place.folder.name, stands, calendar, epsilon=promise["epsilon"])
    found: dict[str, Any] = {
        "stream": place.folder.name,
        "guarantee": promise["sentence"],
        "step": step,
        "horizon": horizon,
        "period": None if calendar is None or not step else calendar.label(step),
        "next_step_closes": following,
        "late_steps": stands.late,
        "sinks_lacking": stands.sinks or None,
        "warning": stands.near,
        "population": about["population"],
        "ledger": str(book.path.name),
        "ledger_step": None if entry is None else entry.mark.step,
        "cap": _cap(book, population_name(about["population"])),
        "sqlite": _FLAWED if loses_commits() else None,
    }
    if private:
        from tailrace.cli.check import PRIVATE, files_now

        found["private"] = {"note": PRIVATE, "files": files_now(place.config)}
    if json:
        say.as_json(found)
    else:
        _show(found)
    if fail_if_late and stands.near is not None:
        # A timer mails what is printed there.
        say.tell(stands.near, err=True)
    if fail_if_late and stands.alarms:
        say.refuse(" ".join(stands.alarms), say.LATE)


def _show(found: dict[str, Any]) -> None:
    files = found.pop("private", None)
    sinks = found.pop("sinks_lacking") or {}
    for name, lacking in sinks.items():
        found[f"{name} lacks"] = "cannot be read" if lacking is None else f"{lacking} steps"
    shown = [(name, value) for name, value in found.items() if value is not None]
    say.facts([(name.replace("_", " "), f"{value}") for name, value in shown])
    if files:
        header = ("file", "used since step", "state", "rows now", "not counted", "problem")
        rows = [(name, *one.values()) for name, one in files["files"].items()]
        say.tell(files["note"])
        say.show("Files", header, [["" if x is None else f"{x}" for x in row] for row in rows])


def _cap(book: Ledger, population: str) -> str | None:
    """The population's cap and its spending; a warning where uncapped."""
    entries = [entry.guarantee for entry in book.entries(population)]
    for cap in book.caps():
        if cap.population == population:
            return f"{cap.loss}, of which {cap.words(cap.spent(entries))} is spent"
    return f"none, and what its {len(entries)} streams lose adds up" if len(entries) > 1 else None


def _promise(path: Path) -> dict[str, Any]:
    """What is promised, as it was published."""
    try:
        found = encoding.loads(path.read_bytes())
        epsilon = found["loss"].get("epsilon")
        return {
            "sentence": found["sentence"],
            "horizon": found["horizon"],
            "epsilon": None if epsilon is None else float(Fraction(str(epsilon))),
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise Corrupt(
            "releases/guarantee.json is missing or damaged: restore the whole directory from a "
            "backup."
        ) from None
