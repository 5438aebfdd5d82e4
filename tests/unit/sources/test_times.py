"""A column of times: each form of text by itself, typed columns, and what cannot be read."""

from datetime import date, datetime, time, timedelta

import numpy as np
import polars as pl
import pytest

from tailrace import ConfigError, DataError
from tailrace.domain.times import instants

NEW_YORK, BERLIN = "America/New_York", "Europe/Berlin"
NONE = "NaT"


def read(values, timezone="UTC", **options):
    series = values if isinstance(values, pl.Series) else pl.Series("when", values, dtype=pl.String)
    result = instants(series, timezone=timezone, **options)
    assert result.dtype == np.dtype("datetime64[us]") and result.shape == (len(series),)
    return result


def check(values, expected, timezone="UTC", **options):
    np.testing.assert_array_equal(
        read(values, timezone, **options), np.array(expected, dtype="M8[us]")
    )


def test_forms_of_one_column_may_differ():
    check(
        [
            "2026-01-05",
            "2026-01-05T06",
            "2026-01-05T06:07",
            "2026-01-05 06:07:08",
            "2026-01-05t06:07:08.5",
            "2026-01-05T06:07:08,123456789",
            "2026-01-05T06:07Z",
            "2026-01-05T06:07:08.25z",
            "2026-01-05 06:07+02:00",
            "2026-01-05 06:07 +0200",
            "2026-01-05 06:07-02",
            "2026-01-05 06:07-05:45",
            "\t 2026-01-05 \n",
            None,
        ],
        [
            "2026-01-05T05:00",
            "2026-01-05T11:00",
            "2026-01-05T11:07",
            "2026-01-05T11:07:08",
            "2026-01-05T11:07:08.5",
            "2026-01-05T11:07:08.123456",
            "2026-01-05T06:07",
            "2026-01-05T06:07:08.25",
            "2026-01-05T04:07",
            "2026-01-05T04:07",
            "2026-01-05T08:07",
            "2026-01-05T11:52",
            "2026-01-05T05:00",
            NONE,
        ],
        NEW_YORK,
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "soon",
        "NaT",
        "nan",
        "2026",
        "2026-01",
        "1767571200",
        "5.1.2026",
        "2026-1-5",
        "2026-00-05",
        "2026-13-05",
        "2026-01-00",
        "2026-01-32",
        "2026-04-31",
        "2026-02-29",
        "2100-02-29",
        "0000-01-01",
        "0000-12-31T23:00-02:00",
        "-2026-01-05",
        "+12026-01-05",
        "12026-01-05",
        "2026-01-05T",
        "2026-01-05Z",
        "2026-01-05T24:00",
        "2026-01-05T06:60",
        "9999-12-31T23:59:60",
        "2026-01-05T06:07:08.",
        "2026-01-05T06:07+24:00",
        "2026-01-05T06:07+02:60",
        "2026-01-05T06:07 CET",
        "2026-01-05T06:07Z and more",
        "2026-01-05\n2026-01-06",
        "２０２６-01-05",  # noqa: RUF001
        "🕕",
        "\x00",
        "9" * 60,
        "9" * 100_000,
    ],
)
def test_what_is_no_time_is_not_read(text):
    check([text, "2026-01-05"], [NONE, "2026-01-05"])


def test_leap_days_and_the_ends_of_time():
    check(
        [
            "2024-02-29",
            "2000-02-29",
            "0001-01-01",
            "9999-12-31T23:59:59.999999",
            "9999-12-31T23:00-02:00",
        ],
        [
            "2024-02-29",
            "2000-02-29",
            "0001-01-01",
            "9999-12-31T23:59:59.999999",
            "10000-01-01T01:00",
        ],
    )


def test_local_times_in_a_gap_and_shown_twice():
    check(
        [
            "2026-03-08 01:59",
            "2026-03-08 02:30",
            "2026-03-08 03:00",
            "2026-11-01 01:30",
            "2026-11-01 02:00",
        ],
        [
            "2026-03-08T06:59",
            "2026-03-08T07:30",
            "2026-03-08T07:00",
            "2026-11-01T05:30",
            "2026-11-01T07:00",
        ],
        NEW_YORK,
    )
    check(
        ["2011-12-30 12:00", "2011-12-31 12:00"],
        ["2011-12-30T22:00", "2011-12-30T22:00"],
        "Pacific/Apia",
    )
    check(["2101-07-01"], ["2101-06-30T22:00"], BERLIN)  # daylight saving does not end in 2100


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        ("%d.%m.%Y", "5.1.2026", "2026-01-04T23:00"),
        ("%d.%m.%Y", "31.02.2026", NONE),
        ("%d.%m.%Y", "2026-01-05", NONE),
        ("%d.%m.%Y", "05.01.2026 06:00", NONE),
        ("%d.%m.%Y", "05-01-2026", NONE),
        (" %m/%d/%y %I:%M %p", " 7/4/26 12:05 am ", "2026-07-03T22:05"),
        ("%m/%d/%y %I:%M %p", "7/4/69 12:05 PM", "1969-07-04T11:05"),
        ("%Y%m%d%H%M%S", "20260105060708", "2026-01-05T05:07:08"),
        ("%Y-%m-%d %H:%M:%S.%f", "2026-01-05 06:07:08.5", "2026-01-05T05:07:08.5"),
        ("%a, %d %b %Y %H:%M:%S %z", "Mon, 05 jan 2026 06:07:08 -0500", "2026-01-05T11:07:08"),
        ("%A %d %B %Y", "Thursday  1 October 2026", "2026-09-30T22:00"),
        (
            "%d %b %Y",
            "1 \u017fep 2026",
            NONE,
        ),  # a long s is an s to a regular expression that ignores case
        ("%m/%Y", "7/1993", "1993-06-30T22:00"),
        ("%b %y", "Jul 93", "1993-06-30T22:00"),
        ("%Y-%m", "1993-07-01", NONE),
        ("%Y年%m月%d日 (100%%)", "2026年1月5日 (100%)", "2026-01-04T23:00"),
    ],
)
def test_other_forms_by_their_format(form, text, expected):
    check([text], [expected], BERLIN, format=form)


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ("%d.%m.%Y %Q", "format holds %Q, which is not among %Y"),
        ("%d.%m.%Y %", "format holds %, which is not among %Y"),
        ("%s", "format holds %s, which is not among %Y"),
        ("", "format needs a year and a month"),
        ("%H:%M", "format needs a year and a month"),
        (
            "%d.%m.%Y %d",
            "format needs a year and a month, a day where there is a time of day, and no part twice",
        ),
        (
            "%d.%m.%Y %b",
            "format needs a year and a month, a day where there is a time of day, and no part twice",
        ),
        ("%m.%Y %H:%M", "format needs a year and a month, a day where there is a time of day"),
        (
            "%d.%m.%Y %H %I",
            "format needs a year and a month, a day where there is a time of day, and no part twice",
        ),
    ],
)
def test_a_format_that_cannot_be_used_is_one_sentence(form, sentence):
    with pytest.raises(ConfigError) as caught:
        read(["5.1.2026"], format=form)
    assert str(caught.value).startswith(sentence) and str(caught.value).endswith(
        'for example "%d.%m.%Y %H:%M".'
    )


def test_an_unknown_zone_is_one_sentence():
    with pytest.raises(ConfigError, match="timezone must be an IANA name, for example"):
        read(["2026-01-05Z"], "Mars")


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["2026-01-05", "soon"])])
def test_categories_are_text(dtype):
    check(
        pl.Series(["soon", "2026-01-05", None, "2026-01-05"], dtype=dtype),
        [NONE, "2026-01-05", NONE, "2026-01-05"],
    )


def test_dates_are_local():
    check(pl.Series([date(2026, 7, 1), None]), ["2026-06-30T22:00", NONE], BERLIN)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_date_times_of_every_unit(unit):
    values = [datetime(2026, 7, 1, 6, 0, 0, 1000), datetime(1969, 12, 31, 23, 59, 59, 999000), None]
    local = pl.Series(values, dtype=pl.Datetime(unit))
    check(local, ["2026-07-01T04:00:00.001", "1969-12-31T22:59:59.999", NONE], BERLIN)
    zoned = local.dt.replace_time_zone(NEW_YORK)
    check(zoned, ["2026-07-01T10:00:00.001", "1970-01-01T04:59:59.999", NONE], BERLIN)


def test_counts_that_no_calendar_holds_are_not_read():
    largest, smallest = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    for unit in ("ms", "us"):
        check(pl.Series([largest, smallest, 0]).cast(pl.Datetime(unit)), [NONE, NONE, "1970-01-01"])
    check(
        pl.Series([2**31 - 1, -(2**31), 0], dtype=pl.Int32).cast(pl.Date),
        [NONE, NONE, "1970-01-01"],
    )
    assert not np.isnat(read(pl.Series([largest, smallest + 1]).cast(pl.Datetime("ns")))).any()
    check(pl.Series([-1], dtype=pl.Int64).cast(pl.Datetime("ns")), ["1969-12-31T23:59:59.999999"])


def test_nothing_to_read():
    check([], [])
    check(pl.Series([None, None]), [NONE, NONE])
    check([None, None], [NONE, NONE], NEW_YORK)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1767571200], "Int64"),
        ([1.5], "Float64"),
        ([True], "Boolean"),
        ([time(6)], "Time"),
        ([timedelta(1)], "Duration"),
        ([["2026-01-05"]], "List"),
        ([b"2026-01-05"], "Binary"),
        ([{"secret": 1}], "Struct"),
    ],
)
def test_a_column_of_another_type_is_refused_without_its_values(values, kind):
    with pytest.raises(DataError) as caught:
        read(pl.Series("when", values))
    assert str(caught.value) == (
        f"Column 'when' holds {kind}, and times are text, dates or date-times: "
        "write them as ISO 8601 text, for example 2026-01-05T06:00:00Z."
    )
