"""Back a stream up; restore it where the ledger accepts it.

A stream that stands behind its mark in the ledger would release steps again, with new noise on the
same data. So a backup is opened against the ledger before it is put in place: one that is too old
is refused, and nothing is left of it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tarfile
from pathlib import Path, PurePosixPath

from tailrace.errors import ConfigError, Corrupt, StateError
from tailrace.storage.durable import place, remove, sync, where
from tailrace.storage.store import Store
from tailrace.stream.directory import PathLike, ledger_of
from tailrace.stream.stream import Stream

# What the folder of a stream is called inside.
_ROOT = "stream"


def back_up(path: PathLike, to: PathLike, *, ledger: PathLike | None = None) -> int:
    """Write a stream into the new file `to`, its ledger beside it; return its step.

    Both are private. The stream must not be open elsewhere meanwhile.
    """
    folder, target = where(path), where(to, "to")
    beside = target.with_name(f"{target.name}.ledger")
    for one in (target, beside):
        if os.path.lexists(one):
            raise ConfigError(f"to: {one.name} is there already; choose another name.")
    book = ledger_of(folder, ledger)
    store = Store(folder / "private")
    partial, copy = (one.with_name(f".{one.name}.partial") for one in (target, beside))
    try:
        step = store.json("standing")["step"]
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()
        new = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(new, "wb") as file, tarfile.open(fileobj=file, mode="w") as archive:
            archive.add(folder, _ROOT, filter=_whole)
        sync(partial)
        # The ledger last: it is never behind the stream beside it.
        _copied(book.path, copy)
    except (OSError, sqlite3.Error):
        remove(partial)
        remove(copy)
        raise StateError(
            f"{target.name} cannot be written: see whether its folder is there and has room."
        ) from None
    finally:
        store.close()
    place(copy, beside, "backup")
    place(partial, target, "backup")
    return step


def _whole(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """What belongs to a stream: files and folders, without owners."""
    if not (member.isfile() or member.isdir() or member.islnk()):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _copied(ledger: Path, to: Path) -> None:
    """Copy a ledger as it stands between two transactions."""
    remove(to)
    os.close(os.open(to, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with (
        contextlib.closing(sqlite3.connect(f"{ledger.as_uri()}?mode=ro", uri=True)) as source,
        contextlib.closing(sqlite3.connect(to)) as target,
    ):
        source.backup(target)
    sync(to)


def restore(backup: PathLike, to: PathLike, *, ledger: PathLike | None = None) -> int:
    """Put a stream back into the new folder `to`; return its step.

    The ledger decides: a backup from before the last step is refused, and leaves nothing.
    """
    source, folder = where(backup, "backup"), where(to, "to")
    if os.path.lexists(folder):
        raise ConfigError(f"to: {folder.name} is there already; move it away first.")
    book = ledger_of(folder, ledger).path
    partial = folder.with_name(f".{folder.name}.partial")
    remove(partial)
    try:
        _extract(source, partial)
        with Stream.open(partial, ledger=book) as stream:
            step = stream.step
    except BaseException:
        remove(partial)
        raise
    place(partial, folder, "restore")
    return step


def _extract(source: Path, to: Path) -> None:
    """Unpack a backup; no name leads out of the folder."""
    broken = Corrupt(f"{source.name} is no backup of a stream, or is damaged: take another one.")
    try:
        with tarfile.open(source) as archive:
            to.mkdir(mode=0o700)
            for member in archive:
                _one(archive, member, to, broken)
    except (OSError, EOFError, tarfile.TarError, KeyError, ValueError):
        raise broken from None


def _one(archive: tarfile.TarFile, member: tarfile.TarInfo, to: Path, broken: Corrupt) -> None:
    inside = _inside(member.name, broken)
    target = to / inside
    if member.isdir():
        target.mkdir(exist_ok=True)
    elif member.islnk():
        os.link(to / _inside(member.linkname, broken), target, follow_symlinks=False)
        return
    elif member.isfile() and (data := archive.extractfile(member)) is not None:
        with open(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            while piece := data.read(1 << 20):
                file.write(piece)
        os.utime(target, (member.mtime, member.mtime))
    else:
        raise broken
    os.chmod(target, member.mode & 0o755)


def _inside(name: str, broken: Corrupt) -> PurePosixPath:
    parts = PurePosixPath(name).parts
    if parts[:1] != (_ROOT,) or ".." in parts:
        raise broken
    return PurePosixPath(*parts[1:])
