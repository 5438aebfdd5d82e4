"""The private directory of a stream: named values with checksums in one SQLite file, changed in whole transactions.

    private/state.db     configuration, state, the intent of the step in progress, releases     (0600, WAL, synchronous=FULL, secure_delete)
    private/key          the secret of the stream's noise and hashes                            (0600)
    private/memory/      segments of the unit memory, immutable; the database points at one
    private/lock         held while a process has the stream open

A value is either as it was written or refused: each carries a BLAKE2b digest, and the file is checked when it is opened. A
transaction that has been committed is on disk (synchronous=FULL), and the log that would keep erased values is cut at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tailrace.durable import point, sync, write_file
from tailrace.errors import Corrupt, Mismatch, StateError

FORMAT = 2

_REFUSED = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
}
_PATIENCE = 3  # times that a checkpoint waits for readers, each as long as the connection's timeout
_SCHEMA = "CREATE TABLE value (name TEXT PRIMARY KEY, data BLOB NOT NULL, digest BLOB NOT NULL)"


class Store:
    """The open private directory of one stream; one process at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not (folder / "state.db").is_file():
            raise StateError(
                f"{folder.parent.name} is not a stream: it has no private/state.db. Make one with Stream.create."
            )
        self._lock = _lock(folder / "lock", folder.parent.name)
        try:
            self.secret = _secret(folder / "key")
            self._database = _connect(folder / "state.db")
            with _explained(folder):
                _cut(self._database)  # a killed commit may have left erased values
                if self._database.execute("PRAGMA quick_check").fetchone()[0] != "ok":
                    raise Corrupt("private/state.db is damaged: restore the whole directory from a backup.")
            if self.json("format") != FORMAT:
                raise Mismatch(
                    f"This stream has another format than {FORMAT}: open it with the version of Tailrace that made it."
                )
        except BaseException:
            self._lock.close()
            raise

    @classmethod
    def create(cls, folder: Path, secret: bytes, values: Mapping[str, bytes]) -> None:
        """A new private directory, durable; it is not opened."""
        folder.mkdir(mode=0o700)
        (folder / "memory").mkdir(mode=0o700)
        write_file(folder / "key", secret, private=True)
        write_file(folder / "lock", b"", private=True)
        os.close(os.open(folder / "state.db", os.O_CREAT | os.O_WRONLY, 0o600))
        database = _connect(folder / "state.db")
        with _explained(folder), contextlib.closing(database):
            database.execute("BEGIN")
            database.execute(_SCHEMA)
            for name, data in {"format": json.dumps(FORMAT).encode(), **values}.items():
                _put(database, name, data)
            database.execute("COMMIT")
            _cut(database)
        sync(folder)

    def bytes(self, name: str) -> bytes:
        """A value, as it was written."""
        found = self.find(name)
        if found is None:
            raise Corrupt(f"private/state.db lacks '{name}': restore the whole directory from a backup.")
        return found

    def find(self, name: str) -> bytes | None:
        """A value, or None."""
        with _explained(self.folder):
            row = self._database.execute("SELECT data, digest FROM value WHERE name = ?", (name,)).fetchone()
        if row is None:
            return None
        if _digest(name, row[0]) != row[1]:
            raise Corrupt(f"'{name}' in private/state.db is damaged: restore the whole directory from a backup.")
        return row[0]

    def length(self, name: str) -> int:
        """The length of a value, or -1."""
        with _explained(self.folder):
            row = self._database.execute("SELECT length(data) FROM value WHERE name = ?", (name,)).fetchone()
        return -1 if row is None else row[0]

    def json(self, name: str) -> Any:
        """A value that is JSON."""
        return json.loads(self.bytes(name))

    @contextlib.contextmanager
    def transaction(self, name: str, *, erases: bool = False) -> Iterator[Changing]:
        """Change several values at once; all of it is on disk when the block ends, or none of it.

        The log keeps what a transaction erases until it is cut: `erases` cuts it.
        """
        with _explained(self.folder):
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield Changing(self._database)
                point(f"{name}, before")
                self._database.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._database.execute("ROLLBACK")
                raise
            point(f"{name}, after")
            if erases:
                _cut(self._database)
                point(f"{name}, checkpointed")

    def close(self) -> None:
        """Let go of the directory."""
        self._database.close()
        self._lock.close()


def peek(folder: Path, *names: str) -> list[Any]:
    """JSON values of a private directory that another process may have open; nothing is written, locked or finished."""
    with _explained(folder), contextlib.closing(_reading(folder / "state.db")) as database:
        rows = [database.execute("SELECT data, digest FROM value WHERE name = ?", (name,)).fetchone() for name in names]
    if any(row is None or _digest(name, row[0]) != row[1] for name, row in zip(names, rows, strict=True)):
        raise Corrupt("private/state.db is damaged: restore the whole directory from a backup.")
    return [json.loads(row[0]) for row in rows]


class Changing:
    """The values of a store inside a transaction."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def put(self, name: str, data: bytes | Any) -> None:
        """Set a value: bytes, or anything JSON can hold."""
        _put(self._database, name, data if isinstance(data, bytes) else json.dumps(data).encode())

    def erase(self, prefix: str) -> None:
        """Remove `prefix` and what lies below it."""
        self._database.execute("DELETE FROM value WHERE name = ? OR name LIKE ?", (prefix, f"{prefix}/%"))


def _cut(database: sqlite3.Connection) -> None:
    """Cut the log, which holds what was erased; a reader that looks right now is waited for."""
    for _ in range(_PATIENCE):
        if not database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            return
    raise StateError(
        "Another program keeps private/state.db open for reading, so what was erased cannot be wiped. The step is safe: close "
        "that program and run again."
    )


def _put(database: sqlite3.Connection, name: str, data: bytes) -> None:
    """Set a value; one of the same length is overwritten in place, which frees no pages that would have to be wiped."""
    digest = _digest(name, data)
    found = database.execute("SELECT rowid, length(data) FROM value WHERE name = ?", (name,)).fetchone()
    if found is None or found[1] != len(data) or not data:
        database.execute("INSERT OR REPLACE INTO value VALUES (?, ?, ?)", (name, data, digest))
        return
    with database.blobopen("value", "data", found[0]) as blob:
        blob.write(data)
    database.execute("UPDATE value SET digest = ? WHERE rowid = ?", (digest, found[0]))


def _digest(name: str, data: bytes) -> bytes:
    return hashlib.blake2b(name.encode() + b"\0" + data, digest_size=32).digest()


def _connect(path: Path) -> sqlite3.Connection:
    with _explained(path.parent):
        database = sqlite3.connect(path, isolation_level=None, timeout=5, check_same_thread=False)

        database.execute("PRAGMA page_size=65536")  # values are large: fewer, longer pages
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute("PRAGMA secure_delete=ON")
        return database


def _reading(path: Path) -> sqlite3.Connection:
    if not path.is_file():
        raise StateError(f"{path.parent.parent.name} is not a stream: it has no private/state.db.")
    return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=5)


def _secret(path: Path) -> bytes:
    try:
        secret = path.read_bytes()
    except OSError:
        raise Corrupt("private/key cannot be read: restore the whole directory from a backup.") from None
    if len(secret) != 64 or hashlib.blake2b(secret[:32], digest_size=32).digest() != secret[32:]:
        raise Corrupt("private/key is damaged: restore the whole directory from a backup.")
    return secret[:32]


def keyed(secret: bytes) -> bytes:
    """What the key file holds: the secret and its digest."""
    return secret + hashlib.blake2b(secret, digest_size=32).digest()


def _lock(path: Path, name: str) -> Any:
    try:
        file = path.open("rb+")
    except OSError:
        raise StateError(f"{name} cannot be written: give this user the right to, or free the disk.") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise StateError(f"{name} is open in another process: close it there first, a stream has one writer.") from None
    return file


@contextlib.contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Errors of the database in a sentence."""
    try:
        yield
    except sqlite3.Error as error:
        # the low byte is SQLite's primary code: what the disk refuses is told apart from what the file holds
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in _REFUSED:
            raise StateError(
                f"{folder.parent.name} cannot be written: the disk is full, read-only or refuses. Nothing was lost; mend it and "
                "open the stream again."
            ) from None
        raise Corrupt("private/state.db is damaged: restore the whole directory from a backup.") from None
