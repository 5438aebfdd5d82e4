"""The contract of a source: one step's rows, by number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from tailrace.calls import told

Clock = Callable[[], datetime]


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


@told
@dataclass(frozen=True)
class Batch:
    """The rows inserted and deleted in one step; None stands for a frame without rows."""

    adds: Any = None
    deletes: Any = None


class Source(Protocol):
    """Where batches come from. A step may be asked for again until it is released: after a crash,
    by a new process.

    A source that finds the step of a row by itself also has `cut`: all that decides it, in plain
    values. It is kept with the stream, and another is refused. One of files has `moved`: whether
    the files used so far lie in its folder now.
    """

    @property
    def over(self) -> bool:
        """Whether nothing more will ever come, so that there is no use in waiting."""
        ...

    def ready(self, step: int) -> bool:
        """Whether the batch of the next step is complete."""
        ...

    def batch(self, step: int) -> Batch:
        """The rows of the next step."""
        ...
