"""One step: seal, claim, draw, commit, deliver.

- `seal` counts the rows and returns an intent; nothing is drawn.
- `write` keeps the intent durably; from here on the step can only be finished.
- `claim` takes the step in the ledger, once.
- `draw` adds the noise: a function of the intent and the state before; `sampled` makes rows.
- `commit` stores state and release, and erases the intent, in one transaction.
- `deliver` (in `published`) gives the files of a committed step their public names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tailrace.calendar import Calendar
from tailrace.counting.parts import bounded, together
from tailrace.counting.plan import Plan, opened
from tailrace.counting.step import UnitMemory, count
from tailrace.errors import ConfigError
from tailrace.ledger import Ledger, Mark
from tailrace.mechanisms.base import Mechanism, Sample, State, Table, Takes
from tailrace.noise import Noise
from tailrace.storage.codec import pack, unpack
from tailrace.storage.durable import point
from tailrace.storage.store import Store, understood
from tailrace.stream import log
from tailrace.stream.open import below
from tailrace.stream.release import Kind
from tailrace.stream.state import (
    Standing,
    public_file,
    seal_rows,
    unseal_rows,
    write_standing,
)

_BATCH = ("intent/adds", "intent/deletes")


@dataclass(frozen=True)
class Intent:
    """Everything that finishes a step, beside the state before it."""

    step: int
    # Names the attempt: noise is drawn at (step, nonce).
    nonce: str
    # The unit memory after this step.
    segment: str | None
    # Published: when the step was asked for, however often it is finished.
    time: str
    # `Counts`, or the counts of a plan that takes everything at once.
    counts: Any
    # Rows added and deleted, where a step may take several rounds.
    sealed: tuple[bytes | None, bytes | None] = (None, None)


def published_time(calendar: Calendar | None, step: int, asked: datetime) -> str:
    """The time published: the calendar's, or when asked.

    No clock is read once rows are: how long they took is private.
    """
    if not isinstance(asked, datetime) or asked.utcoffset() is None:
        raise ConfigError(
            "asked must be a datetime with a time zone, for example datetime.now(UTC)."
        )
    time = asked if calendar is None else calendar.closes(step)
    return time.astimezone(UTC).isoformat(timespec="seconds")


def seal(
    mechanism: Mechanism,
    noise: Noise,
    standing: Standing,
    frame: Any,
    deletes: Any,
    *,
    time: str,
    segments: Path,
    key: bytes,
    added: Callable[[], Iterable[Any]] | None = None,
) -> Intent:
    """Bound and count the next step's rows; nothing is drawn.

    `added` gives the parts of a step that was filled in several calls, in place of frames.
    """
    step = standing.mark.step + 1
    nonce = noise.at("step", step).nonce()
    snapshot = mechanism.takes is Takes.Snapshots
    plan = mechanism.plan(standing.state.public)
    if added is not None:
        frame, deletes = together(plan, mechanism.unit, added, segments)
    elif not isinstance(plan, Plan):
        frame = frame if bounded(plan, mechanism.unit) else plan.read(frame)
    elif mechanism.rounds > 1:
        # Read more than once, which a stream cannot be.
        frame, deletes = (None if rows is None else opened(rows) for rows in (frame, deletes))
    after = f"{step:06d}-{nonce[:8]}"
    counts, segment = count(
        plan,
        mechanism.unit,
        frame,
        deletes,
        step=step,
        snapshot=snapshot,
        memory=UnitMemory(segments, key, standing.segment, after, point),
    )
    sealed = (None, None)
    if mechanism.rounds > 1:
        gone = None if deletes is None else seal_rows(plan, deletes)
        sealed = (seal_rows(plan, frame), gone)
    return Intent(step, nonce, segment, time, counts, sealed)


def write(store: Store, intent: Intent) -> None:
    """Keep an intent durably, in place of an earlier one and of the open step."""
    about = {
        "step": intent.step,
        "nonce": intent.nonce,
        "segment": intent.segment,
        "time": intent.time,
    }
    rows = {
        name: data for name, data in zip(_BATCH, intent.sealed, strict=True) if data is not None
    }
    with store.transaction("intent") as change:
        change.erase("intent")
        change.erase("open")
        change.erase(below(intent.step))
        change.put("intent", json.dumps(about).encode())
        change.put("intent/counts", pack(intent.counts))
        for name, data in rows.items():
            change.put(name, data)


@understood()
def found(store: Store, mechanism: Mechanism, state: State) -> Intent | None:
    """The intent of a step cut off, if any."""
    if store.find("intent") is None:
        return None
    plan = mechanism.plan(state.public)
    like = plan.none if isinstance(plan, Plan) else plan.counts(None)
    about, counts = store.json("intent"), unpack(store.bytes("intent/counts"), like=like)
    # Earlier versions wrote no time.
    time = about.get("time") or datetime.now(UTC).isoformat(timespec="seconds")
    sealed = (store.find(_BATCH[0]), store.find(_BATCH[1]))
    return Intent(about["step"], about["nonce"], about["segment"], time, counts, sealed)


def mark(noise: Noise, intent: Intent) -> Mark:
    """Where the ledger stands once a step is claimed."""
    tag = noise.at("tag", intent.step, intent.nonce).keyed_hash(b"tag").hex()[:32]
    return Mark(intent.step, tag)


def claim(
    ledger: Ledger | None, entry: str, noise: Noise, standing: Standing, intent: Intent
) -> Mark:
    """Take a step in the ledger; refuse a stale copy."""
    after = mark(noise, intent)
    if ledger is not None:
        ledger.claim(entry, before=standing.mark, after=after)
    return after


def draw(
    mechanism: Mechanism, noise: Noise, standing: Standing, intent: Intent, segments: Path
) -> tuple[State, Any]:
    """Measure with noise; return state and view."""
    noise = _own(noise, intent)
    measured = mechanism.measure(standing.state, intent.counts, noise.at("round", 0))
    for turn in range(1, mechanism.rounds):
        if not measured.again:
            break
        plan = mechanism.plan(measured.state.public)
        counts = plan.counts(*(unseal_rows(plan, rows, segments) for rows in intent.sealed))
        measured = mechanism.measure(measured.state, counts, noise.at("round", turn))
    return measured.state, mechanism.view(measured.state.public)


def sampled(mechanism: Mechanism, noise: Noise, view: Any, table: Table, intent: Intent) -> Sample:
    """The next table, of a view alone."""
    return mechanism.sample(view, table, _own(noise, intent).at("sample").generator())


def _own(noise: Noise, intent: Intent) -> Noise:
    """The noise of one attempt at a step."""
    return Noise.kept(noise.secret, noise.kind).at("step", intent.step, intent.nonce)


def commit(
    store: Store, standing: Standing, before: State, changes: log.Changes, kind: Kind
) -> Standing:
    """Store a step at once, and erase its intent; return where the stream stands."""
    step = standing.mark.step
    said = {name[5:]: store.bytes(name) for name in store.names("said")} if step == 1 else {}
    # Readers have the state of the step before, unless an earlier version made it.
    follows = any(store.has(log.kept(step - 1, name)) for name in log.states_of(step - 1))
    name, data, chain = public_file(standing, before.public if step > 1 and follows else None)
    with store.transaction("commit", erases=True) as change:
        written = changes.write(change, standing.log, said, {name: data})
        standing = replace(standing, log=written, public=chain)
        standing = write_standing(change, standing, before.private)
        change.put("kind", kind.name)
        change.erase("intent")
    return standing
