"""`tailrace status`, `export` and `ledger`: what can be said of a stream while another process has
it open.
"""

from __future__ import annotations

import json as encoding
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailrace.cli import say
from tailrace.cli.words import budget, protected
from tailrace.cli.written import write_new
from tailrace.config import load
from tailrace.config.models import Config
from tailrace.errors import ConfigError, Corrupt, StateError
from tailrace.ledger import Entry, Ledger, population_name
from tailrace.sinks.folders import csv_of
from tailrace.storage.store import loses_commits, peek
from tailrace.stream.directory import calendar_of, ledger_of

_FLAWED = (
    f"{sqlite3.sqlite_version} can lose a commit of a WAL database that several programs write "
    f"(mended in 3.51.3). A stream has "
    "one writer and a ledger no WAL, so let no other program write private/state.db; update SQLite "
    "when you can"
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


def show_status(path: Path, *, private: bool, json: bool) -> None:
    """The promise, the step, the ledger; and for the curator the files."""
    place_ = Place.of(path)
    about, standing = peek(place_.folder / "private", "about", "standing")
    promise = _promise(place_.folder / "releases" / "guarantee.json")
    book = ledger_of(place_.folder, place_.config.ledger if place_.config else None)
    entry = next((one for one in book.entries() if one.id == about["entry"]), None)
    calendar, step, horizon = calendar_of(about), standing["step"], promise["horizon"]
    following = (
        None if calendar is None or step == horizon else calendar.closes(step + 1).isoformat()
    )
    found: dict[str, Any] = {
        "stream": place_.folder.name,
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
        from tailrace.cli.check import PRIVATE
        from tailrace.cli.shelved import files_now

        found["private"] = {"note": PRIVATE, "files": files_now(place_.config)}
    if json:
        return say.as_json(found)
    shown = {
        name: value for name, value in found.items() if value is not None and name != "private"
    }
    say.facts([(name.replace("_", " "), f"{value}") for name, value in shown.items()])
    if private:
        _show_files(found["private"])
    return None


def _cap(book: Ledger, population: str) -> str | None:
    """What the population may lose, or that nothing limits what its streams lose together."""
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


def _show_files(private: dict[str, Any]) -> None:
    say.tell(private["note"])
    header = ("file", "used since step", "state", "rows now", "not counted", "problem")
    cells = [(name, *one.values()) for name, one in private["files"].items()]
    say.show(
        "Files", header, [["" if cell is None else f"{cell}" for cell in row] for row in cells]
    )


def export_table(path: Path, to: Path, step: int | None, *, formulas: bool) -> None:
    """One table as a file; it is already public."""
    import io

    import polars as pl

    releases = Place.of(path).folder / "releases"
    held = sorted(int(one.name) for one in releases.iterdir() if one.name.isdigit())
    wanted = step if step is not None else (held[-1] if held else 0)
    if wanted not in held:
        raise StateError(
            f"There is no release of step {wanted}: the last one is {held[-1] if held else 0}."
        )
    table, buffer = releases / f"{wanted:06d}" / "table.parquet", io.BytesIO()
    try:
        frame = pl.read_parquet(table)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        raise Corrupt(
            f"releases/{table.parent.name}/{table.name} is damaged: move its folder away, and "
            f"tailrace run writes it again."
        ) from None
    if to.suffix.lower() == ".csv":
        buffer.write(csv_of(frame, formulas=formulas))
    elif to.suffix.lower() == ".parquet":
        frame.write_parquet(buffer)
    else:
        raise ConfigError(f"{to} must end in .csv or .parquet.")
    write_new(to, buffer.getvalue())
    say.tell(f"Wrote the table of step {wanted} to {to}.")


def show_ledger(stream: Path | None, path: Path, *, json: bool) -> None:
    """Caps and entries of a ledger: a stream's, or the one at `path`."""
    book = _ledger(path) if stream is None else _ledger_of(stream)
    entries = book.entries()
    caps = [
        {
            "population": cap.population,
            "cap": str(cap.loss),
            "unit": cap.unit.words(),
            "spent": cap.words(
                cap.spent(one.guarantee for one in entries if one.population == cap.population)
            ),
        }
        for cap in book.caps()
    ]
    streams = [_entry(entry) for entry in entries]
    if json:
        return say.as_json({"caps": caps, "streams": streams})
    for title, rows in (("Caps", caps), ("Streams", streams)):
        if rows:
            words = {True: "yes", False: "no"}
            cells = [
                [words[one] if isinstance(one, bool) else f"{one}" for one in row.values()]
                for row in rows
            ]
            say.show(title, tuple(rows[0]), cells)
        else:
            say.tell(f"{title}: none.")
    return None


def set_cap(path: Path, population: str, epsilon: str, delta: str | None, unit: str) -> None:
    """Set a cap, in place of an earlier one."""
    cap = Ledger(path).cap(population, budget(epsilon, delta), protected(unit))
    say.tell(
        f"Population '{cap.population}' may lose {cap.loss} for {cap.unit.words()}, over all its "
        f"streams."
    )


def _ledger_of(stream: Path) -> Ledger:
    """The ledger that a stream is charged to, by its folder or its configuration."""
    if stream.is_dir():
        return ledger_of(stream.resolve(), None)
    config = load(stream)
    return ledger_of(config.path, config.ledger)


def _ledger(path: Path) -> Ledger:
    if not path.is_file():
        raise StateError(f"There is no ledger {path}: say where it is with --ledger.")
    return Ledger(path)


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "population": entry.population,
        "stream": Path(entry.path).name,
        "guarantee": entry.guarantee.short,
        "step": entry.mark.step,
        "charged": entry.created,
        "fork": entry.fork_of is not None,
    }
