"""Folders that may be trusted: private, and without links.

Nobody but their owner may look or write.

A stream's folder may come from someone else. A link in it would lead reading, cleaning and erasing
to files that are not the stream's; a private file that others may read is not private, and one that
they may write is not ours.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from tailrace.errors import StateError

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def check_private(folder: Path) -> None:
    """Refuse a private folder with links, or open to others.

    What lies in `files` is not looked at: it is opened as a plain file and compared with a digest.
    """
    stream, ours = (
        folder.parent,
        {folder, *(folder / name for name in ("key", "state.db", "memory", "files"))},
    )
    for path in (folder, stream / "releases"):
        if os.path.lexists(path) and not stat.S_ISDIR(os.lstat(path).st_mode):
            raise _stray(stream, path)
    for path, found in _below(folder, but=folder / "files"):
        if not stat.S_ISDIR(found.st_mode) and not stat.S_ISREG(found.st_mode):
            raise _stray(stream, path)
        if path not in ours:
            continue
        if found.st_uid != os.geteuid():
            raise StateError(
                f"{_named(stream, path)} belongs to another user: run as that user, or make it "
                f"yours with chown -R $(id -u) {stream.name}."
            )
        if found.st_mode & _OTHERS:
            raise StateError(
                # Not with -R: files that are published have a name here too.
                f"{_named(stream, path)} may be used by other users, and is private: run chmod go= "
                f"{_named(stream, folder)} {_named(stream, folder)}/*"
            )


def check_ledger(path: Path) -> None:
    """Refuse a ledger that anybody may write, or somebody else's."""
    found = os.stat(path)
    if found.st_mode & stat.S_IWOTH:
        raise StateError(
            f"The ledger '{path.name}' may be written by every user, so it proves nothing: run "
            f"chmod o-w {path.name}."
        )
    if found.st_uid not in (os.geteuid(), 0) and not found.st_mode & stat.S_IWGRP:
        raise StateError(
            f"The ledger '{path.name}' belongs to another user: run as that user, or make it yours "
            f"with chown $(id -u) {path.name}."
        )


def open_plain(folder: Path, name: str) -> int:
    """Open a plain file in `folder`; neither is a link."""
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise FileNotFoundError
    return file


def _below(folder: Path, *, but: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """`folder` and everything in it, except what lies in `but`; links as links."""
    waiting = [folder]
    while waiting:
        path = waiting.pop()
        try:
            found = os.lstat(path)
            if stat.S_ISDIR(found.st_mode) and path != but:
                waiting += [path / name for name in os.listdir(path)]
        except FileNotFoundError:  # another process has the stream open, and cleans up
            continue
        except OSError:
            raise StateError(
                f"{path.name} cannot be read: it belongs to another user, or is not allowed."
            ) from None
        yield path, found


def _stray(stream: Path, path: Path) -> StateError:
    return StateError(
        f"{_named(stream, path)} is a link or a device, and a stream's folder holds plain files "
        "and folders only: remove it, or restore the whole directory from a backup."
    )


def _named(stream: Path, path: Path) -> str:
    return f"{stream.name}/{path.relative_to(stream)}"
