"""A stream's private directory: named values, changed in transactions.

    private/state.db    configuration, state, intent of the step in progress, releases
                        (0600, WAL, synchronous=FULL, secure_delete)
    private/key         the secret of the stream's noise and hashes (0600)
    private/memory/     segments of the unit memory, immutable; the database points at one
    private/lock        held while a process has the stream open

A value is either as it was written or refused: each carries a BLAKE2b digest, and the file is
checked when it is opened. A transaction that has been committed is on disk (synchronous=FULL), and
the log that would keep erased values is cut at once.

Digests show damage, not malice: whoever writes the file can write them too. So a file from someone
else is trusted with nothing but values: its one table must be exactly ours (a view could run for
ever), and each value is checked as it is read.

One connection writes the database and cuts its log; `peek` only reads. Two that write and cut at
the same moment can lose a commit in the versions of SQLite that `loses_commits` names.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Any

from tailrace.errors import Corrupt, Mismatch, StateError
from tailrace.storage.durable import place, point, remove, sync, write_file
from tailrace.storage.guarding import check_private, open_plain

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
# Times that a checkpoint waits for readers, each as long as the connection's timeout.
_PATIENCE = 3
_SCHEMA = "CREATE TABLE value (name TEXT PRIMARY KEY, data BLOB NOT NULL, digest BLOB NOT NULL)"
_TABLES = [("index", "sqlite_autoindex_value_1", None), ("table", "value", _SCHEMA)]
# The name of private/ while it is removed.
_ERASING = "erasing"
_SEGMENT = (str, NoneType)
# The keys that JSON values hold at least.
_SHAPES: dict[str, dict[str, type | tuple[type, ...]]] = {
    "about": {
        **dict.fromkeys(("population", "entry", "noise", "units"), str),
        "mechanism": dict,
        "fork": bool,
        "calendar": (dict, NoneType),
    },
    "standing": {"step": int, "tag": str, "segment": _SEGMENT},
    "intent": {"step": int, "nonce": str, "segment": _SEGMENT},
}


class Store:
    """The open private directory of a stream, for one process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        check_private(folder)
        finish_erasing(folder.parent)
        _check_there(folder)
        self._lock = _lock(folder / "lock", folder.parent.name)
        opened = contextlib.ExitStack()
        opened.callback(self._lock.close)
        with opened:
            self.secret = _secret(folder / "key")
            self._database = opened.enter_context(contextlib.closing(_connect(folder / "state.db")))
            with _explained(folder):
                _check_tables(self._database)
                # A killed commit may have left erased values.
                _cut(self._database)
                if self._database.execute("PRAGMA quick_check").fetchone()[0] != "ok":
                    raise Corrupt(
                        "private/state.db is damaged: restore the whole directory from a backup."
                    )
            if self.json("format") != FORMAT:
                raise Mismatch(
                    f"This stream has another format than {FORMAT}: open it with the version of "
                    "Tailrace that made it."
                )
            opened.pop_all()

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

    @classmethod
    def add(cls, folder: Path, values: Mapping[str, bytes]) -> None:
        """Values that a new private directory still lacks, durable."""
        with _explained(folder), contextlib.closing(_connect(folder / "state.db")) as database:
            for name, data in values.items():
                _put(database, name, data)

    def bytes(self, name: str) -> bytes:
        """A value, as it was written."""
        return _there(name, self.find(name))

    def find(self, name: str) -> bytes | None:
        """A value, or None."""
        with _explained(self.folder):
            return _read(self._database, name)

    def fits(self, name: str, data: Iterable[bytes]) -> bool:
        """Whether these bytes are a value, by its digest."""
        with _explained(self.folder):
            row = self._database.execute(
                "SELECT digest FROM value WHERE name = ?", (name,)
            ).fetchone()
        return row is not None and _digest(name, *data) == row[0]

    def json(self, name: str) -> Any:
        """A value that is JSON."""
        return _parsed(name, self.bytes(name))

    @contextlib.contextmanager
    def transaction(self, name: str, *, erases: bool = False) -> Iterator[Changing]:
        """Change several values at once, durably, or none of them.

        The log keeps erased values until it is cut: `erases` cuts it.
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

    def erase(self) -> None:
        """Remove the directory; the next opening finishes an erasure."""
        self._database.close()
        try:
            place(self.folder, self.folder.with_name(_ERASING), "erase")
            finish_erasing(self.folder.parent)
        finally:
            self._lock.close()


def finish_erasing(stream: Path) -> None:
    """Finish an erasure that was begun, perhaps elsewhere."""
    aside = stream / _ERASING
    if not os.path.lexists(aside):
        return
    try:
        # The process that began the erasure may be removing it too.
        with contextlib.suppress(FileNotFoundError):
            remove(aside)
        sync(stream)
    except OSError:
        raise StateError(
            f"{stream.name}/{_ERASING}, which holds what was private, cannot be removed: give this "
            "user the right to."
        ) from None
    point("erased")


def peek(folder: Path, *names: str) -> list[Any]:
    """Read JSON values of a directory that may be open.

    Nothing is written, locked or finished.
    """
    check_private(folder)
    _check_there(folder)
    address = f"{(folder / 'state.db').as_uri()}?mode=ro"
    with (
        _explained(folder),
        contextlib.closing(sqlite3.connect(address, uri=True, timeout=5)) as database,
    ):
        _check_tables(database)
        found = {name: _read(database, name) for name in names}
    return [_parsed(name, _there(name, data)) for name, data in found.items()]


class Changing:
    """The values of a store inside a transaction."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def put(self, name: str, data: bytes | Any) -> None:
        """Set a value: bytes, or anything JSON can hold."""
        _put(self._database, name, data if isinstance(data, bytes) else json.dumps(data).encode())

    def erase(self, prefix: str) -> None:
        """Remove `prefix` and all values below it."""
        self._database.execute(
            "DELETE FROM value WHERE name = ? OR name LIKE ?", (prefix, f"{prefix}/%")
        )


def _cut(database: sqlite3.Connection) -> None:
    """Cut the log, which holds erased values.

    A reader that looks right now is waited for.
    """
    for _ in range(_PATIENCE):
        if not database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            return
    raise StateError(
        "Another program keeps private/state.db open for reading, so what was erased cannot be "
        "wiped. The step is safe: close that program and run again."
    )


def _put(database: sqlite3.Connection, name: str, data: bytes) -> None:
    """Set a value, in place if its length stays.

    That frees no pages, which would have to be wiped.
    """
    digest = _digest(name, data)
    found = database.execute(
        "SELECT rowid, length(data) FROM value WHERE name = ?", (name,)
    ).fetchone()
    if found is None or found[1] != len(data) or not data:
        database.execute("INSERT OR REPLACE INTO value VALUES (?, ?, ?)", (name, data, digest))
        return
    with database.blobopen("value", "data", found[0]) as blob:
        blob.write(data)
    database.execute("UPDATE value SET digest = ? WHERE rowid = ?", (digest, found[0]))


def _read(database: sqlite3.Connection, name: str) -> bytes | None:
    row = database.execute("SELECT data, digest FROM value WHERE name = ?", (name,)).fetchone()
    if row is None:
        return None
    if not isinstance(row[0], bytes) or _digest(name, row[0]) != row[1]:
        raise Corrupt(
            f"'{name}' in private/state.db is damaged: restore the whole directory from a backup."
        )
    return row[0]


def _there(name: str, data: bytes | None) -> bytes:
    if data is None:
        raise Corrupt(
            f"private/state.db lacks '{name}': restore the whole directory from a backup."
        )
    return data


def _parsed(name: str, data: bytes) -> Any:
    """Parse the JSON of a value, and check its shape."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise unfit() from None
    for key, kind in _SHAPES.get(name, {}).items():
        if not isinstance(value, dict) or not isinstance(value.get(key, ...), kind):
            raise unfit()
    if name in ("standing", "intent") and not (
        not isinstance(value["step"], bool)
        and 0 <= value["step"] < 2**63
        # A segment names a folder.
        and (value["segment"] is None or re.fullmatch(r"[0-9]{6,}-[0-9a-f]{8}", value["segment"]))
    ):
        raise unfit()
    return value


def unfit() -> Corrupt:
    """The error for sound values that make no stream."""
    return Corrupt(
        "private/state.db does not hold what this version of Tailrace keeps of a stream: it is "
        "damaged, another version wrote it, or a plug-in of its parts is not installed. Restore "
        "the whole directory from a backup, or open it with that version and plug-in."
    )


@contextlib.contextmanager
def understood() -> Iterator[None]:
    """Turn stored values that make no stream into a sentence."""
    try:
        yield
    except StateError:
        raise
    except Exception:
        raise unfit() from None


def _digest(name: str, *data: bytes) -> bytes:
    hashed = hashlib.blake2b(name.encode() + b"\0", digest_size=32)
    for part in data:
        hashed.update(part)
    return hashed.digest()


def _connect(path: Path) -> sqlite3.Connection:
    with _explained(path.parent):
        database = sqlite3.connect(path, isolation_level=None, timeout=5, check_same_thread=False)
        # Values are large: fewer, longer pages.
        database.execute("PRAGMA page_size=65536")
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute("PRAGMA secure_delete=ON")
        return database


def _check_tables(database: sqlite3.Connection) -> None:
    """Refuse any table, view, index or trigger but ours."""
    if (
        database.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type").fetchall()
        != _TABLES
    ):
        raise unfit()


def _check_there(folder: Path) -> None:
    if (folder / "state.db").is_file():
        return
    name = folder.parent.name
    if (folder.parent / "releases").is_dir() and not folder.exists():
        raise StateError(
            f"{name} is not a stream any more: it was erased, and only its releases are there."
        )
    raise StateError(
        f"{name} is not a stream: it has no private/state.db. Make one with Stream.create. If it "
        f"is one that was being erased, remove {name}/private by hand."
    )


def loses_commits(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> bool:
    """Whether this SQLite may lose commits of shared WAL databases."""
    # Versions with the mend ported back: https://sqlite.org/wal.html#walresetbug.
    if version[:2] in ((3, 44), (3, 50)):
        return version < (*version[:2], {44: 6, 50: 7}[version[1]])
    return (3, 7) <= version < (3, 51, 3)


def _secret(path: Path) -> bytes:
    try:
        with os.fdopen(open_plain(path.parent, path.name), "rb") as file:
            secret = file.read(65)
    except OSError:
        raise Corrupt(
            "private/key cannot be read: restore the whole directory from a backup."
        ) from None
    if len(secret) != 64 or hashlib.blake2b(secret[:32], digest_size=32).digest() != secret[32:]:
        raise Corrupt("private/key is damaged: restore the whole directory from a backup.")
    return secret[:32]


def keyed(secret: bytes) -> bytes:
    """The content of the key file: the secret, its digest."""
    return secret + hashlib.blake2b(secret, digest_size=32).digest()


def _lock(path: Path, name: str) -> Any:
    try:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_NOFOLLOW), "rb+")
    except OSError:
        raise StateError(
            f"{name} cannot be written: give this user the right to, or free the disk."
        ) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise StateError(
            f"{name} is open in another process: close it there first, a stream has one writer."
        ) from None
    return file


@contextlib.contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Errors of the database in a sentence."""
    try:
        yield
    except UnicodeDecodeError:  # SQLite's own message quotes a damaged table definition
        raise unfit() from None
    except sqlite3.Error as error:
        # The low byte is SQLite's primary code. It tells a disk that refuses from a damaged file.
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in _REFUSED:
            raise StateError(
                f"{folder.parent.name} cannot be written: the disk is full, read-only or refuses. "
                "Nothing was lost; mend it and open the stream again."
            ) from None
        raise Corrupt(
            "private/state.db is damaged: restore the whole directory from a backup."
        ) from None
