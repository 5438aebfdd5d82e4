"""The ledger's SQLite file, opened for one transaction each.

It is made whole or not at all, and its errors are told in our words.

A connection lives only as long as a call: SQLite's locks belong to a process and do not survive a
fork, so nothing may be open when one happens.

Many processes share the file, so it keeps a rollback journal and not a write-ahead log, which may
lose a commit where one process writes and another cuts the log (`store.loses_commits`).
synchronous=EXTRA also syncs the folder after a commit, so that a journal that was deleted does not
come back with the power. Ledgers of earlier versions, which have a log, are changed over when they
are opened.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from tailrace.errors import Corrupt, Mismatch, StateError
from tailrace.storage.durable import alone, sync
from tailrace.storage.guarding import check_ledger

_FORMAT = 1
# The application_id, which tells a ledger from any other SQLite file.
_KIND = int.from_bytes(b"trlg")
# Seconds to wait for another process's transaction, which lasts milliseconds.
_PATIENCE = 60.0
# Seconds between two looks at a file that another process holds.
_PAUSE = 0.01
# Bytes of the smallest database: one page.
_SMALLEST = 512
# Where SQLite writes the application_id.
_MAGIC = slice(68, 72)
# The files that SQLite keeps beside a database.
_LOGS = ("-wal", "-journal")
# SQLite keeps these texts, and an opened ledger must hold exactly them.
_TABLES = {
    "caps": "CREATE TABLE caps "
    "(population TEXT PRIMARY KEY, terms TEXT NOT NULL, digest BLOB NOT NULL)",
    "entries": "CREATE TABLE entries (\n"
    "    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, population TEXT NOT NULL, "
    "path TEXT NOT NULL, fingerprint TEXT NOT NULL,\n"
    "    guarantee TEXT NOT NULL, fork_of TEXT, created TEXT NOT NULL, step INTEGER NOT NULL, "
    "tag TEXT NOT NULL, digest BLOB NOT NULL\n)",
}
_PRAGMAS = (f"PRAGMA application_id = {_KIND}", f"PRAGMA user_version = {_FORMAT}")


def create(path: Path, point: Callable[[str], None]) -> None:
    """Make an empty ledger at `path`; the first of two stays."""
    # Looked for first: a log is younger than its file.
    logs = [log for log in _LOGS if os.path.exists(f"{path}{log}")]
    if os.path.exists(path):
        return
    # The rest of a ledger that is gone; SQLite would play it into the new one.
    if logs:
        raise damaged(path)
    new = path.with_name(f"{path.name}.{uuid.uuid4().hex}.new")
    try:
        os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as file:
            file.executescript(";\n".join((*_PRAGMAS, *_TABLES.values())))
        sync(new)
        point("ledger.create")
        _put(new, path)
        sync(path.parent)
        point("ledger.create")
    except (OSError, sqlite3.Error):
        raise _unusable(path) from None
    finally:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)


def _put(new: Path, path: Path) -> None:
    """Give a new ledger its name, unless there is one."""
    try:
        # A link, unlike a rename, never replaces another's file.
        os.link(new, path)
    except FileExistsError:
        pass
    except OSError:
        # Where links are refused, all rename in turns.
        with alone(path.parent):
            if not os.path.lexists(path):
                os.rename(new, path)


def is_ledger(path: Path) -> bool:
    """Whether a file is a ledger, by its first bytes."""
    try:
        if path.is_symlink() or not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(_MAGIC.stop)[_MAGIC] == _KIND.to_bytes(4)
    except OSError:
        return False


@contextlib.contextmanager
def transaction(path: Path, begin: str) -> Iterator[sqlite3.Connection]:
    """A transaction, undone unless the caller commits it."""
    try:
        # SQLite would take it for a new database, and forget every charge.
        if path.stat().st_size < _SMALLEST:
            raise damaged(path)
        check_ledger(path)
        address = f"{path.as_uri()}?mode=rw"
        with contextlib.closing(
            sqlite3.connect(address, uri=True, timeout=_PATIENCE, isolation_level=None)
        ) as file:
            file.execute("PRAGMA synchronous = EXTRA")
            _leave_log(file)
            file.execute(begin)
            _check(file, path)
            yield file
    except OSError:
        raise _unusable(path) from None
    except sqlite3.Error as error:
        raise _explained(error, path) from None
    except UnicodeDecodeError:  # SQLite's own message quotes a damaged table definition
        raise damaged(path) from None


def _leave_log(file: sqlite3.Connection) -> None:
    """Change a log to a journal, once no other process looks."""
    until = time.monotonic() + _PATIENCE
    while file.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
        try:
            file.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(_PAUSE)


def sound(file: sqlite3.Connection) -> bool:
    """Whether SQLite finds nothing wrong with the file's pages."""
    return file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def digest(row: tuple) -> bytes:
    """The digest that shows damage to a row's values."""
    return hashlib.blake2b(repr(row).encode(), digest_size=16).digest()


def damaged(path: Path) -> Corrupt:
    return Corrupt(f"The ledger '{path.name}' is damaged: restore its last good copy.")


def _unusable(path: Path) -> StateError:
    return StateError(
        f"The ledger '{path.name}' cannot be opened or written: see that its directory exists, may "
        "be written and has room."
    )


def _check(file: sqlite3.Connection, path: Path) -> None:
    if file.execute("PRAGMA application_id").fetchone()[0] != _KIND:
        raise Mismatch(
            f"The file '{path.name}' is not a Tailrace ledger: name the one that the stream was "
            "made with."
        )
    found = file.execute("PRAGMA user_version").fetchone()[0]
    if found != _FORMAT:
        raise Mismatch(
            f"The ledger '{path.name}' has format {found} and this version of Tailrace reads "
            f"format {_FORMAT}: use the version that wrote it."
        )
    tables = file.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    # A view could run for ever, and a trigger could change charges.
    if dict(tables) != _TABLES or len(tables) != len(_TABLES):
        raise damaged(path)


def _explained(error: sqlite3.Error, path: Path) -> StateError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL):
        return StateError(
            f"The ledger '{path.name}' is kept busy by another process: try again when that is "
            "done."
        )
    unusable = ("PERM", "READONLY", "IOERR", "FULL", "CANTOPEN", "NOLFS", "NOMEM")
    if code in {getattr(sqlite3, f"SQLITE_{name}") for name in unusable}:
        return _unusable(path)
    return damaged(path)
