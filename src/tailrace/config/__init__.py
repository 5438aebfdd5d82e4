"""`stream.toml`: everything about a stream in one file.

What is wrong with it is said with its line, its key and the fix.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tailrace.calendar import Calendar
    from tailrace.mechanisms.base import Mechanism
    from tailrace.sinks import Sink
    from tailrace.sources import Settings

__all__ = ["Config", "load"]


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything that a `stream.toml` says, every path in full."""

    file: Path
    path: Path
    population: str
    ledger: Path | None
    full: Literal["checkpoints", "latest", "every", "none"]
    # The folder of the stream that this one goes on from.
    after: Path | None
    mechanism: Mechanism
    # The keys written in [mechanism]; the others have defaults, which may change with versions.
    written: frozenset[str]
    calendar: Calendar | None
    source: Settings
    # By column: other spellings of its values.
    aliases: Mapping[str, Mapping[str, str]]
    sinks: tuple[Sink, ...]


def load(path: str | os.PathLike[str]) -> Config:
    """Read a TOML file, checked as a whole; a ConfigError of one sentence where it is wrong."""
    # Domains and sources take their time to import, which `tailrace --help` should not.
    from tailrace.config.reading import read

    return read(path)
