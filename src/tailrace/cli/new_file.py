"""Write a new file whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tailrace.cli import say
from tailrace.errors import ConfigError
from tailrace.storage.durable import place, write_file


def write_new(path: Path, data: bytes, *, check: Callable[[Path], object] | None = None) -> None:
    """Write a new file; remove it again if `check` refuses it."""
    if path.exists():
        raise ConfigError(f"{path} is there already: choose another name with --to.")
    partial = path.with_name(f".{path.name}.partial")
    try:
        write_file(partial, data)
    except OSError:
        say.refuse(
            f"{path} cannot be written: see whether its folder is there and may be written to."
        )
    try:
        if check is not None:
            check(partial)
    except ConfigError as error:
        partial.unlink()
        raise ConfigError(str(error).replace(partial.name, path.name)) from None
    place(partial, path, "file")
