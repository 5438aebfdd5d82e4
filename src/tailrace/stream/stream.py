"""A stream: one release per step, whatever happens.

It is the only mutable object.

Releasing a step twice costs twice, and drawing again after a crash that may have depended on the
draw is rejection sampling, which breaks the guarantee by itself. So, per step:

1. bound and count; write an **intent** durably: the counts and a fresh nonce. Then claim the step
   in the ledger.
2. Draw at the path (step, nonce), measure, sample. All of it is a function of the intent and the
   state before.
3. Commit state, memory and release in one transaction that erases the intent. Only then is anything
   delivered.

A process killed anywhere leaves either no intent (the step can be pushed again: nothing was drawn)
or an intent (opening finishes the step from it, with the same noise on the same counts). A copy or
an old backup of the directory stands beside or behind its mark in the ledger and is refused before
any draw; `Stream.fork` continues from it as a new charge.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from tailrace.calendar import Calendar
from tailrace.calls import told
from tailrace.counting.files import PREFIX
from tailrace.counting.memory import clean, former
from tailrace.counting.parts import files_of, like, on_executors, read_parts
from tailrace.counting.plan import Counts, opened
from tailrace.errors import ConfigError, Corrupt, DataError, HorizonReached, StateError
from tailrace.ledger import Ledger, Mark
from tailrace.mechanisms.base import Mechanism, Table, Takes, rows_of
from tailrace.noise import Noise
from tailrace.privacy.guarantee import Guarantee
from tailrace.privacy.loss import whole
from tailrace.privacy.unit import Event
from tailrace.storage.durable import remove
from tailrace.storage.store import Store
from tailrace.stream import log, state
from tailrace.stream.directory import (
    PathLike,
    beside_ledger,
    build,
    calendar_of,
    checked,
    checked_full,
    fingerprint,
    fork,
    ledger_of,
    mechanism_of,
    promise,
    unit_key,
    where,
)
from tailrace.stream.log import Full, History
from tailrace.stream.open import OpenStep
from tailrace.stream.published import (
    LATEST,
    announce,
    as_json,
    deliver,
    last_published,
    without_domain,
)
from tailrace.stream.release import Kind, Release, View, facts, kind_of
from tailrace.stream.state import seal_rows
from tailrace.stream.step import (
    Intent,
    claim,
    commit,
    draw,
    found,
    mark,
    published_time,
    sampled,
    seal,
    write,
)

_AFTER = (
    "This stream began with the last table of {}: errors are those of its own noise, and that "
    "table has an error of its own."
)
Shown = TypeVar("Shown", covariant=True)
Own = TypeVar("Own")


class Showing(Protocol[Shown]):
    """A mechanism, by the type of its views, which releases then have."""

    def view(self, public: Any) -> Shown: ...


@told
class Stream(Generic[View]):
    """A mechanism at work, one release per step.

    `Stream(mechanism)` lives in memory; `Stream.create` and `Stream.open` keep it in a directory.

    >>> import polars as pl
    >>> from tailrace import Categorical, Event, HistogramStream, PureDP, Schema, Stream
    >>> ward = Schema(sex=Categorical(["f", "m"]))
    >>> budget = PureDP(epsilon=1)
    >>> counts = HistogramStream(domain=ward, privacy=budget, unit=Event(), horizon=7)
    >>> stream = Stream(counts)
    >>> release = stream.push(pl.DataFrame({"sex": ["f", "m", "f"]}))
    >>> str(release.guarantee)[-26:]
    'not charged to any ledger.'
    """

    def __init__(self, mechanism: Showing[View], *, noise: Noise | None = None) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="tailrace-")
        made, source = checked(mechanism, noise)
        self._begin(made, source, Path(self._temporary.name), state.beginning(made))

    @classmethod
    def create(
        cls,
        path: PathLike,
        mechanism: Showing[Own],
        *,
        population: str,
        ledger: PathLike | None = None,
        noise: Noise | None = None,
        calendar: Calendar | None = None,
        full: Full = "checkpoints",
        after: str | None = None,
    ) -> Stream[Own]:
        """Make a stream in a new directory.

        It is charged to `population` for its whole horizon.

        `calendar` says in public which period each step stands for. Each step publishes what
        changed; `full` says when it also publishes the whole table: now and then ("checkpoints"),
        as `latest.parquet` beside that, or at "every" step. With "none" the stream makes no table
        at all, and holds none: steps publish their measurements, and `Release.drawn` makes a table
        of these wherever one is needed. `after` names a stream whose last table is added to the
        first step, as rows like any: releases say that stated errors leave out that table's.
        """
        made, source = checked(mechanism, noise)
        build(
            path,
            made,
            population=population,
            ledger=ledger,
            noise=source,
            standing=state.beginning(made),
            calendar=calendar,
            full=full,
            after=after,
        )
        return cls.open(path, ledger=ledger)

    @classmethod
    def open(
        cls, path: PathLike, *, ledger: PathLike | None = None, full: Full | None = None
    ) -> Stream[Any]:
        """Open the stream in `path`, finishing a step cut off.

        `full` changes from now on when whole tables are published.
        """
        folder = where(path)
        store = Store(folder / "private")
        stream = cls.__new__(cls)
        try:
            about = store.json("about")
            mechanism = mechanism_of(about)
            noise = Noise.kept(store.secret, about["noise"])
            stream._begin(
                mechanism, noise, store.folder / "memory", state.read_standing(store, mechanism)
            )
            stream._store, stream._entry, stream._units = store, about["entry"], about["units"]
            stream._open = OpenStep(store, bytes.fromhex(stream._units))
            stream._calendar, stream._full = calendar_of(about), about["full"]
            stream._after = about.get("after")
            stream._kind = Kind.kept(store.json("kind") if store.has("kind") else None)
            if full is not None and checked_full(full) != stream._full:
                stream._full = full
                # One that no step replaces would not be the latest for long.
                remove(stream._public / LATEST)
                with store.transaction("about") as change:
                    change.put("about", {**about, "full": full})
            stream._ledger = ledger_of(folder, ledger)
            stream._resume()
        except BaseException:
            store.close()
            raise
        return stream

    @classmethod
    def fork(cls, path: PathLike, to: PathLike, *, ledger: PathLike | None = None) -> Stream[Any]:
        """Make a stream in `to` that continues from `path`.

        It has noise of its own and is charged in full.

        Rows that were added in `path` and not published are taken over. A step that was cut off is
        not: add or push its rows again. A feed goes on after them, by its note.
        """
        fork(path, to, ledger)
        return cls.open(to, ledger=ledger)

    def _begin(
        self, mechanism: Mechanism, noise: Noise, segments: Path, standing: state.Standing
    ) -> None:
        self._mechanism, self._noise = mechanism, noise
        self._segments, self._standing = segments, standing
        self._store: Store | None = None
        self._ledger: Ledger | None = None
        self._calendar: Calendar | None = None
        # A stream in memory keeps its cut here.
        self._cut: state.Cut | None = None
        # The id of its entry in the ledger.
        self._entry = ""
        self._units = unit_key(noise)
        # The rows that were added and are not published yet, and the kind of the last frame, which
        # all releases have.
        self._open, self._kind = OpenStep(None, bytes.fromhex(self._units)), Kind()
        # When the whole table is published.
        self._full: Full = "checkpoints"
        # The stream whose last table this one began with.
        self._after: str | None = None
        # The synthetic rows released last, once they are needed.
        self._rows: Table | None = None
        # A stream in memory keeps its releases here.
        self._kept: dict[int, Release[View]] = {}
        self._process, self._lock = os.getpid(), threading.RLock()
        self._usable, self._closed = True, False
        bounded = not isinstance(mechanism.unit, Event) and mechanism.takes is not Takes.Once
        if mechanism.rounds > 1 and bounded:
            raise ConfigError(
                "A mechanism of several rounds cannot bound the contributions of a person yet: use "
                "unit=Event()."
            )

    def _resume(self) -> None:
        """Check the ledger, finish a step cut off, deliver releases."""
        store, ledger = self._store, self._ledger
        assert store is not None and ledger is not None
        if store.json("about")["fork"] and ledger.mark(self._entry) == Mark(0, ""):
            # A fork takes its place in the ledger, once.
            ledger.claim(self._entry, before=Mark(0, ""), after=self._standing.mark)
        intent = found(store, self._mechanism, self._standing.state)
        stood = ledger.mark(self._entry)
        ours = {self._standing.mark}
        if intent is not None:
            ours.add(mark(self._noise, intent))
        if intent is not None and intent.step != self.step + 1:
            raise Corrupt(
                "The step in progress does not follow the last one: restore the whole directory "
                "from a backup."
            )
        if stood not in ours:
            raise beside_ledger(store.folder.parent.name, self.step, stood.step)
        self._deliver_missing()
        if intent is not None:
            self._finish(intent)
        self._clean()

    def _deliver_missing(self) -> None:
        """Publish the last steps, where the public directory lacks them."""
        assert self._store is not None
        if not self._store.has("said/mechanism.json"):
            # An earlier version did not publish it.
            plain = self._store.json("about")["mechanism"]
            with self._store.transaction("said") as change:
                change.keep("said/mechanism.json", as_json(without_domain(plain)))
        announce(self._store, self._public, self.guarantee, self._mechanism.rows.columns)
        last = last_published(self._public, self.step)
        if self._full == "latest" and self.step and not os.path.lexists(self._public / LATEST):
            last = min(last, self.step - 1)
        for step in range(last + 1, self.step + 1):
            self._deliver(step)

    def _deliver(self, step: int) -> None:
        assert self._store is not None
        latest = None
        if step == self.step and self._full == "latest":
            latest = log.whole(self._table(), self._mechanism.rows.types)
        deliver(self._store, self._public, step, latest)

    @property
    def step(self) -> int:
        """The last step that was released; 0 before the first."""
        return self._standing.mark.step

    @property
    def name(self) -> str:
        """The name of its folder without the ending; of one in memory, "in memory"."""
        return "in memory" if self._store is None else self._store.folder.parent.stem

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism, with its configuration."""
        return self._mechanism

    @property
    def calendar(self) -> Calendar | None:
        """Which period each step stands for, where that was said."""
        return self._calendar

    @property
    def guarantee(self) -> Guarantee:
        """The promise of the whole stream."""
        return promise(self._mechanism, self._noise, charged=self._store is not None)

    @property
    def notes(self) -> tuple[str, ...]:
        """What readers of every release should know."""
        return () if self._after is None else (_AFTER.format(self._after),)

    @property
    def note(self) -> Any:
        """The last note that `add` was given."""
        with self._lock:
            self._check_usable()
            return self._open.note

    def add(
        self,
        frame: Any,
        deletes: Any = None,
        *,
        key: str | None = None,
        later: Mapping[int, tuple[Any, Any]] | None = None,
        note: Any = None,
    ) -> bool:
        """Add rows to the next step; `publish` releases it.

        Rows may come in any number of calls, order and engine: the release is that of one `push` of
        all of them. They are counted or, where people are told apart, kept under keyed hashes; once
        the call returns they are durable. `key` names the rows, for example by a batch's id:
        a call whose key was there before, at any step, is passed over without a look at its rows,
        so that whoever is not sure that a call ended may repeat it. Return whether it was new.

        `later` holds rows that came early, inserted and deleted, by their step: they are kept as
        rows, in private, and counted at their step; those beyond the horizon are dropped. `note`
        says how far the rows were read, for example offsets, in plain values that JSON can hold.
        All of it is kept in one transaction: `stream.note` always belongs to the rows that are in.

        >>> import polars as pl
        >>> from tailrace import Categorical, Event, HistogramStream, PureDP, Schema, Stream
        >>> parts = {"privacy": PureDP(epsilon=1), "unit": Event(), "horizon": 7}
        >>> stream = Stream(HistogramStream(domain=Schema(sex=Categorical(["f", "m"])), **parts))
        >>> rows = pl.DataFrame({"sex": ["f", "m", "f"]})
        >>> [stream.add(rows, key="morning"), stream.add(rows, key="morning")]
        [True, False]
        >>> stream.publish().step
        1
        """
        with self._lock:
            self._check_usable()
            if self._open.seen(key):
                return False
            kind = kind_of(frame)
            self._check_step(self.step + 1, deletes)
            _check_plain(later, note)
            if self._mechanism.rounds > 1 and self._mechanism.takes is not Takes.Once:
                raise ConfigError(
                    "A mechanism of several rounds takes the rows of a step in one call: push them."
                )
            early = {step: self._early(step, *rows) for step, rows in (later or {}).items()}
            early = {step: rows for step, rows in early.items() if rows != (None, None)}
            nothing = frame is None and deletes is None
            parts = iter(()) if nothing else self._parts(frame, deletes)
            if self._store is None:
                parts = list(parts)
            # An error of the disk leaves the stream to be opened again.
            self._usable = False
            try:
                self._open.add(parts, key, self.step + 1, early, note)
            except (ConfigError, DataError):
                self._usable = True
                raise
            self._usable = True
            self._kind = self._kind if frame is None else kind
            return True

    def publish(self, *, step: int | None = None, asked: datetime | None = None) -> Release[View]:
        """Release the next step from all rows added to it.

        `step` and `asked` are those of `push`.
        """
        return self.push(None, step=step, asked=asked)

    def push(
        self,
        frame: Any,
        deletes: Any = None,
        *,
        step: int | None = None,
        asked: datetime | None = None,
    ) -> Release[View]:
        """Release the next step from its rows, and those added before.

        `frame` holds the rows inserted since the last step, `deletes` those deleted; None is an
        empty batch.

        `step` says which one it is meant to be: one that is committed returns the stored release
        and does not look at the frame; one beyond the next is refused. `asked` is the time that is
        published where there is no calendar: when the step was asked for, before its rows were
        read. Where left out it is the time of the call.
        """
        asked = datetime.now(UTC) if asked is None else asked
        with self._lock:
            return self._push(frame, deletes, step, asked)

    def _push(self, frame: Any, deletes: Any, step: int | None, asked: datetime) -> Release[View]:
        self._check_usable()
        wanted = self.step + 1 if step is None else whole("step", step)
        if wanted <= self.step:
            # Only the kind of the frame is looked at.
            with contextlib.suppress(DataError):
                return replace(self.release(wanted), kind=kind_of(frame))
            return self.release(wanted)
        kind = self._kind if frame is None else kind_of(frame)
        self._check_step(wanted, deletes)
        intent = self._seal(frame, deletes, published_time(self._calendar, wanted, asked))
        self._open.close(wanted)
        self._kind = kind
        return replace(self._finish(intent), kind=kind)

    def _check_step(self, wanted: int, deletes: Any) -> None:
        """Refuse rows that no step, or no guarantee, would cover."""
        if wanted > self.step + 1:
            raise StateError(
                f"The next step is {self.step + 1}; step {wanted} cannot come before it. Push the "
                "missing steps first."
            )
        horizon = self._mechanism.horizon
        if horizon is not None and wanted > horizon:
            raise HorizonReached(
                f"All {horizon} steps of the horizon are released; a new stream is a new charge."
            )
        if deletes is not None and not self._mechanism.deletes:
            raise ConfigError(
                "This mechanism was made without deletes: its guarantee does not cover them. Make "
                "one with deletes=True."
            )

    def _parts(self, frame: Any, deletes: Any) -> Iterator[Any]:
        """Rows of the next step, read."""
        segment = self._standing.segment
        return read_parts(
            self._mechanism.plan(self._standing.state.public),
            self._mechanism.unit,
            frame,
            deletes,
            key=bytes.fromhex(self._units),
            known=former(None if segment is None else self._segments / segment),
            folder=self._segments,
        )

    def _added(self, frame: Any, deletes: Any) -> Callable[[], Iterable[Any]] | None:
        """The parts of the next step with these rows; None where there are no others."""
        step, plan = self.step + 1, self._mechanism.plan(self._standing.state.public)
        there = on_executors(plan, self._mechanism.unit, frame, deletes)
        if not there and not self._open.begun(step):
            return None
        last = list(self._parts(frame, deletes))
        none, public = like(plan, self._mechanism.unit), self._standing.state.public
        # Parts that an older version counted by another plan.
        renewed = getattr(self._mechanism, "recounted", lambda _, part: part)
        return lambda: itertools.chain(
            (
                renewed(public, part) if isinstance(part, Counts) else part
                for part in self._open.parts(none)
            ),
            (part for rows in self._open.early(step) for part in self._parts(*rows)),
            last,
        )

    def _early(self, step: int, frame: Any, deletes: Any) -> tuple[bytes | None, bytes | None]:
        """Rows of a later step, as they are kept; none beyond the horizon."""
        if whole("later", step) <= self.step + 1:
            raise StateError(
                f"later holds rows of steps after the next one, which is {self.step + 1}: give its "
                "own rows as the frame."
            )
        self._check_step(self.step + 1, deletes)
        horizon, plan = self._mechanism.horizon, self._mechanism.plan(self._standing.state.public)
        # Read twice, which a stream cannot be.
        frame, deletes = opened(frame), opened(deletes)
        # A wrong shape is refused now: once the rows are kept, their step must be able to count.
        for _ in self._parts(frame, deletes):
            pass
        if horizon is not None and step > horizon:
            return None, None
        adds, gone = (None if rows is None else seal_rows(plan, rows) for rows in (frame, deletes))
        return adds, gone

    def bind(self, cut: state.Cut, *, moved: Callable[[], bool] | None = None) -> None:
        """Keep how a source cuts steps; refuse another cut.

        `run` calls this.
        """
        with self._lock:
            self._check_usable()
            begun = self.step > 0 or self._open.note is not None
            self._cut = state.bound(self._store, self._cut, cut, begun=begun, moved=moved)

    def release(self, step: int) -> Release[View]:
        """A stored release again."""
        with self._lock:
            return self._release(step)

    def _release(self, step: int) -> Release[View]:
        self._check_released(step)
        if self._store is None:
            return replace(self._kept[step], kind=self._kind)
        found = state.read_release(self._store, step, self._mechanism, self.guarantee)
        return replace(found, kind=self._kind)

    def view(self, step: int) -> View:
        """The view of a stored release, without reading its table."""
        with self._lock:
            if self._store is None:
                return self._release(step).view
            self._check_released(step)
            public = state.read_public(self._store, step, self._mechanism.init().public)
            return self._mechanism.view(public)

    def history(self) -> History:
        """Every synthetic row ever released, with the steps at which it stood."""
        with self._lock:
            self._check_usable()
            nothing = state.no_rows(self._mechanism)
            if self._store is not None and self.step:
                return log.read_history(self._store, self.step, nothing)
            kept = [self._kept[step] for step in range(1, self.step + 1)]
            columns = {
                name: np.concatenate([none, *(one.added.columns[name] for one in kept)])
                for name, none in nothing.columns.items()
            }
            born = np.repeat(np.arange(1, self.step + 1), [len(one.added) for one in kept])
            gone = np.full(len(born), self.step + 1)
            for one in kept:
                gone[one.removed.numbers] = one.step
            return History(columns, born, gone)

    def close(self, erase: bool = False) -> None:
        """Close the stream; `erase` removes all that is private.

        Then only the releases remain.
        """
        with self._lock:
            self._check_process()
            if self._store is not None and not self._closed:
                if erase:
                    self._deliver_missing()
                    self._store.erase()
                else:
                    self._store.close()
            elif not self._closed:
                self._temporary.cleanup()
            self._usable, self._closed = False, True

    def __repr__(self) -> str:
        horizon = self._mechanism.horizon
        stands = f"step {self.step}" + ("" if horizon is None else f" of {horizon}")
        kept = "in memory" if self._store is None else self._store.folder.parent.name
        made = type(self._mechanism).__name__
        return f"<stream {kept} at {stands}: {made}; {self.guarantee.short}>"

    def _repr_html_(self) -> str:
        horizon = self._mechanism.horizon
        return facts(
            {
                "stream": "in memory" if self._store is None else self._store.folder.parent.name,
                "step": str(self.step) + ("" if horizon is None else f" of {horizon}"),
                "mechanism": type(self._mechanism).__name__,
                "columns": ", ".join(self._mechanism.rows.columns),
                "promise": str(self.guarantee),
            }
        )

    def __reduce__(self) -> Any:
        raise StateError(
            "A stream cannot be copied or pickled: it has one writer. Open its directory where you "
            "need it."
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_usable(self) -> None:
        if not self._usable:
            raise StateError(
                "This stream is closed, or a step of it was cut off: open it again with "
                "Stream.open."
            )
        self._check_process()

    def _check_released(self, step: int) -> None:
        self._check_usable()
        if not 1 <= whole("step", step) <= self.step:
            raise StateError(
                f"There is no release of step {step} yet: the last one is {self.step}."
            )

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise StateError(
                "A stream belongs to the process that opened it: after a fork, open it in one "
                "process only."
            )

    def _seal(self, frame: Any, deletes: Any, time: str) -> Intent:
        """Count the next step and write its intent."""
        intent = seal(
            self._mechanism,
            self._noise,
            self._standing,
            frame,
            deletes,
            time=time,
            segments=self._segments,
            key=bytes.fromhex(self._units),
            added=self._added(frame, deletes),
        )
        if self._store is not None:
            # From here on an error leaves the stream to be opened again.
            self._usable = False
            write(self._store, intent)
        return intent

    def _finish(self, intent: Intent) -> Release[View]:
        """Claim, draw, commit, and only then deliver."""
        # Until all of it is done: after an error the stream is opened again.
        self._usable = False
        before, store = self._standing, self._store
        after = claim(self._ledger, self._entry, self._noise, before, intent)
        table, types = self._table(), self._mechanism.rows.types
        drawn, view = draw(self._mechanism, self._noise, before, intent, self._segments)
        if self._full == "none":
            nothing = state.no_rows(self._mechanism)
            sample = table.after(table.numbers, nothing.cells, nothing.columns)
        else:
            sample = sampled(self._mechanism, self._noise, view, table, intent)
        release = Release(
            step=intent.step,
            guarantee=self.guarantee,
            provenance=self._provenance(intent, view),
            view=view,
            rows=sample.table,
            added=sample.table.since(table.born),
            removed=table.numbered(sample.removed),
            types=types,
        )
        standing = replace(before, state=drawn, mark=after, segment=intent.segment)
        if store is None:
            self._kept[release.step] = release
        else:
            changes = log.Changes(table, sample, types, self._full, release.provenance)
            standing = commit(store, standing, before.state, changes, self._kind)
        self._standing, self._rows = standing, sample.table
        self._clean()
        if store is not None:
            self._deliver(release.step)
        self._usable = True
        return release

    def _table(self) -> Table:
        """The synthetic rows released last."""
        if self._rows is None:
            nothing = state.no_rows(self._mechanism)
            codes = rows_of(self._mechanism, self._standing.state.public)
            self._rows = (
                nothing
                if self._store is None
                else log.read_table(self._store, self.step, codes, nothing)
            )
        return self._rows

    def _provenance(self, intent: Intent, view: Any) -> dict[str, Any]:
        from tailrace import __version__

        return {
            "tailrace": __version__,
            "fingerprint": fingerprint(self._mechanism),
            "step": intent.step,
            **({} if self._calendar is None else {"period": self._calendar.label(intent.step)}),
            "time": intent.time,
            "noise": self._noise.kind,
            # What a reader should know, from released numbers.
            **({"notes": notes} if (notes := [*self.notes, *getattr(view, "notes", ())]) else {}),
        }

    def _clean(self) -> None:
        """Remove the unit memory of other steps, and files of rows that were counted."""
        kept = {self._standing.segment}
        if any(path.name.startswith(PREFIX) for path in self._segments.iterdir()):
            plan = self._mechanism.plan(self._standing.state.public)
            kept |= files_of(self._open.parts(like(plan, self._mechanism.unit)))
        clean(self._segments, kept)

    @property
    def _public(self) -> Path:
        assert self._store is not None
        return self._store.folder.parent / "releases"


def _check_plain(later: Any, note: Any) -> None:
    """Refuse early rows that are no pairs by step, and a note that cannot be kept."""
    pairs = list(later.values()) if isinstance(later, Mapping) else [later]
    if later is not None and not all(isinstance(one, tuple) and len(one) == 2 for one in pairs):
        raise ConfigError(
            "later must hold, by step, pairs of frames inserted and deleted, for example "
            "{7: (frame, None)}."
        )
    try:
        plain = json.loads(json.dumps(note, allow_nan=False)) == note
    except (TypeError, ValueError, RecursionError):
        plain = False
    if not plain:
        raise ConfigError(
            "note must be made of plain values that JSON can hold: texts, numbers, lists, and "
            "tables whose keys are texts."
        )
