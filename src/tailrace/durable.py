"""Files that survive a crash, whole or not at all; and the points at which a test may kill the process.

Every durable write of the package passes `point` right before and right after it takes effect. A test sets `hook` to
stop the process there, so that a new write is covered the day it is written.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from tailrace.errors import StateError

hook: Callable[[str], None] | None = None  # for tests


def point(name: str) -> None:
    """A place just before or after a durable write."""
    if hook is not None:
        hook(name)


def sync(path: Path) -> None:
    """Make a file or folder durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_file(path: Path, data: bytes, *, private: bool = False) -> None:
    """Write `data` durably into a new file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if private else 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_folder(path: Path, files: Mapping[str, bytes], name: str) -> None:
    """A new folder with these files, which appears whole or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir()
        for file, data in files.items():
            write_file(partial / file, data)
        sync(partial)
    except OSError:
        raise StateError(
            f"{path.name} cannot be written: the disk is full, read-only or refuses. Nothing was lost; mend it and open the "
            "stream again."
        ) from None
    place(partial, path, name)


def place(partial: Path, path: Path, name: str) -> None:
    """Give a finished folder or file its final name, at which nothing stands yet (a file may be replaced)."""
    point(f"{name}, before")
    try:
        os.rename(partial, path)
    except OSError:
        raise StateError(
            f"{path.name} cannot be put in place: something else stands there, or the disk refuses."
        ) from None
    sync(path.parent)
    point(f"{name}, after")
