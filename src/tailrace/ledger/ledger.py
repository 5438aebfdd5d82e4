"""The ledger: charges of populations, and marks of streams.

One SQLite file for many streams. It lies outside the streams' directories, so that a restored or
copied directory cannot bring its own past along: a stream is charged once, at create, for its whole
horizon, and claims every step here before it draws noise for it.

Every change is one transaction that no other process can interleave with (BEGIN IMMEDIATE), and is
on the disk when the call returns (rollback journal, synchronous=EXTRA). After a fork, the child
makes its own `Ledger`.

A population is one name however it is typed: letters are composed (NFC) and blanks are single, also
in older entries.

    caps      population (primary key), terms (JSON: loss, unit, neighbours), digest
    entries   number (order of charging), id, population, path, fingerprint, guarantee (JSON),
              fork_of, created, step, tag, digest

SQLite notices damage to its pages, not to the values in them, so each row carries a digest of
itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import unicodedata
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tailrace.calls import told
from tailrace.errors import BehindLedger, ConfigError, Mismatch
from tailrace.ledger.file import create, damaged, digest, sound, transaction
from tailrace.ledger.spending import Cap
from tailrace.privacy.guarantee import Guarantee
from tailrace.privacy.loss import Loss
from tailrace.privacy.unit import AddRemove, Neighbours, Unit
from tailrace.storage.durable import where

_COLUMNS = "id, population, path, fingerprint, guarantee, fork_of, created, step, tag"


@dataclass(frozen=True)
class Mark:
    """A stream's last claimed step, and its attempt's tag."""

    step: int
    tag: str

    def __post_init__(self) -> None:
        if type(self.step) is not int or not 0 <= self.step < 2**63:
            raise ConfigError("A mark's step must be a whole number of at least 0.")
        _text("tag", self.tag, empty=True)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One stream's charge, and its mark.

    `created` is a time in UTC, `fork_of` the entry that it continues.
    """

    id: str
    population: str
    path: str
    fingerprint: str
    guarantee: Guarantee
    mark: Mark
    created: str
    fork_of: str | None = None


@told
class Ledger:
    """The ledger in the file `path`, made if missing.

    Any number of processes may use it at once.

    `point` is called right before and right after each commit, with its name: tests interrupt the
    process there.

    >>> import tempfile
    >>> from tailrace import Event, PureDP
    >>> ledger = Ledger(tempfile.mkdtemp() + "/tailrace.ledger")
    >>> cap = ledger.cap("city 2026", PureDP(epsilon=1), Event())
    >>> promise = Guarantee(PureDP(epsilon=0.6), Event(), AddRemove, 365)
    >>> city = {"population": "city 2026", "fingerprint": "f", "guarantee": promise}
    >>> ledger.charge(path="a.tail", **city).mark
    Mark(step=0, tag='')
    >>> ledger.charge(path="b.tail", **city)
    Traceback (most recent call last):
    tailrace.errors.BudgetExceeded: Population 'city 2026' has a cap of epsilon = 1, of which ...
    """

    def __init__(
        self, path: str | os.PathLike[str], *, point: Callable[[str], None] = lambda _: None
    ) -> None:
        self.path = where(path)
        self._point = point
        create(self.path, point)
        with transaction(self.path, "BEGIN") as file:
            if not sound(file):
                raise damaged(self.path)
            # Reading checks every digest.
            _ = self._caps(file), self._entries(file)

    def cap(
        self, population: str, loss: Loss, unit: Unit, neighbours: Neighbours = AddRemove
    ) -> Cap:
        """Set or replace a population's cap, never below its spending."""
        name = population_name(population)
        cap = Cap(population=name, loss=loss, unit=unit, neighbours=neighbours)
        with self._change("ledger.cap") as file:
            cap.admit([entry.guarantee for entry in self._entries(file, name)])
            # The name may be typed otherwise.
            for (old,) in file.execute("SELECT population FROM caps").fetchall():
                if population_name(old) == name:
                    file.execute("DELETE FROM caps WHERE population = ?", (old,))
            row = (name, _json(Guarantee(loss, unit, neighbours, None)))
            file.execute("INSERT INTO caps VALUES (?, ?, ?)", (*row, digest(row)))
        return cap

    def caps(self) -> tuple[Cap, ...]:
        """Every cap, by name of population."""
        with transaction(self.path, "BEGIN") as file:
            return self._caps(file)

    def entries(self, population: str | None = None) -> tuple[Entry, ...]:
        """Every entry (of one population), in the order of charging."""
        with transaction(self.path, "BEGIN") as file:
            return self._entries(file, None if population is None else population_name(population))

    def charge(
        self,
        *,
        population: str,
        path: str,
        fingerprint: str,
        guarantee: Guarantee,
        fork_of: str | None = None,
    ) -> Entry:
        """Charge a stream for its whole horizon, once.

        One that was charged before and has no step yet is not charged again. Refused where a stream
        of the same path has released steps: its folder is not where it was, and making it again
        would release the same data under a second charge.
        """
        asked = Entry(
            id=uuid.uuid4().hex,
            population=population_name(population),
            path=_text("path", path),
            fingerprint=_text("fingerprint", fingerprint),
            guarantee=guarantee,
            mark=Mark(0, ""),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            fork_of=None if fork_of is None else _text("fork_of", fork_of),
        )
        with self._change("ledger.charge") as file:
            everyone = self._entries(file)
            for entry in everyone:
                if entry.path == asked.path and entry.mark.step:
                    raise self._lost(entry.mark)
                # A crash came between this charge and the stream's first step.
                if _same(entry, asked):
                    return entry
            held = [entry for entry in everyone if entry.population == asked.population]
            for cap in self._caps(file, asked.population):
                cap.admit([entry.guarantee for entry in held], guarantee)
            row = _row(asked)
            file.execute(
                f"INSERT INTO entries ({_COLUMNS}, digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, digest(row)),
            )
        return asked

    def claim(self, entry_id: str, *, before: Mark, after: Mark) -> None:
        """Move an entry's mark from `before` to `after`.

        Only one caller can; a mark that stands at `after` already is the caller's own.
        """
        if after != before and after.step <= before.step:
            raise ConfigError("A mark only moves forward: after.step must be above before.step.")
        with self._change("ledger.claim") as file:
            *rest, step, tag = self._row(file, entry_id)
            stands = Mark(step, tag)
            if stands == after:
                return
            if stands != before:
                raise _elsewhere(before, stands)
            moved = (after.step, after.tag)
            file.execute(
                "UPDATE entries SET step = ?, tag = ?, digest = ? WHERE id = ?",
                (*moved, digest((*rest, *moved)), entry_id),
            )

    def mark(self, entry_id: str) -> Mark:
        """Where an entry's mark stands."""
        with transaction(self.path, "BEGIN") as file:
            return Mark(*self._row(file, entry_id)[-2:])

    @contextlib.contextmanager
    def _change(self, name: str) -> Iterator[sqlite3.Connection]:
        with transaction(self.path, "BEGIN IMMEDIATE") as file:
            yield file
            self._point(name)
            file.execute("COMMIT")
            self._point(name)

    # All rows are read, and one population's kept, so that a damaged name hides no cap or charge.

    def _caps(self, file: sqlite3.Connection, population: str | None = None) -> tuple[Cap, ...]:
        rows = self._whole(file, "SELECT population, terms, digest FROM caps ORDER BY population")
        made = ((population_name(name), self._guarantee(terms)) for name, terms in rows)
        return tuple(
            Cap(population=name, loss=terms.loss, unit=terms.unit, neighbours=terms.neighbours)
            for name, terms in made
            if population in (None, name)
        )

    def _entries(
        self, file: sqlite3.Connection, population: str | None = None
    ) -> tuple[Entry, ...]:
        found = []
        for row in self._whole(file, f"SELECT {_COLUMNS}, digest FROM entries ORDER BY number"):
            named = dict(zip(_COLUMNS.split(", "), row, strict=True))
            named["population"] = population_name(named["population"])
            if population in (None, named["population"]):
                mark = Mark(named.pop("step"), named.pop("tag"))
                promise = self._guarantee(named.pop("guarantee"))
                found.append(Entry(**named, guarantee=promise, mark=mark))
        return tuple(found)

    def _row(self, file: sqlite3.Connection, entry_id: str) -> tuple:
        wanted = f"SELECT {_COLUMNS}, digest FROM entries WHERE id = ?"
        for row in self._whole(file, wanted, entry_id):
            return row
        raise BehindLedger(
            f"The ledger '{self.path.name}' has no entry of this stream: name the ledger it was "
            "made with, or continue from it with Stream.fork(path, to), which is charged as a new "
            "stream."
        )

    def _lost(self, mark: Mark) -> BehindLedger:
        return BehindLedger(
            f"The ledger '{self.path.name}' holds a stream of this path that stands at step "
            f"{mark.step}, and its folder is not here: a new one would release the same data "
            "again. Put the newest copy back, go on from an older one with Stream.fork(path, to), "
            "or choose another path, which is a new charge."
        )

    def _whole(self, file: sqlite3.Connection, query: str, *values: str) -> Iterator[tuple]:
        """The rows without their digests, which must be right."""
        for *row, stored in file.execute(query, values):
            if stored != digest(tuple(row)):
                raise damaged(self.path)
            yield tuple(row)

    def _guarantee(self, text: str) -> Guarantee:
        try:
            return Guarantee.from_dict(json.loads(text))
        except (ConfigError, TypeError, ValueError):
            # The digest is right, so it was written like this.
            raise Mismatch(
                f"The ledger '{self.path.name}' was written by another version of Tailrace: use "
                "that one."
            ) from None


def population_name(name: str) -> str:
    """Compose the letters of a population's name; make blanks single.

    >>> population_name(" cafe\u0301  2026") == "caf\u00e9 2026"
    True
    """
    named = " ".join(unicodedata.normalize("NFC", _text("population", name)).split())
    return _text("population", named)


def _elsewhere(before: Mark, stands: Mark) -> BehindLedger:
    if stands.step < before.step:
        return BehindLedger(
            f"The stream stands at step {before.step} and its ledger only at step {stands.step}: "
            "the ledger is an older copy, so restore the newest one."
        )
    return BehindLedger(
        f"The stream stands at step {before.step} and its ledger at step {stands.step} of another "
        "copy or a later state: use that one, or continue from this one with Stream.fork(path, "
        "to), which is charged as a new stream."
    )


def _same(entry: Entry, asked: Entry) -> bool:
    """Whether both are one charge, but for id and clock."""
    # as rows, since two (epsilon, delta) losses of different rho compare equal
    return _row(replace(entry, id=asked.id, created=asked.created)) == _row(asked)


def _row(entry: Entry) -> tuple:
    names = (entry.id, entry.population, entry.path, entry.fingerprint, _json(entry.guarantee))
    return (*names, entry.fork_of, entry.created, entry.mark.step, entry.mark.tag)


def _json(guarantee: Guarantee) -> str:
    return json.dumps(guarantee.to_dict(), sort_keys=True)


def _text(name: str, value: str, *, empty: bool = False) -> str:
    try:
        if isinstance(value, str) and (value.encode() or empty):
            return value
    except UnicodeEncodeError:
        pass
    raise ConfigError(
        f"{name} must be a text{'' if empty else ' that is not empty'}, without broken characters."
    )
