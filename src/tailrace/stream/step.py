"""A step that has been counted and not yet drawn: written down first, so that it can be finished
whatever happens.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tailrace.calendar import Calendar
from tailrace.errors import ConfigError
from tailrace.storage.codec import pack, unpack
from tailrace.storage.store import Store, understood

_BATCH = ("intent/adds", "intent/deletes")


@dataclass(frozen=True)
class Intent:
    """All that finishing a step needs, beside the state before it."""

    step: int
    nonce: str  # names the attempt: noise is drawn at (step, nonce)
    segment: str | None  # of the unit memory, after this step
    # when the step was asked for, which is published: the same however often it is finished
    time: str
    counts: Any  # Counts, or what a plan of everything at once makes
    sealed: tuple[bytes | None, bytes | None] = (
        None,
        None,
    )  # rows added and deleted, where a step may take several rounds


def published_time(calendar: Calendar | None, step: int, asked: datetime) -> str:
    """When a step closed by the calendar, or was asked for.

    No clock is read once rows are: how long they took is private.
    """
    if not isinstance(asked, datetime) or asked.utcoffset() is None:
        raise ConfigError(
            "asked must be a datetime with a time zone, for example datetime.now(UTC)."
        )
    time = asked if calendar is None else calendar.closes(step)
    return time.astimezone(UTC).isoformat(timespec="seconds")


def values(intent: Intent) -> dict[str, bytes]:
    """`intent` as the values of a store."""
    about = {
        "step": intent.step,
        "nonce": intent.nonce,
        "segment": intent.segment,
        "time": intent.time,
    }
    rows = {
        name: data for name, data in zip(_BATCH, intent.sealed, strict=True) if data is not None
    }
    return {"intent": json.dumps(about).encode(), "intent/counts": pack(intent.counts), **rows}


@understood()
def found(store: Store, like: Callable[[], Any]) -> Intent | None:
    """The step that was cut off, if one was; its counts have the shape of those that `like`
    makes.
    """
    if store.find("intent") is None:
        return None
    about, counts = store.json("intent"), unpack(store.bytes("intent/counts"), like=like())
    time = about.get("time") or datetime.now(UTC).isoformat(
        timespec="seconds"
    )  # not written by earlier versions
    sealed = (store.find(_BATCH[0]), store.find(_BATCH[1]))
    return Intent(about["step"], about["nonce"], about["segment"], time, counts, sealed)
