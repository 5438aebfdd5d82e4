"""Files that survive a crash, whole or not at all.

Also the points at which a test may kill the process.

Every durable write of the package passes `point` right before and right after it takes effect. A
test sets `hook` to stop the process there, so that a new write is covered the day it is written.

A new file is made under a name at which nothing stands (`O_EXCL`), so nothing is written through a
link.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tailrace.errors import ConfigError, StateError

# Tests set it.
hook: Callable[[str], None] | None = None


def point(name: str) -> None:
    """A place just before or after a durable write."""
    if hook is not None:
        hook(name)


def where(path: str | os.PathLike[str], name: str = "path") -> Path:
    """`path` in full."""
    try:
        return Path(path).resolve()
    except (TypeError, ValueError):
        raise ConfigError(
            f"{name} must be the path of a folder or file, as a text or a Path."
        ) from None


def sync(path: Path) -> None:
    """Make a file or folder durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(folder: Path) -> None:
    """Make a folder durable with all that lies in it."""
    for place_, _, files in os.walk(folder, topdown=False):
        for name in files:
            sync(Path(place_, name))
        sync(Path(place_))


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Let processes that make the same file or folder take turns."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Remove a file, a folder or a link itself."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_file(path: Path, data: bytes, *, private: bool = False, mode: int = 0o644) -> None:
    """Write a file durably, replacing one that a crash left."""
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600 if private else mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def link(source: Path, target: Path) -> None:
    """Give a plain file a second name.

    Where links are refused it is copied with its times and mode, whole or not at all.
    """
    found = os.lstat(source)
    if not stat.S_ISREG(found.st_mode):
        raise FileNotFoundError
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        partial = target.with_name(f".{target.name}.partial")
        write_file(partial, source.read_bytes(), private=True)
        os.chmod(partial, stat.S_IMODE(found.st_mode))
        os.utime(partial, ns=(found.st_atime_ns, found.st_mtime_ns))
        os.rename(partial, target)


def write_folder(path: Path, files: Mapping[str, bytes], name: str, *, time: float) -> None:
    """Write a new folder, whole or not at all.

    All of it is dated `time` (seconds since 1970): when it was really written would tell how long
    the step took.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        remove(partial)
        partial.mkdir()
        for file, data in files.items():
            write_file(partial / file, data)
            os.utime(partial / file, (time, time))
        os.utime(partial, (time, time))
        sync(partial)
    except OSError:
        raise StateError(
            f"{path.name} cannot be written: the disk is full, read-only or refuses. Nothing was "
            "lost; mend it and open the stream again."
        ) from None
    place(partial, path, name)


def place(partial: Path, path: Path, name: str) -> None:
    """Give a finished folder or file its final name.

    Nothing stands there yet, but for a file, which may be replaced.
    """
    point(f"{name}, before")
    try:
        os.rename(partial, path)
    except OSError:
        raise StateError(
            f"{path.name} cannot be put in place: something else stands there, or the disk refuses."
        ) from None
    sync(path.parent)
    point(f"{name}, after")
