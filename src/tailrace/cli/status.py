"""`tailrace status`: read while another process may have the stream open."""

from __future__ import annotations

import json as encoding
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailrace.cli import say
from tailrace.config import Config, load
from tailrace.errors import Corrupt, StateError
from tailrace.ledger import Ledger, population_name
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


def show_status(path: Path, *, private: bool, json: bool) -> None:
    """Show promise, step and ledger, and to the curator the files."""
    place = Place.of(path)
    about, standing = peek(place.folder / "private", "about", "standing")
    promise = _promise(place.folder / "releases" / "guarantee.json")
    book = place.ledger
    entry = next((one for one in book.entries() if one.id == about["entry"]), None)
    calendar, step, horizon = calendar_of(about), standing["step"], promise["horizon"]
    following = (
        None if calendar is None or step == horizon else calendar.closes(step + 1).isoformat()
    )
    found: dict[str, Any] = {
        "stream": place.folder.name,
        "guarantee": promise["sentence"],
        "step": step,
        "horizon": horizon,
        "period": None if calendar is None or not step else calendar.label(step),
        "next_step_closes": following,
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
        return say.as_json(found)
    files = found.pop("private", None)
    shown = [(name, value) for name, value in found.items() if value is not None]
    say.facts([(name.replace("_", " "), f"{value}") for name, value in shown])
    if files:
        header = ("file", "used since step", "state", "rows now", "not counted", "problem")
        rows = [(name, *one.values()) for name, one in files["files"].items()]
        say.tell(files["note"])
        say.show("Files", header, [["" if x is None else f"{x}" for x in row] for row in rows])
    return None


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
        return {"sentence": found["sentence"], "horizon": found["horizon"]}
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        raise Corrupt(
            "releases/guarantee.json is missing or damaged: restore the whole directory from a "
            "backup."
        ) from None
