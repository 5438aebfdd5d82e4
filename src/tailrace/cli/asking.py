"""Questions of `tailrace init`, answered by a flag or at the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tailrace.cli import say
from tailrace.errors import ConfigError

# How a column of times, of journeys, or of x and y is called as a rule.
TIMES = ("date", "time", "datetime", "timestamp", "ts", "day", "month", "when", "hour")
JOURNEYS = ("trip", "traj", "trajectory", "journey")
EAST, NORTH = ("lon", "lng", "longitude", "x"), ("lat", "latitude", "y")


def someone() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin is not None and sys.stdin.isatty()


def ask(
    given: str | None,
    flag: str,
    question: str,
    example: str,
    make: Callable[[str], Any] = lambda text: text,
    *,
    offer: str | None = None,
) -> Any:
    """The answer as `make` reads it, asked until it can.

    offer: what an empty answer means; None where only the curator can know.
    """
    if given is not None or not someone():
        if given is None:
            raise ConfigError(f"{question} Say it with {flag}, for example {flag} '{example}'.")
        try:
            return make(given)
        except ConfigError as error:
            said = str(error)
            raise ConfigError(said if said.startswith("--") else f"{flag}: {said}") from None
    while True:
        try:
            hint = question if offer else f"{question} (for example {example})"
            return make(say.ask(hint, default=offer))
        except ConfigError as error:
            say.tell(f"  {error}")


def columns(names: Sequence[str]) -> str:
    """The names of columns, numbered."""
    numbered = ", ".join(f"{number} {name}" for number, name in enumerate(names, 1))
    return f"Columns: {numbered}. (Only their names were read.)"


def among(names: Sequence[str], *words: str) -> Callable[[str], str]:
    """Read the name or the number of a column, or one of the words."""

    def one(text: str) -> str:
        if not names or text in (*names, *words):
            return text
        if text.isdecimal() and 1 <= int(text) <= len(names):
            return names[int(text) - 1]
        there = ", ".join((*names, *words))
        raise ConfigError(f"There is no such column in that file: it has {there}.")

    return one


def called(names: Sequence[str], words: Sequence[str]) -> str | None:
    """The first column in whose name one of the words stands."""
    for word in words:
        for name in names:
            if word in re.split(r"[\W\d_]+", name.lower()):
                return name
    return None


def whole(text: str) -> int:
    """Read a number of steps."""
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError("This is a whole number of steps, for example 365.")
    return int(text)
