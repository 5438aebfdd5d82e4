"""The contract of a sink, and one in memory."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Protocol

import numpy as np

from tailrace.calls import told
from tailrace.errors import StateError
from tailrace.stream.release import Release


class Sink(Protocol):
    """Where releases go to.

    Putting one in again is fine; a different one of a step that is held is refused.
    """

    def holds(self) -> set[int]:
        """The steps that it has."""
        ...

    def put(self, release: Release) -> None:
        """Take a release in."""
        ...


def name_of(sink: Sink) -> str:
    """How a sink is called in messages: its kind, and its folder or table."""
    place = getattr(sink, "path", None)
    named = getattr(place, "name", None) or getattr(sink, "table", None)
    return type(sink).__name__ if named is None else f"{type(sink).__name__} {named}"


@told
def digest(release: Release) -> str:
    """A short name for a release: its step and rows, in any sink, engine or process."""
    hashed = hashlib.blake2b(digest_size=16)
    for part in ([release.step, *release.rows.columns], *release.rows.columns.values()):
        data = _bytes(part)
        hashed.update(len(data).to_bytes(8, "little"))
        hashed.update(data)
    return hashed.hexdigest()


def check_same(release: Release, held: object, place: str) -> None:
    """Refuse a release whose digest is not the one held."""
    if held != digest(release):
        raise StateError(
            f"{place} holds a different release of step {release.step}: releases are never "
            "replaced. Give this stream a sink of its own."
        )


@told
class Memory:
    """Keeps the releases themselves, by step, in `releases`.

    >>> Memory().holds()
    set()
    """

    def __init__(self) -> None:
        self.releases: dict[int, Release] = {}

    def holds(self) -> set[int]:
        return set(self.releases)

    def put(self, release: Release) -> None:
        # Reads all of it before any is held.
        name = digest(release)
        if release.step in self.releases:
            check_same(self.releases[release.step], name, "This memory")
        else:
            self.releases[release.step] = release


def values(column: np.ndarray) -> list[Any]:
    """A column of a release in Python's values, None where one is missing."""
    if column.dtype.kind == "f":
        return [None if value != value else value for value in column.tolist()]  # decoded as NaN
    return column.tolist()


def _bytes(part: Any) -> bytes:
    if isinstance(part, np.ndarray) and part.dtype != object:
        kind = {"f": "<f8", "i": "<i8", "b": "|b1"}[part.dtype.kind]
        return np.ascontiguousarray(part, kind).tobytes()
    return json.dumps(part.tolist() if isinstance(part, np.ndarray) else part).encode()
