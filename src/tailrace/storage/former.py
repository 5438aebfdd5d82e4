"""Streams of format 2: read once, to bring them over.

private/state.db    all values, tables included; pages of 64 kB
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

from tailrace.errors import Corrupt, StateError
from tailrace.storage.guarding import check_private
from tailrace.storage.store import FORMER, digest_of, explained, lock, secret_of, unfit


class Former:
    """The private directory of a stream of format 2, locked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        check_private(folder)
        if not (folder / "state.db").is_file():
            raise StateError(f"{folder.parent.name} is not a stream: it has no private/state.db.")
        self._lock = lock(folder / "lock", folder.parent.name)
        with contextlib.ExitStack() as opened:
            opened.callback(self._lock.close)
            self.secret = secret_of(folder / "key")
            with explained(folder):
                self._database = sqlite3.connect(folder / "state.db", isolation_level=None)
                opened.callback(self._database.close)
                found = self._database.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL")
                if found.fetchall() != [(FORMER,)]:
                    raise StateError(
                        f"{folder.parent.name} is not a stream of format 2: only those are "
                        "brought over."
                    )
            if self.json("format") != 2:
                raise unfit()
            self._opened = opened.pop_all()

    def __enter__(self) -> Former:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def find(self, name: str) -> bytes | None:
        """A value, or None."""
        with explained(self.folder):
            row = self._database.execute(
                "SELECT data, digest FROM value WHERE name = ?", (name,)
            ).fetchone()
        if row is not None and (not isinstance(row[0], bytes) or digest_of(name, row[0]) != row[1]):
            raise Corrupt(
                f"'{name}' in private/state.db is damaged: restore the whole directory from a "
                "backup."
            )
        return None if row is None else row[0]

    def bytes(self, name: str) -> bytes:
        """A value, as it was written."""
        data = self.find(name)
        if data is None:
            raise unfit()
        return data

    def json(self, name: str) -> Any:
        """A value that is JSON."""
        try:
            return json.loads(self.bytes(name))
        except (ValueError, RecursionError):
            raise unfit() from None
