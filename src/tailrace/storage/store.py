"""A stream's private directory: named values, changed in transactions.

    private/state.db    configuration, state, intent of the step in progress, digests
                        (0600, WAL, synchronous=FULL, secure_delete)
    private/files/      the values that are large or will be published, one file each
    private/key         the secret of the stream's noise and hashes (0600)
    private/memory/     the unit memory after a step, immutable; the database points at one
    private/lock        held while a process has the stream open

A value is either as it was written or refused: each carries a BLAKE2b digest. A file is named by
its digest and on disk before the transaction that names it commits; files that no value names are
removed when the stream is opened. A transaction that has been committed is on disk
(synchronous=FULL), and the log that would keep erased values is cut at once.

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
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Any

from tailrace.errors import Corrupt, Mismatch, StateError
from tailrace.storage.durable import link, place, point, remove, sync, write_file
from tailrace.storage.guarding import check_private, open_plain

FORMAT = 3

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
# A value without data is in the file of its digest. One tree, so that no index can disagree.
_SCHEMA = (
    "CREATE TABLE value (name TEXT PRIMARY KEY, data BLOB, digest BLOB NOT NULL) WITHOUT ROWID"
)
_TABLES = [("table", "value", _SCHEMA)]
# The tables of format 2, which `former` reads.
FORMER = "CREATE TABLE value (name TEXT PRIMARY KEY, data BLOB NOT NULL, digest BLOB NOT NULL)"
_FORMER = [("index", "sqlite_autoindex_value_1", None), ("table", "value", FORMER)]
# The most bytes of a value in the database, which writes each twice; more go to a file.
_SMALL = 1 << 12
_FILES = "files"
# Bytes of a digest.
_DIGEST = 32
# What the lock holds while a process has the stream open; one that was killed leaves it.
_IN_USE = b"in use"
# The name of private/ while it is removed.
_ERASING = "erasing"
# The names of the new private/ and of the old one while the format changes.
NEW_FOLDER = ".private.partial"
_FORMER_FOLDER = ".private.former"
_SEGMENT = (str, NoneType)
# The keys that JSON values hold at least.
_SHAPES: dict[str, dict[str, type | tuple[type, ...]]] = {
    "about": {
        **dict.fromkeys(("population", "entry", "noise", "units", "full"), str),
        "mechanism": dict,
        "fork": bool,
        "calendar": (dict, NoneType),
    },
    "standing": {
        "step": int,
        "tag": str,
        "segment": _SEGMENT,
        **dict.fromkeys(("log", "public", "private"), dict),
    },
    "intent": {"step": int, "nonce": str, "segment": _SEGMENT},
}


class Store:
    """The open private directory of a stream, for one process."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._clean = folder, True
        check_private(folder)
        finish_erasing(folder.parent)
        finish_migrating(folder.parent)
        _check_there(folder)
        self._lock = lock(folder / "lock", folder.parent.name)
        opened = contextlib.ExitStack()
        opened.callback(self._lock.close)
        with opened:
            self.secret = secret_of(folder / "key")
            self._database = opened.enter_context(contextlib.closing(_connect(folder / "state.db")))
            with explained(folder):
                _check_tables(self._database)
                # A killed commit may have left erased values.
                _cut(self._database)
                _check_length(self._database, folder / "state.db")
                if os.fstat(self._lock.fileno()).st_size:
                    self._sweep()
                self._lock.write(_IN_USE)
                os.fsync(self._lock.fileno())
            if self.json("format") != FORMAT:
                raise _other_format()
            opened.pop_all()

    def _sweep(self) -> None:
        """Remove files that no value names: a process cut off left them."""
        folder = self.folder / _FILES
        # A damaged table could forget a file that is needed.
        if self._database.execute("PRAGMA quick_check").fetchone()[0] != "ok":
            raise _damaged()
        named = self._database.execute("SELECT digest FROM value WHERE data IS NULL")
        known = {_file(row[0]) for row in named}
        try:
            found = set(os.listdir(folder))
        except OSError:
            raise _missing_file() from None
        if known - found:
            raise _missing_file()
        for name in found - known:
            _wipe(folder / name)

    @classmethod
    @contextlib.contextmanager
    def create(cls, folder: Path, secret: bytes) -> Iterator[Changing]:
        """Make a private directory, durable, with the values set inside; it is not opened."""
        folder.mkdir(mode=0o700)
        for name in ("memory", _FILES):
            (folder / name).mkdir(mode=0o700)
        write_file(folder / "key", secret, private=True)
        write_file(folder / "lock", b"", private=True)
        os.close(os.open(folder / "state.db", os.O_CREAT | os.O_WRONLY, 0o600))
        with explained(folder), contextlib.closing(_connect(folder / "state.db")) as database:
            database.execute("BEGIN")
            database.execute(_SCHEMA)
            change = Changing(database, folder / _FILES)
            change.put("format", FORMAT)
            yield change
            database.execute("COMMIT")
            change.wipe()
            _cut(database)
        sync(folder / _FILES)
        sync(folder)

    def copy(self, prefix: str, change: Changing) -> None:
        """Let another store have all values below `prefix`; files are linked."""
        rows = "SELECT name, data, digest FROM value WHERE name > ? AND name < ?"
        for name, data, digest in self._database.execute(rows, (f"{prefix}/", f"{prefix}0")):
            if data is None:
                link(self.folder / _FILES / _file(digest), change.files / _file(digest))
            change.row(name, data, digest)

    @classmethod
    def add(cls, folder: Path, values: Mapping[str, bytes]) -> None:
        """Values that a new private directory still lacks, durable."""
        with explained(folder), contextlib.closing(_connect(folder / "state.db")) as database:
            change = Changing(database, folder / _FILES)
            for name, data in values.items():
                change.put(name, data)
            sync(folder / _FILES)

    def bytes(self, name: str) -> bytes:
        """A value, as it was written."""
        return _there(name, self.find(name))

    def find(self, name: str) -> bytes | None:
        """A value, or None."""
        with explained(self.folder):
            return _read(self._database, self.folder / _FILES, name)

    def has(self, name: str) -> bool:
        """Whether there is a value of this name; it is not read."""
        with explained(self.folder):
            asked = "SELECT 1 FROM value WHERE name = ?"
            return self._database.execute(asked, (name,)).fetchone() is not None

    def file(self, name: str) -> Path:
        """The file of a value that is kept as one, unread."""
        with explained(self.folder):
            row = self._database.execute(
                "SELECT digest FROM value WHERE name = ? AND data IS NULL", (name,)
            ).fetchone()
        if row is None:
            raise Corrupt(_lacks(name))
        path = self.folder / _FILES / _file(row[0])
        if path.is_symlink() or not path.is_file():
            raise _missing_file()
        return path

    def names(self, prefix: str) -> list[str]:
        """The names below `prefix`, in order."""
        with explained(self.folder):
            rows = self._database.execute(
                "SELECT name FROM value WHERE name >= ? AND name < ? ORDER BY name",
                (f"{prefix}/", f"{prefix}0"),
            )
            return [row[0] for row in rows]

    def json(self, name: str) -> Any:
        """A value that is JSON."""
        return _parsed(name, self.bytes(name))

    def check(self) -> int:
        """Read everything; refuse what is damaged. Return the number of values."""
        with explained(self.folder):
            if self._database.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
                raise _damaged()
            names = [row[0] for row in self._database.execute("SELECT name FROM value")]
        for name in names:
            self.bytes(name)
        return len(names)

    @contextlib.contextmanager
    def transaction(self, name: str, *, erases: bool = False) -> Iterator[Changing]:
        """Change several values at once, durably, or none of them.

        The log keeps erased values until it is cut: `erases` cuts it.
        """
        with explained(self.folder):
            self._database.execute("BEGIN IMMEDIATE")
            change = Changing(self._database, self.folder / _FILES)
            # Until all is done: the next opening removes files that no value names.
            clean, self._clean = self._clean, False
            try:
                yield change
                if change.written:
                    sync(change.files)
                point(f"{name}, before")
                self._database.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._database.execute("ROLLBACK")
                raise
            point(f"{name}, after")
            change.wipe()
            self._clean = clean and not any(map(os.path.lexists, change.freed))
            if erases:
                _cut(self._database)
                point(f"{name}, checkpointed")

    def close(self) -> None:
        """Let go of the directory."""
        self._database.close()
        if self._clean:
            self._lock.truncate(0)
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


def _other_format() -> Mismatch:
    return Mismatch(
        f"This stream has another format than {FORMAT}: open it with the version of Tailrace that "
        "made it."
    )


def put_in_place(stream: Path) -> None:
    """Let the new private folder, made aside, take the place of the old one."""
    place(stream / "private", stream / _FORMER_FOLDER, "set aside")
    finish_migrating(stream)


def finish_migrating(stream: Path) -> None:
    """Finish a change of format that was cut off after the new folder was whole."""
    private, aside = stream / "private", stream / _FORMER_FOLDER
    if not os.path.lexists(aside):
        return
    if not os.path.lexists(private):
        place(stream / NEW_FOLDER, private, "migrate")
    try:
        remove(aside)
        sync(stream)
    except OSError:
        raise StateError(
            f"{stream.name}/{aside.name}, which holds the former format, cannot be removed: give "
            "this user the right to."
        ) from None
    point("migrated")


def peek(folder: Path, *names: str) -> list[Any]:
    """Read JSON values of a directory that may be open.

    Nothing is written, locked or finished.
    """
    check_private(folder)
    _check_there(folder)
    address = f"{(folder / 'state.db').as_uri()}?mode=ro"
    with (
        explained(folder),
        contextlib.closing(sqlite3.connect(address, uri=True, timeout=5)) as database,
    ):
        _check_tables(database)
        found = {name: _read(database, folder / _FILES, name) for name in names}
    return [_parsed(name, _there(name, data)) for name, data in found.items()]


class Changing:
    """The values of a store inside a transaction."""

    def __init__(self, database: sqlite3.Connection, files: Path) -> None:
        self._database, self.files = database, files
        # Whether a file was written, and the files that may go.
        self.written = False
        self.freed: set[Path] = set()

    def put(self, name: str, data: bytes | Any) -> int:
        """Set a value: bytes, or anything JSON can hold; return its size."""
        data = data if isinstance(data, bytes) else json.dumps(data).encode()
        digest, small = digest_of(name, data), len(data) <= _SMALL
        self._free("name = ?", name, but=digest)
        if not small:
            self._write(digest, data, private=True)
        self.row(name, data if small else None, digest)
        return len(data)

    def keep(self, name: str, data: bytes) -> None:
        """Set a value that will be published: a file of its own, for ever."""
        digest = digest_of(name, data)
        self._write(digest, data, private=False)
        self.row(name, None, digest)

    def row(self, name: str, data: bytes | None, digest: bytes) -> None:
        values = (name, data, digest)
        self._database.execute("INSERT OR REPLACE INTO value VALUES (?, ?, ?)", values)

    def erase(self, prefix: str) -> None:
        """Remove `prefix` and all values below it."""
        where, names = "(name = ? OR name > ? AND name < ?)", (prefix, f"{prefix}/", f"{prefix}0")
        self._free(where, *names)
        self._database.execute(f"DELETE FROM value WHERE {where}", names)

    def wipe(self) -> None:
        """Remove the files of values that were replaced or erased."""
        for path in self.freed:
            _wipe(path)

    def _free(self, where: str, *names: str, but: bytes = b"") -> None:
        found = self._database.execute(
            f"SELECT digest FROM value WHERE data IS NULL AND {where}", names
        )
        self.freed |= {self.files / _file(row[0]) for row in found if row[0] != but}

    def _write(self, digest: bytes, data: bytes, *, private: bool) -> None:
        path = self.files / _file(digest)
        # A value set to what it is stays; a step cut off may have left it whole or in part.
        if not path.is_file() or path.read_bytes() != data:
            point("file, before")
            write_file(path, data, private=private, mode=0o444)
            point("file, after")
        self.written = True
        self.freed.discard(path)


def _file(digest: Any) -> str:
    """The name of a value's file."""
    if not isinstance(digest, bytes) or len(digest) != _DIGEST:
        raise unfit()
    return digest.hex()


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


def _wipe(path: Path) -> None:
    """Overwrite a private file, and remove it.

    One with a second name is published, and only loses this name.
    """
    with contextlib.suppress(OSError), open(path, "r+b", 0, opener=_no_link) as file:
        found = os.fstat(file.fileno())
        if found.st_nlink == 1:
            for at in range(0, found.st_size, 1 << 20):
                file.write(bytes(min(found.st_size - at, 1 << 20)))
            os.fsync(file.fileno())
    # What cannot be removed is tried again at the next opening.
    with contextlib.suppress(OSError):
        path.unlink()


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _read(database: sqlite3.Connection, files: Path, name: str) -> bytes | None:
    row = database.execute("SELECT data, digest FROM value WHERE name = ?", (name,)).fetchone()
    if row is None:
        return None
    data, digest = row
    if data is None:
        try:
            with os.fdopen(open_plain(files, _file(digest)), "rb") as file:
                data = file.read()
        except OSError:
            raise _missing_file() from None
    if not isinstance(data, bytes) or digest_of(name, data) != digest:
        raise Corrupt(f"'{name}' in private is damaged: restore the whole directory from a backup.")
    return data


def _check_length(database: sqlite3.Connection, path: Path) -> None:
    """Refuse a database that was cut short; SQLite would find out later."""
    pages, size = (
        database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
    )
    if path.stat().st_size < pages * size:
        raise _damaged()


def _damaged() -> Corrupt:
    return Corrupt("private/state.db is damaged: restore the whole directory from a backup.")


def _missing_file() -> Corrupt:
    return Corrupt(
        "private/files lacks a file of the stream, or is not readable: restore the whole directory "
        "from a backup."
    )


def _there(name: str, data: bytes | None) -> bytes:
    if data is None:
        raise Corrupt(_lacks(name))
    return data


def _lacks(name: str) -> str:
    return f"private/state.db lacks '{name}': restore the whole directory from a backup."


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


def digest_of(name: str, *data: bytes) -> bytes:
    hashed = hashlib.blake2b(name.encode() + b"\0", digest_size=_DIGEST)
    for part in data:
        hashed.update(part)
    return hashed.digest()


def _connect(path: Path) -> sqlite3.Connection:
    with explained(path.parent):
        database = sqlite3.connect(path, isolation_level=None, timeout=5, check_same_thread=False)
        # Values are small and few change: short pages.
        database.execute("PRAGMA page_size=1024")
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute("PRAGMA secure_delete=ON")
        return database


def _check_tables(database: sqlite3.Connection) -> None:
    """Refuse any table, view, index or trigger but ours."""
    found = database.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type").fetchall()
    if found == _FORMER:
        raise Mismatch(
            "This stream has the format of an earlier version: bring it over with tailrace migrate."
        )
    if found != _TABLES:
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


def secret_of(path: Path) -> bytes:
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


def lock(path: Path, name: str) -> Any:
    try:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_NOFOLLOW), "rb+", buffering=0)
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
def explained(folder: Path) -> Iterator[None]:
    """Errors of the database in a sentence."""
    try:
        yield
    except UnicodeDecodeError:  # SQLite's own message quotes a damaged table definition
        raise unfit() from None
    except OSError:
        raise _refused(folder) from None
    except sqlite3.Error as error:
        # The low byte is SQLite's primary code. It tells a disk that refuses from a damaged file.
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in _REFUSED:
            raise _refused(folder) from None
        raise _damaged() from None


def _refused(folder: Path) -> StateError:
    return StateError(
        f"{folder.parent.name} cannot be written: the disk is full, read-only or refuses. Nothing "
        "was lost; mend it and open the stream again."
    )
