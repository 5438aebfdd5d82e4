"""Read a column of times as instants.

Times are ISO 8601 text, text of another stated form, dates, or date-times.

Text is taken apart by one regular expression and put together as numbers: every cell is read by
itself, and none can raise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tailrace.calendar import FIRST, to_instants, zone
from tailrace.domain import cells
from tailrace.errors import ConfigError, DataError

if TYPE_CHECKING:
    import polars as pl

NOT_A_TIME = np.datetime64("NaT", "us")
# The last year that has four digits.
END = np.datetime64("9999-12-31T23:59:59.999999", "us")
# In microseconds.
SECOND, MINUTE, HOUR = 1_000_000, 60_000_000, 3_600_000_000
MONTHS = ("January", "February", "March", "April", "May", "June", "July")
MONTHS += ("August", "September", "October", "November", "December")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
OFFSET = (
    r"(?:(?P<utc>z)|(?P<sign>[+-])(?P<ahead_hours>[01][0-9]|2[0-3])"
    r"(?::?(?P<ahead_minutes>[0-5][0-9]))?)"
)
ISO = (
    r"(?P<year>[0-9]{4})-(?P<month>0[1-9]|1[0-2])-(?P<day>0[1-9]|[12][0-9]|3[01])"
    r"(?:[t ](?P<hour>[01][0-9]|2[0-3])"
    r"(?::(?P<minute>[0-5][0-9])(?::(?P<second>[0-5][0-9])(?:[.,](?P<fraction>[0-9]{1,6})[0-9]*)?)?)?"
    rf" ?{OFFSET}?)?"
)
# As datetime.strptime reads them.
DIRECTIVES = {
    "Y": "(?P<year>[0-9]{4})",
    "y": "(?P<short_year>[0-9]{2})",
    "m": "(?P<month>1[0-2]|0?[1-9])",
    "b": f"(?P<month_name>{'|'.join(name[:3] for name in MONTHS)})",
    "B": f"(?P<month_name>{'|'.join(MONTHS)})",
    "d": "(?P<day>3[01]|[12][0-9]|0?[1-9])",
    "a": f"(?:{'|'.join(name[:3] for name in WEEKDAYS)})",
    "A": f"(?:{'|'.join(WEEKDAYS)})",
    "H": "(?P<hour>2[0-3]|[01][0-9]|[0-9])",
    "I": "(?P<half_day_hour>1[0-2]|0?[1-9])",
    "p": "(?P<half>[ap])m",
    "M": "(?P<minute>[0-5][0-9]|[0-9])",
    "S": "(?P<second>[0-5][0-9]|[0-9])",
    "f": "(?P<fraction>[0-9]{1,6})[0-9]*",
    "z": OFFSET,
    "%": "%",
}


# How times are written: one form, several of which a cell has the first that fits, or ISO 8601.
Format = str | Sequence[str] | None


def instants(values: pl.Series, *, timezone: str, format: Format = None) -> np.ndarray:  # noqa: A002
    """Read instants (datetime64[us], UTC); NaT where unreadable.

    Times without an offset are local to `timezone`. Of several formats a cell is read by the first
    that fits; "ISO" stands for ISO 8601.

    >>> import polars as pl
    >>> times = pl.Series(["2026-07-01 06:00", "2026-07-01T06:00Z", "soon"])
    >>> instants(times, timezone="Europe/Berlin").tolist()
    [datetime.datetime(2026, 7, 1, 4, 0), datetime.datetime(2026, 7, 1, 6, 0), None]
    >>> instants(pl.Series(["1.7.2026"]), timezone="UTC", format="%d.%m.%Y").tolist()
    [datetime.datetime(2026, 7, 1, 0, 0)]
    >>> instants(pl.Series(["7/2026"]), timezone="UTC", format="%m/%Y").tolist()
    [datetime.datetime(2026, 7, 1, 0, 0)]
    >>> both = ["%d.%m.%Y", "ISO"]
    >>> instants(pl.Series(["1.7.2026", "2026-07-02"]), timezone="UTC", format=both).tolist()
    [datetime.datetime(2026, 7, 1, 0, 0), datetime.datetime(2026, 7, 2, 0, 0)]
    """
    import polars as pl

    zone(timezone)
    patterns = patterns_of(format)
    name, values = values.name, cells.nameless(values)
    dtype = values.dtype
    if dtype == pl.Null:
        return np.full(len(values), NOT_A_TIME)
    if isinstance(dtype, pl.String | pl.Categorical | pl.Enum):
        found, *others = (_from_text(values.cast(pl.String), one, timezone) for one in patterns)
        for other in others:
            found = np.where(np.isnat(found), other, found)
        return found
    if isinstance(dtype, pl.Date):
        return to_instants(_from_counts(values, "D"), timezone=timezone)
    if isinstance(dtype, pl.Datetime):
        moments = _from_counts(values, dtype.time_unit)
        return moments if dtype.time_zone else to_instants(moments, timezone=timezone)
    raise DataError(
        f"Column '{name}' holds {type(dtype).__name__}, and times are text, dates or "
        "date-times: write them as ISO 8601 text, for example 2026-01-05T06:00:00Z."
    )


def patterns_of(format: Format) -> list[str]:  # noqa: A002
    """The regular expressions of formats; a format that cannot be used is refused."""
    forms = [format] if format is None or isinstance(format, str) else list(format)
    return [ISO if form is None or is_iso(form) else _pattern(form) for form in forms]


def is_iso(form: str) -> bool:
    """Whether a format names ISO 8601."""
    return form.upper() == "ISO"


def orders(values: pl.Series, *, timezone: str, format: Format = None) -> np.ndarray:  # noqa: A002
    """Read numbers as doubles, times as microseconds.

    Cell by cell, whichever it can be read as; NaN where neither.

    >>> import polars as pl
    >>> orders(pl.Series(["3", "1970-01-01 00:00:01", "later"]), timezone="UTC").tolist()
    [3.0, 1000000.0, nan]
    """
    import polars as pl

    if not isinstance(values.dtype, pl.Date | pl.Datetime):
        numbers = cells.number(values).fill_null(np.nan).to_numpy(writable=True)
        if values.dtype.is_numeric() or values.dtype == pl.Boolean:
            return numbers
        values = cells.text(values)
    else:
        numbers = np.full(len(values), np.nan)
    moments = instants(values, timezone=timezone, format=format)
    return np.where(np.isnan(numbers) & ~np.isnat(moments), moments.astype(np.int64), numbers)


def _pattern(format: str) -> str:  # noqa: A002
    """The regular expression of a strptime format."""
    parts = re.findall(r"%.?|\s+|[^%\s]+", format.strip(), flags=re.DOTALL)
    used = [part[1:] for part in parts if part[0] == "%"]
    if unknown := [directive for directive in used if directive not in DIRECTIVES]:
        known = " ".join(f"%{directive}" for directive in DIRECTIVES)
        raise ConfigError(
            f'format holds %{unknown[0]}, which is not among {known}; for example "%d.%m.%Y %H:%M".'
        )
    date, others = (
        [sum(map(used.count, group)) for group in groups]
        for groups in (("Yy", "mbB", "d"), ("HI", "M", "S", "f", "p", "z"))
    )
    # A month alone is its first day; a time of day needs the day that it is of.
    if date not in ([1, 1, 1], [1, 1, 0]) or max(others) > date[2]:
        raise ConfigError(
            "format needs a year and a month, a day where there is a time of day, and no part "
            'twice, for example "%d.%m.%Y %H:%M".'
        )
    return "".join(
        DIRECTIVES[part[1]] if part[0] == "%" else r"\s+" if part.isspace() else re.escape(part)
        for part in parts
    )


def _from_counts(values: pl.Series, unit: str) -> np.ndarray:
    """Ticks since 1970 as datetime64[us]; NaT beyond years 1-9999."""
    import polars as pl

    none = np.iinfo(np.int64).min
    counts = values.to_physical().cast(pl.Int64).fill_null(none).to_numpy()
    if unit == "ns":
        return np.where(counts == none, NOT_A_TIME, (counts // 1000).view("M8[us]"))
    first, last = (end.astype(f"M8[{unit}]").astype(np.int64) for end in (FIRST, END))
    within = (counts >= first) & (counts <= last)
    moments = np.where(within, counts, 0).view(f"M8[{unit}]").astype("M8[us]")
    return np.where(within, moments, NOT_A_TIME)


def _from_text(texts: pl.Series, pattern: str, timezone: str) -> np.ndarray:
    parts = _parts(texts, pattern)
    months = ((parts["year"] - 1970) * 12 + parts["month"] - 1).view("M8[M]")
    days = months.astype("M8[D]") + (parts["day"] - 1)
    # No match is the year 0; a day that its month does not have falls into the next.
    readable = (parts["year"] >= 1) & (parts["month"] >= 1) & (days.astype("M8[M]") == months)
    moments = days.astype("M8[us]") + parts["since_midnight"].view("m8[us]")
    walls = np.where(readable, moments, NOT_A_TIME)
    result = walls - parts["ahead"].view("m8[us]")
    local = parts["local"]
    if local.any():
        result[local] = to_instants(walls[local], timezone=timezone)
    return result


def _parts(texts: pl.Series, pattern: str) -> dict[str, np.ndarray]:
    """The numbers in each text, or 0; times in microseconds."""
    import polars as pl

    groups = texts.str.strip_chars().str.extract_groups(f"(?i)^(?:{pattern})$").struct.unnest()

    def text(name: str) -> pl.Expr:
        return pl.col(name) if name in groups.columns else pl.lit(None, dtype=pl.String)

    def number(name: str) -> pl.Expr:
        return text(name).cast(pl.Int64)

    short = number("short_year")
    century = pl.when(short < 69).then(2000).otherwise(1900)
    months = {name[:3].lower(): place for place, name in enumerate(MONTHS, start=1)}
    start = text("month_name").str.slice(0, 3).str.to_lowercase()
    named = start.replace_strict(months, default=None)
    afternoon = pl.when(text("half").str.to_lowercase() == "p").then(12).otherwise(0)
    fraction = text("fraction").str.pad_end(6, "0").cast(pl.Int64).fill_null(0)
    ahead = number("ahead_hours") * HOUR + number("ahead_minutes").fill_null(0) * MINUTE
    hours = pl.coalesce(number("hour"), number("half_day_hour") % 12 + afternoon, 0)
    minutes, seconds = (number(name).fill_null(0) for name in ("minute", "second"))
    expressions = {
        "year": pl.coalesce(number("year"), short + century, 0),
        "month": pl.coalesce(number("month"), named, 0),
        "day": number("day").fill_null(0) if "day" in groups.columns else pl.lit(1),
        "since_midnight": hours * HOUR + minutes * MINUTE + seconds * SECOND + fraction,
        "ahead": pl.when(text("sign") == "-").then(-ahead).otherwise(ahead).fill_null(0),
        "local": text("sign").is_null() & text("utc").is_null(),
    }
    frame = groups.select(**expressions)
    return {name: frame[name].to_numpy() for name in expressions}
