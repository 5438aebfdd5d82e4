"""The contract of a source: one step's rows, by number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, runtime_checkable

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


@told
@dataclass(frozen=True)
class Portion:
    """Rows that a feed read on, by their step, and a note of how far.

    `note` is made of plain values that JSON can hold.
    """

    batches: Mapping[int, Batch]
    note: Any


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


@runtime_checkable
class Feed(Protocol):
    """A source that is read on as rows come, before their step closes; `cut` as of a source.

    The stream keeps the rows of a portion and its note in one transaction. What was not kept is
    asked for again, with the note that was.
    """

    @property
    def over(self) -> bool:
        """Whether nothing more will ever come."""
        ...

    def ready(self, step: int) -> bool:
        """Whether the next step is closed."""
        ...

    def more(self, step: int, note: Any) -> Iterator[Portion]:
        """What came after `note` (None: from the first row on), while `step` is the next one.

        Rows of earlier steps go to `step`, to a later one or to none.
        """
        ...
