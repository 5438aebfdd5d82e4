"""The open step: rows that were added, and are not published yet.

    open/00000007    a part: what was read of some rows (`counting.parts`)
    later/000009/00000002/adds, /deletes
                     rows that came early, until their step is the next one
    key/<hash>       the step that the rows of a call went to, under the keyed hash of its key
    note             how far a source was read

A call of `add` keeps its parts, early rows, key and note in one transaction; the transaction that
writes the intent of a step erases its parts and its early rows. Early rows are kept as rows: the
plan that counts them is known once the steps before theirs are released. Keys stay for ever. They
are hashed with the key of the unit memory, which a fork keeps too.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tailrace.errors import ConfigError
from tailrace.storage.codec import pack, unpack
from tailrace.storage.store import Changing, Store, understood

Early = Mapping[int, tuple[bytes | None, bytes | None]]  # rows by step, added and deleted
_EARLY = ("adds", "deletes")


class OpenStep:
    """The parts of the next step, in a store or (None) in memory."""

    def __init__(self, store: Store | None, secret: bytes) -> None:
        self._store, self._secret = store, secret
        self._parts: list[Any] = []
        self._early: dict[int, list[tuple[bytes | None, bytes | None]]] = {}
        self._keys: set[str] = set()
        self._note: Any = None
        self._many = 0
        if store is not None and (names := store.names("open")):
            with understood():
                self._many = int(names[-1].removeprefix("open/"))

    @property
    def note(self) -> Any:
        """How far a source was read; None where none said so."""
        if self._store is None or not self._store.has("note"):
            return self._note
        return self._store.json("note")

    def begun(self, step: int) -> bool:
        """Whether there are rows of a step."""
        return self._many > 0 or next(self.early(step), None) is not None

    def seen(self, key: str | None) -> bool:
        """Whether rows came under this key before, at any step."""
        if key is None:
            return False
        name = self._name(key)
        return name in self._keys if self._store is None else self._store.has(name)

    def add(
        self, parts: Iterable[Any], key: str | None, step: int, early: Early, note: Any
    ) -> None:
        """Keep parts, early rows, key and note, durably, all or nothing."""
        if self._store is None:
            self._parts += parts
            self._note = self._note if note is None else note
            for later, rows in early.items():
                self._early.setdefault(later, []).append(rows)
            self._many = len(self._parts)
            self._keys |= set() if key is None else {self._name(key)}
            return
        many = self._many
        with self._store.transaction("add") as change:
            for many, part in enumerate(parts, many + 1):  # noqa: B020
                change.put(f"open/{many:08d}", pack(part))
            for later, rows in early.items():
                place = f"{below(later)}/{len(self._numbers(later)):08d}"
                for name, data in zip(_EARLY, rows, strict=True):
                    if data is not None:
                        change.put(f"{place}/{name}", data)
            if key is not None:
                change.put(self._name(key), step)
            if note is not None:
                change.put("note", note)
        self._many = many

    def parts(self, like: Any) -> Iterator[Any]:
        """All parts so far, one after another."""
        if self._store is None:
            yield from self._parts
            return
        with understood():
            for name in self._store.names("open"):
                yield unpack(self._store.bytes(name), like=like)

    def early(self, step: int) -> Iterator[tuple[Any, Any]]:
        """The rows of a step that came before it was the next: added and deleted."""
        if self._store is None:
            yield from (tuple(map(_rows, pair)) for pair in self._early.get(step, []))
            return
        for place in self._numbers(step):
            with understood():
                adds, deletes = (_rows(self._store.find(f"{place}/{name}")) for name in _EARLY)
            yield adds, deletes

    def _numbers(self, step: int) -> list[str]:
        assert self._store is not None
        return sorted({name.rpartition("/")[0] for name in self._store.names(below(step))})

    def close(self, step: int) -> None:
        """Begin the next step: what was added to this one is in an intent."""
        self._parts, self._many = [], 0
        self._early.pop(step, None)

    def _name(self, key: str) -> str:
        if not isinstance(key, str) or not key:
            raise ConfigError(
                "key must be a text that names these rows, for example a batch's id or a file's "
                "digest."
            )
        data = key.encode("utf-8", "surrogatepass")
        hashed = hashlib.blake2b(data, digest_size=16, key=self._secret, person=b"tailrace add")
        return f"key/{hashed.hexdigest()}"


def below(step: int) -> str:
    """Where the early rows of a step are kept."""
    return f"later/{step:06d}"


def _rows(data: bytes | None) -> Any:
    import polars as pl

    return None if data is None else pl.read_parquet(io.BytesIO(data))


def copy(store: Store, change: Changing, step: int) -> None:
    """Let a fork at `step` have the parts, and the keys of rows that it holds.

    Rows of a step that was cut off are not taken over. They may come again under their keys; a
    source that goes by the note does not give them again.
    """
    store.copy("open", change)
    store.copy("later", change)
    if store.has("note"):
        change.put("note", store.json("note"))
    cut_off = store.has("intent")
    for name in store.names("key"):
        with understood():
            if store.json(name) <= step or not cut_off:
                change.put(name, store.json(name))
