"""`stream.toml`: everything about a stream in one file; what is wrong with it is said with its
line, its key and the fix.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.config.models import Config

__all__ = ["load"]


def load(path: str | os.PathLike[str]) -> Config:
    """The configuration in a TOML file, checked as a whole; a ConfigError of one sentence where it
    cannot be used.
    """
    from tailrace.config.reading import (
        read,
    )  # pydantic takes its time, which `tailrace --help` should not

    return read(path)
