"""The open step: rows that were added, and are not published yet.

    open/00000007    a part: what was read of some rows (`counting.parts`)
    key/<hash>       the step that the rows of a call went to, under the keyed hash of its key

A call of `add` keeps its parts and its key in one transaction; the transaction that writes the
intent of the step erases all parts. Keys stay for ever. They are hashed with the key of the unit
memory, which a fork keeps too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from tailrace.errors import ConfigError
from tailrace.storage.codec import pack, unpack
from tailrace.storage.store import Changing, Store, understood


class OpenStep:
    """The parts of the next step, in a store or (None) in memory."""

    def __init__(self, store: Store | None, secret: bytes) -> None:
        self._store, self._secret = store, secret
        self._parts: list[Any] = []
        self._keys: set[str] = set()
        self._many = 0
        if store is not None and (names := store.names("open")):
            with understood():
                self._many = int(names[-1].removeprefix("open/"))

    def __bool__(self) -> bool:
        return self._many > 0

    def seen(self, key: str | None) -> bool:
        """Whether rows came under this key before, at any step."""
        if key is None:
            return False
        name = self._name(key)
        return name in self._keys if self._store is None else self._store.has(name)

    def add(self, parts: Iterable[Any], key: str | None, step: int) -> None:
        """Keep parts and their key, durably, all or nothing."""
        if self._store is None:
            self._parts += parts
            self._many = len(self._parts)
            self._keys |= set() if key is None else {self._name(key)}
            return
        many = self._many
        with self._store.transaction("add") as change:
            for many, part in enumerate(parts, many + 1):  # noqa: B020
                change.put(f"open/{many:08d}", pack(part))
            if key is not None:
                change.put(self._name(key), step)
        self._many = many

    def parts(self, like: Any) -> Iterator[Any]:
        """All parts so far, one after another."""
        if self._store is None:
            yield from self._parts
            return
        with understood():
            for name in self._store.names("open"):
                yield unpack(self._store.bytes(name), like=like)

    def close(self) -> None:
        """Begin the next step: what was added is in an intent."""
        self._parts, self._many = [], 0

    def _name(self, key: str) -> str:
        if not isinstance(key, str) or not key:
            raise ConfigError(
                "key must be a text that names these rows, for example a batch's id or a file's "
                "digest."
            )
        data = key.encode("utf-8", "surrogatepass")
        hashed = hashlib.blake2b(data, digest_size=16, key=self._secret, person=b"tailrace add")
        return f"key/{hashed.hexdigest()}"


def copy(store: Store, change: Changing, step: int) -> None:
    """Let a fork at `step` have the parts, and the keys of rows that it holds.

    Rows of a step that was cut off are not taken over, and may come again.
    """
    store.copy("open", change)
    cut_off = store.has("intent")
    for name in store.names("key"):
        with understood():
            if store.json(name) <= step or not cut_off:
                change.put(name, store.json(name))
