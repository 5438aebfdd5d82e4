"""The keys of a source in a `stream.toml`."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from tailrace.calendar import Calendar
from tailrace.calls import told
from tailrace.domain.times import is_iso, patterns_of
from tailrace.errors import ConfigError
from tailrace.sources.base import Feed, Source
from tailrace.sources.cut import Late
from tailrace.sources.reading import Reader
from tailrace.sources.used import Used


class Unfit(ConfigError):
    """A table of settings that cannot be used: the key to mend (None: the table), and why."""

    def __init__(self, key: str | None, why: str) -> None:
        super().__init__(f"{key} {why}" if key else f"A source {why}")
        self.key, self.why = key, why


@told
@dataclass(frozen=True, kw_only=True)
class Given:
    """What a stream brings to its source.

    Parameters
        reader: which columns to read, and how they are written.
        calendar: when steps begin and end; None: the source says it.
        late: what becomes of rows of closed steps.
        used: the memory of files that were used.
        live: whether steps close by the clock while rows still come.
        held: what another source of the same settings has read, in this process.
    """

    reader: Reader
    calendar: Calendar | None
    late: Late
    used: Used
    live: bool = False
    held: dict[Any, Any] = field(default_factory=dict)


@told
@dataclass(frozen=True, kw_only=True)
class Settings(abc.ABC):
    """Settings of a source: each field is a key of `[source]`.

    Derive a frozen dataclass, add the keys of your own (a hint of a path makes a text relative to
    the configuration), refuse wrong values in `__post_init__` with a ConfigError, and return the
    source from `open`. `field(metadata={"example": ...})` is shown where a key is missing.

    Parameters
        time: the column of a row's time.
        format: how times are written, where not in ISO 8601; of several, a cell has the first
            that fits.
        op: the column that says insert or delete.
        id: the column that names a row: within a step, rows of one id count once.
        decimal: how numbers are written in text: "." as in 1234.5, or "," as in 1.234,5.
    """

    # Whether rows can be read again, by a new process.
    lasting: ClassVar[bool] = True

    time: str | None = None
    format: str | Sequence[str] | None = None
    op: str | None = None
    id: str | None = None
    decimal: Literal[".", ","] = "."

    def __post_init__(self) -> None:
        if self.format is not None:
            check_format([self.format] if isinstance(self.format, str) else self.format)
        if self.op is not None and self.op in (self.time, self.came):
            raise Unfit("op", "must be a column of its own, which holds insert or delete.")

    @property
    def came(self) -> str | None:
        """The column that says when a row came, where there is one."""
        return None

    @property
    def only_drops(self) -> str | None:
        """Why `late` can only be "drop"; None where late rows can go to the next step."""
        return None

    def check(self, calendar: Calendar | None) -> None:
        """Refuse settings that do not say the step of each row."""
        if self.time is not None and calendar is None:
            raise needs_calendar("time")
        if self.time is None and calendar is not None:
            raise Unfit(None, "needs the key 'time', for example time = \"day\".")

    def reads(self, folder: Path) -> bool:  # noqa: ARG002
        """Whether files in a folder would be read as data."""
        return False

    @abc.abstractmethod
    def open(self, given: Given) -> Source | Feed:
        """The source itself."""


def check_format(forms: Sequence[str]) -> None:
    """Refuse what does not say how a time is written."""
    if not (forms and all(is_iso(one) or "%" in one for one in forms)):
        raise Unfit(
            "format",
            'must say how a time is written, for example "%d.%m.%Y", or ["%d.%m.%Y", "ISO"].',
        )
    try:
        patterns_of(forms)
    except ConfigError as error:
        raise Unfit("format", str(error).removeprefix("format ")) from None


def needs_calendar(key: str) -> Unfit:
    """A key that says times, where there is no calendar."""
    return Unfit(
        key,
        f'needs [calendar]; add it with start = 2026-01-01 and period = "1 day", or remove {key} '
        "here.",
    )
