"""Whatever the zone and the period: steps divide time, every question about them agrees, and so
does reading times.
"""

import calendar as months
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from samples import examples
from tailrace import ConfigError
from tailrace.calendar import Calendar
from tailrace.domain.times import instants

ZONES = (
    "UTC",
    "America/New_York",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Asia/Kathmandu",
)
UNITS = ("second", "minute", "hour", "day", "week", "month", "year")
CHANGES = {  # wall clocks near which each zone changes its offset
    "UTC": ["2016-12-31T23:59:59"],
    "America/New_York": [
        "2026-03-08T02:00",
        "2026-11-01T01:00",
        "2101-03-13T02:00",
        "1883-11-18T12:03:58",
    ],
    "Europe/Berlin": ["2026-03-29T02:00", "2026-10-25T02:00", "1893-04-01T00:00"],
    "Australia/Lord_Howe": ["2026-04-05T01:30", "2026-10-04T02:00"],
    "Pacific/Apia": ["2011-12-30T00:00", "2011-12-30T23:00", "2012-04-01T03:00"],
    "Asia/Kathmandu": ["1986-01-01T00:00"],
}
zones = st.sampled_from(ZONES)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def walls(zone, first=datetime(1, 1, 1), last=datetime(9999, 12, 31)):
    """Wall clocks, half of them near a change of the zone's offset."""
    near = st.sampled_from(CHANGES[zone]).map(datetime.fromisoformat)
    shift = st.timedeltas(timedelta(hours=-30), timedelta(hours=30))
    coarse = shift.map(lambda shift: timedelta(minutes=shift // timedelta(minutes=1)))
    return st.datetimes(first, last) | st.builds(
        lambda wall, shift: wall + shift, near, coarse | shift
    )


@st.composite
def calendars(draw):
    timezone = draw(zones)
    start = draw(walls(timezone, datetime(1900, 1, 1), datetime(2100, 1, 1)))
    ends = [datetime(2024, 2, 29), datetime(2026, 1, 31), datetime(2025, 11, 30, 2, 30)]
    return Calendar(
        start=draw(st.just(start.date()) | st.just(start) | st.sampled_from(ends)),
        period=f"{draw(st.integers(1, 3) | st.integers(1, 100))} {draw(st.sampled_from(UNITS))}",
        timezone=timezone,
        grace=f"{draw(st.integers(0, 50))} {draw(st.sampled_from(UNITS[:5]))}",
    )


def us(moments):
    """Aware datetimes as datetime64[us]."""
    return np.array(
        [(moment - EPOCH) // timedelta(microseconds=1) for moment in moments], dtype="M8[us]"
    )


@st.composite
def asked(draw):
    """A calendar and moments: anywhere, and a microsecond around the ends of its steps."""
    calendar = draw(calendars())
    anywhere = st.datetimes(datetime(2, 1, 1), datetime(9800, 1, 1), timezones=st.just(UTC))
    soon = st.builds(
        lambda seconds: calendar.begin(1) + timedelta(seconds=seconds),
        st.integers(-(10**6), 10**9) | st.integers(-9, 9),
    )
    edges = st.builds(
        lambda step, ask, off: ask(calendar, step) + timedelta(microseconds=off),
        st.integers(1, 70),
        st.sampled_from([Calendar.begin, Calendar.end, Calendar.closes]),
        st.integers(-1, 1),
    )
    return calendar, draw(st.lists(edges | soon | anywhere, min_size=1, max_size=12))


def expected_begin(calendar, step):
    """The same by Python's datetimes, one step at a time."""
    start, zone = datetime.fromisoformat(calendar.start), ZoneInfo(calendar.timezone)
    count, unit = calendar.period.split()
    passed, unit = (step - 1) * int(count), unit.removesuffix("s")
    if unit in ("month", "year"):
        month = start.year * 12 + start.month - 1 + passed * (12 if unit == "year" else 1)
        year, month = month // 12, month % 12 + 1
        wall = start.replace(
            year=year, month=month, day=min(start.day, months.monthrange(year, month)[1])
        )
        return wall.replace(tzinfo=zone).astimezone(UTC)
    if unit in ("day", "week"):
        return (start + timedelta(**{f"{unit}s": passed})).replace(tzinfo=zone).astimezone(UTC)
    return start.replace(tzinfo=zone).astimezone(UTC) + timedelta(**{f"{unit}s": passed})


@given(calendars(), st.integers(1, 70))
def test_steps_begin_where_python_says(calendar, step):
    assert calendar.begin(step) == expected_begin(calendar, step)


@given(calendars(), st.integers(1, 60))
def test_steps_divide_time(calendar, step):
    assert calendar.begin(step) <= calendar.end(step) == calendar.begin(step + 1)
    count, unit = calendar.grace.split()
    assert calendar.closes(step) - calendar.end(step) == timedelta(
        **{unit.removesuffix("s") + "s": int(count)}
    )


@examples(300)
@given(asked())
def test_an_instant_lies_in_its_step(asked):
    calendar, moments = asked
    steps = calendar.steps(us(moments))
    for moment, step in zip(moments, steps.tolist(), strict=True):
        if step == 0:
            assert moment < calendar.begin(1)
        else:
            assert calendar.begin(step) <= moment < calendar.end(step)


@examples(300)
@given(asked())
def test_what_is_closed_and_what_is_open_agree(asked):
    calendar, moments = asked
    opened = calendar.open_at(us(moments))
    for moment, step in zip(moments, opened.tolist(), strict=True):
        assert calendar.released_by(moment) == step - 1
        assert step == 1 or calendar.closes(step - 1) <= moment
        assert moment < calendar.closes(step)


@given(asked(), st.randoms())
def test_neighbours_in_an_array_do_not_matter(asked, random):
    calendar, moments = asked
    alone = {moment: calendar.steps(us([moment]))[0] for moment in moments}
    random.shuffle(moments)
    together = calendar.steps(np.concatenate([us(moments), np.array(["NaT"], dtype="M8[us]")]))
    assert together.tolist() == [*(alone[moment] for moment in moments), -1]


@given(calendars(), st.integers(1, 70))
def test_no_two_steps_have_one_label(calendar, step):
    if datetime.fromisoformat(calendar.start).year >= 1970:  # before, offsets had seconds
        assert calendar.label(step) != calendar.label(step + 1)


@st.composite
def stamps(draw):
    """A zone and ISO texts, in every form that is read."""
    timezone = draw(zones)

    def write(wall, separator, digits, offset, blanks):
        text = (
            wall.isoformat(sep=separator, timespec=digits) + offset
            if digits
            else wall.date().isoformat()
        )
        return blanks + text + blanks

    offsets = st.sampled_from(["", "", "", "Z", "+02:00", "-0930", "+14", "-00:00", "+23:59"])
    digits = st.sampled_from(["", "hours", "minutes", "seconds", "milliseconds", "microseconds"])
    texts = st.builds(
        write,
        walls(timezone),
        st.sampled_from("T "),
        digits,
        offsets,
        st.sampled_from(["", " ", "\t "]),
    )
    return timezone, draw(st.lists(texts, min_size=1, max_size=20))


def expected_instant(text, timezone):
    """By Python, as microseconds since 1970, which may leave the years that Python knows."""
    moment = datetime.fromisoformat(text.strip())
    offset = (moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(timezone))).utcoffset()
    return (moment.replace(tzinfo=UTC) - EPOCH - offset) // timedelta(microseconds=1)


@examples(300)
@given(stamps())
def test_texts_are_read_as_python_reads_them(stamps):
    timezone, texts = stamps
    found = instants(pl.Series(texts), timezone=timezone).view(np.int64).tolist()
    assert found == [expected_instant(text, timezone) for text in texts]


digits = st.from_regex(
    r"[0-9]{4}-[01][0-9]-[0-3][0-9]"
    r"([T ][0-2][0-9]:[0-6][0-9](:[0-6][0-9](\.[0-9]{1,9})?)?(Z|[+-][0-2][0-9]:?[0-5][0-9])?)?",
    fullmatch=True,
)


@examples(300)
@given(st.lists(digits, min_size=1, max_size=20), zones)
def test_numbers_out_of_range_are_not_read_and_no_others(texts, timezone):
    found = instants(pl.Series(texts), timezone=timezone)
    for text, one in zip(texts, found, strict=True):
        try:
            expected = expected_instant(text, timezone)
        except ValueError:
            expected = np.iinfo(np.int64).min  # NaT
        assert one.astype(np.int64) == expected


@examples(300)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"])) | digits | st.none(), max_size=20),
    zones,
    st.booleans(),
)
def test_any_text_is_a_time_or_none(texts, timezone, german):
    series = pl.Series(texts, dtype=pl.String)
    found = instants(series, timezone=timezone, format="%d.%m.%Y %H:%M" if german else None)
    assert found.dtype == np.dtype("M8[us]") and len(found) == len(texts)
    steps = Calendar(start="2026-01-05", period="1 day", timezone=timezone).steps(found)
    assert ((steps == -1) == np.isnat(found)).all()


FORMATS = [
    "%d.%m.%Y %H:%M:%S.%f",
    "%m/%d/%y %I:%M %p",
    "%Y%m%d%H%M%S",
    "%a %d %b %Y",
    "%A, %B %d, %Y [%H|%M]",
    "%d-%b-%y %H%%",
]


@examples(300)
@given(
    zones,
    st.sampled_from(FORMATS),
    st.datetimes(datetime(1970, 1, 1), datetime(2068, 12, 31)),
    st.booleans(),
)
def test_a_format_reads_what_python_reads(timezone, form, wall, zoned):
    form, text = (
        (f"{form} %z", f"{wall.strftime(form)} -0330") if zoned else (form, wall.strftime(form))
    )
    moment = datetime.strptime(text, form)
    found = instants(pl.Series([text]), timezone=timezone, format=form)
    assert found.view(np.int64).tolist() == [expected_instant(moment.isoformat(), timezone)]


@given(
    st.text(st.characters(exclude_categories=["Cs"])).map(lambda rest: "%Y %m %d" + rest),
    st.text("0123456789 :%"),
)
def test_any_format_is_used_or_refused(form, text):
    with suppress(ConfigError):
        assert len(instants(pl.Series([text]), timezone="UTC", format=form)) == 1
