"""Steps by the clock: daylight saving, month ends, leap days, grace, far years, and one sentence
for each mistake.
"""

from datetime import UTC, date, datetime, timedelta
from time import perf_counter

import numpy as np
import pytest

from tailrace import ConfigError
from tailrace.calendar import Calendar, to_instants
from tailrace.storage.codec import from_plain, to_plain

NEW_YORK, BERLIN = "America/New_York", "Europe/Berlin"


def instants(*texts):
    return np.array(texts, dtype="datetime64[us]")


def utc(*parts):
    return datetime(*parts, tzinfo=UTC)


def hours(calendar, step):
    return (calendar.end(step) - calendar.begin(step)) / timedelta(hours=1)


def labels(calendar, count):
    return [calendar.label(step) for step in range(1, count + 1)]


# what a calendar is made of


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("day", "1 day"),
        (" 1  Days ", "1 day"),
        ("2 week", "2 weeks"),
        ("month", "1 month"),
        ("03 months", "3 months"),
        ("year", "1 year"),
        ("6 hours", "6 hours"),
        ("15 minutes", "15 minutes"),
        ("10 seconds", "10 seconds"),
        ("100 years", "100 years"),
    ],
)
def test_a_period_is_kept_in_one_way_of_writing(written, kept):
    assert Calendar(start="2026-01-01", period=written).period == kept


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (date(2026, 1, 5), "2026-01-05"),
        (datetime(2026, 1, 5), "2026-01-05"),
        ("2026-01-05T00:00", "2026-01-05"),
        (" 2026-01-05 06:00 ", "2026-01-05T06:00:00"),
        (datetime(2026, 1, 5, 6, 0, 0, 5), "2026-01-05T06:00:00.000005"),
    ],
)
def test_a_start_is_kept_as_the_shortest_text(given, kept):
    calendar = Calendar(start=given, period="1 day")
    assert calendar.start == kept
    assert Calendar(start=calendar.start, period="1 day") == calendar


def test_a_calendar_is_plain_values_and_back():
    calendar = Calendar(
        start=date(2026, 1, 31), period="month", timezone=BERLIN, grace="day", late="drop"
    )
    plain = to_plain(calendar)
    assert plain == {
        "kind": "Calendar",
        "start": "2026-01-31",
        "period": "1 month",
        "timezone": BERLIN,
        "grace": "1 day",
        "late": "drop",
    }
    assert from_plain(plain, {"Calendar": Calendar}) == calendar
    calendar.steps(instants("2026-05-01"))
    assert to_plain(calendar) == plain


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"timezone": "Europe/Atlantis"},
            'timezone must be an IANA name, for example "Europe/Berlin" or "UTC".',
        ),
        (
            {"timezone": "../UTC"},
            'timezone must be an IANA name, for example "Europe/Berlin" or "UTC".',
        ),
        (
            {"timezone": "Europe"},
            'timezone must be an IANA name, for example "Europe/Berlin" or "UTC".',
        ),
        ({"timezone": ""}, 'timezone must be an IANA name, for example "Europe/Berlin" or "UTC".'),
        (
            {"timezone": None},
            'timezone must be an IANA name, for example "Europe/Berlin" or "UTC".',
        ),
        (
            {"period": "daily"},
            'period must be a whole number and a unit of time, for example "1 day" or "6 hours".',
        ),
        (
            {"period": "1.5 days"},
            'period must be a whole number and a unit of time, for example "1 day" or "6 hours".',
        ),
        (
            {"period": "-1 day"},
            'period must be a whole number and a unit of time, for example "1 day" or "6 hours".',
        ),
        (
            {"period": "\u0661 day"},
            'period must be a whole number and a unit of time, for example "1 day" or "6 hours".',
        ),
        (
            {"period": 1},
            'period must be a whole number and a unit of time, for example "1 day" or "6 hours".',
        ),
        ({"period": "9" * 5000 + " days"}, "period must be a whole number and a unit of time"),
        ({"period": "0 days"}, 'period must be longer than zero, for example "1 day".'),
        (
            {"period": "1000 years"},
            'period must be at most 100 years long, for example "1 day" or "6 hours".',
        ),
        (
            {"grace": "soon"},
            'grace must be a whole number and a unit of time, for example "1 day" or "6 hours".',
        ),
        (
            {"grace": "1 month"},
            'grace must be of a fixed length, from seconds to weeks, for example "30 days".',
        ),
        (
            {"grace": "0 years"},
            'grace must be of a fixed length, from seconds to weeks, for example "30 days".',
        ),
        (
            {"start": "2026-01-05T06:00+01:00"},
            "start must be the local time of timezone=, without an offset",
        ),
        (
            {"start": "2026-01-05T06:00Z"},
            "start must be the local time of timezone=, without an offset",
        ),
        (
            {"start": utc(2026, 1, 5)},
            "start must be the local time of timezone=, without an offset",
        ),
        (
            {"start": "5 January"},
            'start must be a date or a date-time, for example "2026-01-05T06:00".',
        ),
        (
            {"start": 20260105},
            'start must be a date or a date-time, for example "2026-01-05T06:00".',
        ),
        ({"start": None}, 'start must be a date or a date-time, for example "2026-01-05T06:00".'),
        (
            {"start": "9999-12-31"},
            "Step 1 of this calendar reaches beyond the years 1 to 9999: choose another start",
        ),
        (
            {"start": "0001-01-01", "timezone": BERLIN},
            "Step 1 of this calendar reaches beyond the years 1 to 9999",
        ),
        (
            {"late": "later"},
            'late must be "next" (late rows join the open step), "drop", or left out.',
        ),
    ],
)
def test_a_mistake_is_one_sentence_with_an_example(changed, sentence):
    with pytest.raises(ConfigError) as caught:
        Calendar(**{"start": "2026-01-05", "period": "1 day", **changed})
    message = str(caught.value)
    assert message.startswith(sentence)
    assert "\n" not in message and message.endswith(".")
    assert caught.value.__cause__ is None and (
        caught.value.__context__ is None or caught.value.__suppress_context__
    )


# steps by the wall clock


def test_a_day_has_23_hours_in_spring_and_25_in_autumn():
    spring = Calendar(start="2026-03-07", period="1 day", timezone=NEW_YORK)
    assert [hours(spring, step) for step in (1, 2, 3)] == [24, 23, 24]
    assert spring.begin(2) == utc(2026, 3, 8, 5) and spring.end(2) == utc(2026, 3, 9, 4)
    autumn = Calendar(start="2026-10-31", period="1 day", timezone=NEW_YORK)
    assert [hours(autumn, step) for step in (1, 2, 3)] == [24, 25, 24]
    edges = instants(
        "2026-11-01T03:59:59.999999",
        "2026-11-01T04:00",
        "2026-11-02T04:59:59.999999",
        "2026-11-02T05:00",
    )
    assert autumn.steps(edges).tolist() == [1, 2, 2, 3]


def test_a_day_that_begins_in_a_gap_begins_by_the_offset_before_it():
    calendar = Calendar(start="2026-03-07T02:30", period="1 day", timezone=NEW_YORK)
    assert [calendar.begin(step) for step in (1, 2, 3)] == [
        utc(2026, 3, 7, 7, 30),
        utc(2026, 3, 8, 7, 30),  # 02:30 does not exist: 03:30 daylight time
        utc(2026, 3, 9, 6, 30),
    ]


def test_a_day_that_begins_at_an_hour_shown_twice_begins_at_the_first():
    calendar = Calendar(start="2026-10-31T01:30", period="1 day", timezone=NEW_YORK)
    assert calendar.begin(2) == utc(2026, 11, 1, 5, 30)
    assert [hours(calendar, step) for step in (1, 2)] == [24, 25]


def test_half_hours_of_daylight_saving():
    calendar = Calendar(start="2026-04-04", period="day", timezone="Australia/Lord_Howe")
    assert [hours(calendar, step) for step in (1, 2, 3)] == [24, 24.5, 24]


def test_the_day_that_apia_left_out_is_a_step_without_time():
    calendar = Calendar(start="2011-12-29", period="day", timezone="Pacific/Apia")
    assert [hours(calendar, step) for step in (1, 2, 3)] == [24, 0, 24]
    assert labels(calendar, 3) == ["2011-12-29", "2011-12-30", "2011-12-31"]
    assert calendar.steps(instants("2011-12-30T09:59:59", "2011-12-30T10:00")).tolist() == [1, 3]
    assert calendar.released_by(utc(2011, 12, 30, 10)) == 2


def test_weeks_go_by_the_wall_clock():
    calendar = Calendar(start="2026-03-23", period="week", timezone=BERLIN)
    assert [hours(calendar, step) for step in (1, 2)] == [167, 168]
    assert labels(calendar, 2) == ["2026-03-23", "2026-03-30"]


def test_month_ends_are_counted_from_the_start():
    calendar = Calendar(start="2026-01-31", period="1 month")
    assert labels(calendar, 5) == [
        "2026-01-31",
        "2026-02-28",
        "2026-03-31",
        "2026-04-30",
        "2026-05-31",
    ]
    assert calendar.steps(
        instants("2026-02-27T23:59:59", "2026-02-28", "2026-03-30", "2026-03-31")
    ).tolist() == [
        1,
        2,
        2,
        3,
    ]
    assert Calendar(start="2023-11-30", period="3 months").label(2) == "2024-02-29"


def test_a_month_can_begin_after_utc_is_in_the_next():
    calendar = Calendar(start="2026-01-31T23:00", period="1 month", timezone=NEW_YORK)
    assert calendar.begin(2) == utc(2026, 3, 1, 4)
    assert calendar.steps(instants("2026-03-01T03:59:59", "2026-03-01T04:00")).tolist() == [1, 2]


def test_leap_days():
    yearly = Calendar(start="2024-02-29", period="year")
    assert labels(yearly, 5) == [
        "2024-02-29",
        "2025-02-28",
        "2026-02-28",
        "2027-02-28",
        "2028-02-29",
    ]
    daily = Calendar(start="2024-02-28", period="day")
    assert labels(daily, 3) == ["2024-02-28", "2024-02-29", "2024-03-01"]
    assert Calendar(start="2100-02-28", period="day").label(2) == "2100-03-01"  # no leap year


# steps by absolute time


def test_hours_go_on_through_daylight_saving():
    calendar = Calendar(start="2026-10-25", period="1 hour", timezone=BERLIN)
    assert {hours(calendar, step) for step in range(1, 26)} == {1}
    assert labels(calendar, 5) == [
        "2026-10-25 00:00",
        "2026-10-25 01:00",
        "2026-10-25 02:00",
        "2026-10-25 02:00+01:00",
        "2026-10-25 03:00",
    ]
    spring = Calendar(start="2026-03-29T01:00", period="1 hour", timezone=BERLIN)
    assert labels(spring, 2) == ["2026-03-29 01:00", "2026-03-29 03:00"]


def test_six_hours_drift_against_the_wall_clock():
    calendar = Calendar(start="2026-03-28T18:00", period="6 hours", timezone=BERLIN)
    assert labels(calendar, 3) == ["2026-03-28 18:00", "2026-03-29 00:00", "2026-03-29 07:00"]


# grace


def test_a_step_closes_after_its_grace():
    calendar = Calendar(start="2026-01-01", period="1 day", grace="6 hours")
    assert calendar.closes(1) == utc(2026, 1, 2, 6)
    assert calendar.released_by(utc(2026, 1, 2, 5, 59, 59)) == 0
    assert calendar.released_by(utc(2026, 1, 2, 6)) == 1
    arrivals = instants(
        "1999-01-01", "2026-01-02T05:59:59.999999", "2026-01-02T06:00", "NaT", "2026-01-04T06:00"
    )
    assert calendar.open_at(arrivals).tolist() == [1, 1, 2, -1, 4]


def test_grace_is_absolute_time():
    calendar = Calendar(start="2026-03-07", period="1 day", timezone=NEW_YORK, grace="1 day")
    assert calendar.closes(1) - calendar.end(1) == timedelta(hours=24)


def test_grace_longer_than_the_period():
    calendar = Calendar(start="2026-01-01", period="1 hour", grace="1 week")
    assert calendar.released_by(utc(2026, 1, 8, 0)) == 0
    assert calendar.released_by(utc(2026, 1, 8, 1)) == 1
    assert calendar.open_at(instants("2026-01-08T02:00")).tolist() == [3]


def test_now_may_be_in_any_zone_but_must_have_one():
    calendar = Calendar(start="2026-01-01", period="1 day")
    assert calendar.released_by(datetime.fromisoformat("2026-01-02T02:00+02:00")) == 1
    assert calendar.released_by(datetime.fromisoformat("2026-01-02T01:59+02:00")) == 0
    with pytest.raises(ConfigError, match=r"with a time zone, for example datetime\.now\(UTC\)"):
        calendar.released_by(datetime(2026, 1, 2))


# labels


@pytest.mark.parametrize(
    ("start", "period", "label"),
    [
        ("2026-01-01", "1 month", "2026-02"),
        ("2026-01-01", "1 year", "2027-01"),
        ("2026-01-05", "1 month", "2026-02-05"),
        ("2026-01-05", "2 weeks", "2026-01-19"),
        ("2026-01-05T06:00", "1 day", "2026-01-06 06:00"),
        ("2026-01-01T06:00", "1 month", "2026-02-01 06:00"),
        ("2026-01-05", "6 hours", "2026-01-05 06:00"),
        ("2026-01-05", "10 seconds", "2026-01-05 00:00:10"),
        ("2026-01-05T06:00:30", "1 hour", "2026-01-05 07:00:30"),
    ],
)
def test_how_people_call_a_step(start, period, label):
    assert Calendar(start=start, period=period, timezone=BERLIN).label(2) == label


# the ends of time


@pytest.mark.parametrize(
    "period", ["1 second", "1 hour", "1 day", "1 week", "1 month", "100 years"]
)
@pytest.mark.parametrize("timezone", ["UTC", NEW_YORK, "Pacific/Apia"])
def test_far_instants_neither_raise_nor_take_long(period, timezone):
    calendar = Calendar(start="2026-01-31", period=period, timezone=timezone, grace="5000 weeks")
    ends = np.array([np.iinfo(np.int64).max, np.iinfo(np.int64).min + 1], dtype=np.int64).view(
        "M8[us]"
    )
    far = np.concatenate([instants("0001-01-01", "2026-02-01", "9999-12-31T23:59:59", "NaT"), ends])
    begun = perf_counter()
    steps, opened = calendar.steps(far), calendar.open_at(far)
    assert perf_counter() - begun < 1
    assert steps[[0, 3, 5]].tolist() == [0, -1, 0] and opened[[0, 1, 3, 5]].tolist() == [
        1,
        1,
        -1,
        1,
    ]
    assert steps[2] == steps[4] > 75  # later than any horizon, and in order
    assert opened[1] <= opened[2] == opened[4] <= steps[2]


def test_no_instants_no_steps():
    calendar = Calendar(start="2026-01-31", period="1 day")
    assert calendar.steps(instants()).shape == (0,) and calendar.steps(instants()).dtype == np.int64
    assert calendar.open_at(instants("NaT", "NaT")).tolist() == [-1, -1]


@pytest.mark.parametrize("period", ["1 second", "1 day", "1 month"])
def test_a_step_outside_time_is_refused(period):
    calendar = Calendar(start="2026-01-31", period=period)
    for ask in (calendar.begin, calendar.end, calendar.closes, calendar.label):
        with pytest.raises(ConfigError, match=r"numbered from 1\."):
            ask(0)
        with pytest.raises(ConfigError, match="beyond the years 1 to 9999"):
            ask(10**30)
    with pytest.raises(ConfigError, match="beyond the years 1 to 9999"):
        calendar.end(int(calendar.steps(instants("9999-12-31"))[0]))


def test_a_minute_ten_years_on_is_found_at_once():
    calendar = Calendar(start="2016-01-01", period="1 minute", timezone=BERLIN)
    begun = perf_counter()
    assert calendar.released_by(utc(2025, 12, 31, 23)) == 5_260_320
    assert perf_counter() - begun < 1


def test_wall_clocks_of_the_first_and_last_years_have_instants():
    walls = instants("0001-01-01", "9999-07-01", "9999-12-31T23:00", "NaT")
    expected = instants("0001-01-01T04:56:02", "9999-07-01T04:00", "10000-01-01T04:00", "NaT")
    np.testing.assert_array_equal(to_instants(walls, timezone=NEW_YORK), expected)
