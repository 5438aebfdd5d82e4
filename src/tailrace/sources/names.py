"""Times in the names of files, by a strptime pattern such as `cases-%Y-%m-%d.csv`."""

from __future__ import annotations

import glob
import re
from datetime import datetime


def wildcard(pattern: str) -> str:
    """What a folder is searched by: every part of a time may be anything.

    >>> wildcard("%Y/cases-%m%d.csv")
    '*/cases-*.csv'
    """
    parts = re.findall(r"%%|(?:%[^%])+|[^%]+", pattern)
    return "".join("%" if part == "%%" else "*" if part[0] == "%" else glob.escape(part) for part in parts)


def time_in(name: str, pattern: str) -> str | None:
    """The time that a name says, in ISO 8601; None where it is another name."""
    try:
        return datetime.strptime(name, pattern).isoformat()
    except ValueError:
        return None
