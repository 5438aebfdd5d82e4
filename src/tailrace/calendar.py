"""Steps by the clock: when each begins, ends and closes.

A public start, period, time zone and grace say it.

Days, weeks, months and years go by the wall clock of the zone, so a day may last 23 or 25 hours;
hours, minutes and seconds go by absolute time. All zone rules come from `zoneinfo`, scalar or
vectorised, so that they cannot disagree (Polars carries a table of its own, which ends in 2100).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

import numpy as np

from tailrace.calls import told
from tailrace.errors import ConfigError

SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
MONTHS = {"month": 1, "year": 12}
CENTURY = 36525 * SECONDS["day"]
AT_ONCE = np.timedelta64(0, "us")
EPOCH = np.datetime64("1970-01-01", "us")
# The times that Python's datetime, hence zoneinfo, can hold.
FIRST = np.datetime64("0001-01-01", "us")
# A day less, so that the day after still has an offset.
LAST = np.datetime64("9999-12-30T23:59:59.999999", "us")


@told
@dataclass(frozen=True, kw_only=True)
class Calendar:
    """Steps 1, 2, 3, ... of one period each.

    `start` is a date, a naive date-time or ISO text, and is kept as text.

    >>> berlin = {"timezone": "Europe/Berlin", "grace": "6 hours"}
    >>> calendar = Calendar(start="2026-01-31", period="month", **berlin)
    >>> calendar.period, calendar.label(2), str(calendar.begin(2)), str(calendar.closes(2))
    ('1 month', '2026-02-28', '2026-02-27 23:00:00+00:00', '2026-03-31 04:00:00+00:00')
    """

    start: str = field(metadata={"example": "2026-01-01"})
    period: str = field(metadata={"example": '"1 day"'})
    timezone: str = "UTC"
    grace: str = "0 hours"
    late: Literal["next", "drop"] | None = None

    def __post_init__(self) -> None:
        zone(self.timezone)
        object.__setattr__(self, "start", _start(self.start))
        object.__setattr__(self, "period", str(self._period))
        object.__setattr__(self, "grace", str(self._grace))
        if self._period.count == 0:
            raise ConfigError('period must be longer than zero, for example "1 day".')
        if self._grace.unit in MONTHS:
            fixed = "of a fixed length, from seconds to weeks"
            raise ConfigError(f'grace must be {fixed}, for example "30 days".')
        if self.late not in (None, "next", "drop"):
            joins = '"next" (late rows join the open step), "drop", or left out'
            raise ConfigError(f"late must be {joins}.")
        # A first step that Python cannot date is refused here.
        self.begin(1)
        self.end(1)

    def begin(self, step: int) -> datetime:
        """The instant at which a step begins, in UTC."""
        return self._moment(step)

    def end(self, step: int) -> datetime:
        """The instant at which a step ends."""
        return self._moment(step, later=1)

    def closes(self, step: int) -> datetime:
        """The instant that closes a step: its end plus grace."""
        return self._moment(step, later=1, wait=self._grace.fixed)

    def released_by(self, now: datetime) -> int:
        """The last step closed at `now`, or 0.

        >>> noon = datetime(2026, 1, 3, 12, tzinfo=UTC)
        >>> Calendar(start="2026-01-01", period="1 day").released_by(noon)
        2
        """
        if not isinstance(now, datetime) or now.utcoffset() is None:
            zoned = "a datetime with a time zone, for example datetime.now(UTC)"
            raise ConfigError(f"now must be {zoned}.")
        since = (now - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        return int(self.open_at(np.array([since], dtype="M8[us]"))[0]) - 1

    def steps(self, instants: np.ndarray) -> np.ndarray:
        """The step of each instant (datetime64[us], UTC).

        0 before the start, -1 for NaT.
        """
        return self._last_begun(instants, wait=AT_ONCE)

    def open_at(self, instants: np.ndarray) -> np.ndarray:
        """The first step still open at each instant.

        It takes the rows that arrive then; -1 for NaT.
        """
        # A step closes when the next one has waited.
        steps = self._last_begun(instants, wait=self._grace.fixed)
        return np.where(steps == 0, 1, steps)

    def label(self, step: int) -> str:
        """The name of a step, from its beginning.

        "2026-01-05" for days, "2026-01" for whole months, "2026-01-05 06:00" otherwise.

        >>> Calendar(start="2026-01-01", period="month").label(3)
        '2026-03'
        """
        begin, period, start = self.begin(step), self._period, datetime.fromisoformat(self.start)
        if period.by_wall_clock:
            local = self._walls(np.array([step]))[0].item()
        else:
            local = begin.astimezone(zone(self.timezone))
        if period.by_wall_clock and start.time() == time():
            day = local.date().isoformat()
            return day[: len("2026-01")] if period.months and start.day == 1 else day
        # The offset tells the second 02:00 from the first.
        shown = local if local.fold else local.replace(tzinfo=None)
        seconds = start.second or period.unit == "second"
        return shown.isoformat(sep=" ", timespec="seconds" if seconds else "minutes")

    @property
    def _period(self) -> Length:
        return Length.read("period", self.period)

    @property
    def _grace(self) -> Length:
        return Length.read("grace", self.grace)

    def _moment(self, step: int, *, later: int = 0, wait: np.timedelta64 = AT_ONCE) -> datetime:
        """When a step begins, `later` steps on, plus a wait."""
        if step < 1:
            raise ConfigError("Steps are numbered from 1.")
        # Else numpy's microseconds could overflow.
        if int(step) * self._period.at_least <= 101 * CENTURY:
            instant = self._begins(np.array([int(step) + later]))[0] + wait
            if FIRST <= instant <= LAST:
                return instant.item().replace(tzinfo=UTC)
        raise ConfigError(
            f"Step {step} of this calendar reaches beyond the years 1 to 9999: "
            'choose another start, for example "2026-01-01", or an earlier step.'
        )

    def _walls(self, steps: np.ndarray) -> np.ndarray:
        """The wall clock when steps begin.

        Counted from the start, so that month ends do not wear down.
        """
        start, period = np.datetime64(self.start, "us"), self._period
        if not period.months:
            return start + (steps - 1) * period.fixed
        day, month = start.astype("M8[D]"), start.astype("M8[M]")
        months = month + (steps - 1) * period.months
        days = np.minimum(months.astype("M8[D]") + (day - month), (months + 1).astype("M8[D]") - 1)
        return days + (start - day)

    def _begins(self, steps: np.ndarray) -> np.ndarray:
        """The instants when steps begin, which never decrease."""
        if self._period.by_wall_clock:
            return to_instants(self._walls(steps), timezone=self.timezone)
        start = to_instants(np.array([self.start], dtype="M8[us]"), timezone=self.timezone)
        return start + (steps - 1) * self._period.fixed

    def _last_begun(self, instants: np.ndarray, *, wait: np.timedelta64) -> np.ndarray:
        """The last step that began before each instant less `wait`.

        0 if none did, -1 for NaT.
        """
        instants = np.asarray(instants, dtype="M8[us]")
        known = ~np.isnat(instants)
        steps = np.full(instants.shape, -1, dtype=np.int64)
        if known.any():
            find = self._found if self._period.by_wall_clock else self._divided
            steps[known] = find(np.clip(instants[known], FIRST, LAST) - wait)
        return steps

    def _divided(self, instants: np.ndarray) -> np.ndarray:
        return np.maximum((instants - self._begins(np.array([1]))) // self._period.fixed + 1, 0)

    def _found(self, instants: np.ndarray) -> np.ndarray:
        """Look instants up among the steps near them.

        One stray year then costs a few steps and not thousands.
        """
        start, period = np.datetime64(self.start, "us"), self._period
        if period.months:
            months = instants.astype("M8[M]") - start.astype("M8[M]")
            passed = months.astype(np.int64) // period.months
        else:
            passed = (instants - start) // period.fixed
        # The guess takes UTC for local time and the 1st for the day on which a month begins.
        # Offsets stay below a day and no period is shorter, so the answer lies from two below the
        # guess to one above it.
        guess = np.maximum(passed, 0) + 1
        near = np.add.outer(np.flatnonzero(np.bincount(guess)), (-1, 0, 1))
        # np.unique is slow on long runs of numbers.
        numbers = np.flatnonzero(np.bincount(near[near >= 1]))
        # Step 0 began long ago.
        begins = np.full(guess.max() + 2, FIRST - np.timedelta64(2 * CENTURY, "s"))
        begins[numbers] = self._begins(numbers)
        steps = guess - 2
        for distance in (-1, 0, 1):
            steps += instants >= begins[guess + distance]
        return steps


@dataclass(frozen=True)
class Length:
    """A length of time: a number of units."""

    count: int
    unit: str

    @classmethod
    def read(cls, name: str, text: object) -> Length:
        units, example = "|".join((*SECONDS, *MONTHS)), 'for example "1 day" or "6 hours"'
        written = text.strip().lower() if isinstance(text, str) else ""
        found = re.fullmatch(rf"(?:([0-9]{{1,10}})\s+)?({units})s?", written)
        if not found:
            raise ConfigError(f"{name} must be a whole number and a unit of time, {example}.")
        length = cls(int(found[1] or 1), found[2])
        if length.at_least > CENTURY:
            raise ConfigError(f"{name} must be at most 100 years long, {example}.")
        return length

    def __str__(self) -> str:
        return f"{self.count} {self.unit}" if self.count == 1 else f"{self.count} {self.unit}s"

    @property
    def months(self) -> int:
        """How many months; 0 for the other units."""
        return self.count * MONTHS.get(self.unit, 0)

    @property
    def fixed(self) -> np.timedelta64:
        """The length of units from second to week."""
        return np.timedelta64(self.count * SECONDS[self.unit] * 10**6, "us")

    @property
    def at_least(self) -> int:
        """How many seconds, if every month were the shortest."""
        return self.count * SECONDS.get(self.unit, 0) + self.months * 28 * SECONDS["day"]

    @property
    def by_wall_clock(self) -> bool:
        return self.unit in ("day", "week", "month", "year")


def zone(timezone: str) -> ZoneInfo:
    """The rules of an IANA time zone."""
    try:
        return ZoneInfo(timezone)
    except (KeyError, ValueError, OSError, TypeError, AttributeError):
        raise ConfigError(
            'timezone must be an IANA name, for example "Europe/Berlin" or "UTC".'
        ) from None


def to_instants(walls: np.ndarray, *, timezone: str) -> np.ndarray:
    """Turn wall-clock times (datetime64[us]) into instants.

    Of two instants the first; in a gap by the offset before it.

    >>> walls = np.array(["2026-03-29T02:30"], dtype="M8[us]")
    >>> to_instants(walls, timezone="Europe/Berlin").astype("M8[m]").tolist()
    [datetime.datetime(2026, 3, 29, 1, 30)]
    """
    rules = zone(timezone)
    within = np.where(np.isnat(walls), EPOCH, np.clip(walls, FIRST, LAST))
    days, place = np.unique(within.astype("M8[D]"), return_inverse=True)
    offsets = _offsets(days, rules)
    offset = offsets[place]
    # No zone has ever changed twice within a day.
    changing = (offsets != _offsets(days + 1, rules))[place]
    if changing.any():
        seconds, place = np.unique(within[changing].astype("M8[s]"), return_inverse=True)
        offset[changing] = _offsets(seconds, rules)[place]
    return walls - offset


def _offsets(walls: np.ndarray, rules: ZoneInfo) -> np.ndarray:
    moments = walls.astype("M8[s]").tolist()
    return np.array([rules.utcoffset(moment) for moment in moments], dtype="m8[us]")


def _start(start: object) -> str:
    """The start as the shortest ISO text."""
    text = start.isoformat() if isinstance(start, date) else start
    try:
        moment = datetime.fromisoformat(text.strip() if isinstance(text, str) else "")
    except ValueError:
        raise ConfigError(
            'start must be a date or a date-time, for example "2026-01-05T06:00".'
        ) from None
    if moment.tzinfo is not None:
        raise ConfigError(
            "start must be the local time of timezone=, without an offset of its own, "
            'for example start="2026-01-05T06:00", timezone="Europe/Berlin".'
        )
    return moment.date().isoformat() if moment.time() == time() else moment.isoformat()
