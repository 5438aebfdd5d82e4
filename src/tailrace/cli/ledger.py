"""`tailrace ledger`: caps, and what is spent of them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from tailrace.cli import say
from tailrace.config import load
from tailrace.errors import ConfigError, StateError
from tailrace.ledger import Entry, Ledger
from tailrace.privacy.loss import ApproxDP, PureDP
from tailrace.privacy.unit import Event, Unit, User
from tailrace.stream.directory import ledger_of


def show_ledger(stream: Path | None, path: Path, *, json: bool) -> None:
    """Show caps and charges of a stream's ledger, or of `path`."""
    book = _ledger(path) if stream is None else _ledger_of(stream)
    entries = book.entries()
    caps = []
    for cap in book.caps():
        spent = cap.spent(one.guarantee for one in entries if one.population == cap.population)
        told = {"cap": str(cap.loss), "unit": cap.unit.words(), "spent": cap.words(spent)}
        caps.append({"population": cap.population, **told})
    streams = [_entry(entry) for entry in entries]
    if json:
        return say.as_json({"caps": caps, "streams": streams})
    for title, rows in (("Caps", caps), ("Streams", streams)):
        if rows:
            say.show(title, tuple(rows[0]), [[_cell(one) for one in row.values()] for row in rows])
        else:
            say.tell(f"{title}: none.")
    return None


def _cell(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else f"{value}"


def set_cap(path: Path, population: str, epsilon: str, delta: str | None, unit: str) -> None:
    """Set a cap, in place of an earlier one."""
    cap = Ledger(path).cap(population, budget(epsilon, delta), protected(unit))
    say.tell(
        f"Population '{cap.population}' may lose {cap.loss} for {cap.unit.words()}, over all its "
        f"streams."
    )


def budget(epsilon: str, delta: str | None = None) -> PureDP | ApproxDP:
    """The loss that two flags say.

    >>> budget("0.5")
    PureDP(epsilon='0.5')
    """
    return PureDP(epsilon=epsilon) if delta is None else ApproxDP(epsilon=epsilon, delta=delta)


def protected(words: str) -> Unit:
    """The unit that a flag says.

    >>> protected("user patient 3")
    User(column='patient', events=3, records=None)
    """
    try:
        parts = shlex.split(words)
    except ValueError:
        parts = []
    if parts == ["event"]:
        return Event()
    if len(parts) == 3 and parts[0] == "user" and parts[2].isdecimal():
        return User(column=parts[1], events=int(parts[2]))
    raise ConfigError("unit is 'event', or 'user COLUMN EVENTS', for example 'user patient 3'.")


def _ledger_of(stream: Path) -> Ledger:
    """The ledger of a stream, given by folder or configuration."""
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
