"""Several formats of times, other spellings, rows that came twice; warnings to the curator."""

import itertools

import numpy as np
import polars as pl
import pytest

from tailrace import Categorical, ConfigError, Integer, Schema
from tailrace.calendar import Calendar
from tailrace.config import load
from tailrace.config.opening import reader as reader_of
from tailrace.domain.times import instants
from tailrace.sources import FolderSource, Reader, TopicSource, examine
from tailrace.sources.examine import presence

CITY = Schema(city=Categorical(["New York", "Boston"]), age=Integer(0, 99))


def test_a_time_is_read_by_the_first_format_that_fits():
    texts = pl.Series(["1.2.2026", "2026-02-01", "02/01/2026", "soon", None])
    found = instants(texts, timezone="UTC", format=["%d.%m.%Y", "ISO", "%m/%d/%Y"])
    assert found.astype("M8[D]").astype(str).tolist() == ["2026-02-01"] * 3 + ["NaT"] * 2


def test_each_cell_is_read_by_itself_whatever_stands_beside_it():
    form = ["%d.%m.%Y", "%m.%d.%Y"]
    alone = instants(pl.Series(["1.2.2026"]), timezone="UTC", format=form)
    beside = instants(pl.Series(["1.2.2026", "1.31.2026"]), timezone="UTC", format=form)
    assert alone[0] == beside[0]


def test_an_alias_is_another_spelling_of_a_value():
    aliases = {"city": {"NYC": "New York"}}
    rows = pl.DataFrame({"city": ["NYC", " NYC ", "nyc", "Boston", None], "age": ["1"] * 5})
    read = Reader(domain=CITY, aliases=aliases).read(rows).frame
    assert read["city"].to_list() == ["New York", "New York", "nyc", "Boston", None]


def counted(rows, **more):
    """What is counted of rows (id, city, age), as a set."""
    frame = pl.DataFrame(rows, schema=["id", "city", "age", "who"], orient="row")
    made = Reader(domain=CITY, id="id", **more)
    read = made.read(frame.cast(pl.String)).frame
    return read.filter(made.once(read)).rows()


def test_rows_of_one_id_count_once_where_they_agree_and_not_at_all_where_they_do_not():
    one, same, other = (1, "Boston", 30, "a"), (1, "Boston", 30, "b"), (1, "Boston", 31, "a")
    assert len(counted([one, same])) == 1
    assert counted([one, other]) == []
    assert len(counted([(None, "Boston", 30, "a")] * 2)) == 2, "without an id every row counts"


def test_one_row_more_changes_what_is_counted_by_one_row():
    """All sets of up to four rows of two ids and two contents: the proof's cases."""
    rows = [(name, city, 30, "a") for name in (1, 2) for city in ("Boston", "New York")]
    for many in range(4):
        for held in itertools.combinations_with_replacement(rows, many):
            for more in rows:
                before, after = counted(list(held)), counted([*held, more])
                only = [row for row in after if after.count(row) > before.count(row)]
                gone = [row for row in before if before.count(row) > after.count(row)]
                assert len(only) + len(gone) <= 1, (held, more)


def test_a_person_changes_no_row_of_another():
    theirs = [(1, "Boston", 30, "a"), (2, "New York", 5, "a")]
    mine = [(1, "New York", 99, "b"), (2, "Boston", 1, "b"), (2, "Boston", 2, "b")]
    alone, together = counted(theirs, key="who"), counted([*mine, *theirs], key="who")
    assert set(alone) <= set(together) and len(alone) == 2


TOML = """
[stream]
path = "a.tail"
population = "city"
[mechanism]
kind = "HistogramStream"
horizon = 9
privacy = { kind = "PureDP", epsilon = 1 }
unit = { kind = "Event" }
[schema]
city = { kind = "Categorical", values = ["New York", "Boston"] }
age = { kind = "Integer", low = 0, high = 99 }
[source]
kind = "Folder"
path = "in"
files = "*.csv"
time = "day"
format = ["%d.%m.%Y", "ISO"]
id = "case"
[calendar]
start = 2026-01-01
period = "1 day"
"""


def test_formats_aliases_and_ids_are_keys_of_a_configuration(tmp_path):
    (tmp_path / "a.toml").write_text(TOML + '[aliases.city]\n"NYC" = "New York"\n')
    made = reader_of(load(tmp_path / "a.toml"))
    assert made.aliases == {"city": {"NYC": "New York"}} and made.id == "case"
    assert made.cut["format"] == ["%d.%m.%Y", "ISO"] and made.cut["id"] == "case"


@pytest.mark.parametrize(
    ("aliases", "said"),
    [
        ('[aliases.town]\n"NYC" = "New York"', "they are for city."),
        ('[aliases.age]\n"ten" = "10"', "they are for city."),
        ('[aliases.city]\n"NYC" = "Paris"', "must stand for one of the values of city"),
        ('[aliases.city]\n"Boston" = "New York"', "must not be a value of its own"),
        ('[aliases]\ncity = "NYC"', "is a table, with a line such as"),
    ],
)
def test_aliases_that_cannot_be_are_told_with_their_line(tmp_path, aliases, said):
    (tmp_path / "a.toml").write_text(TOML + aliases)
    with pytest.raises(ConfigError, match=r"a\.toml, line \d+: .*") as caught:
        load(tmp_path / "a.toml")
    assert said in str(caught.value)


def test_formats_and_ids_that_cannot_be():
    for form in ("dots", ["%d.%m.%Y", "dots"], []):
        with pytest.raises(ConfigError, match="must say how a time is written"):
            FolderSource(path="in", files="*.csv", time="day", format=form)
    with pytest.raises(ConfigError, match="counts each message once"):
        TopicSource(servers="one:9092", topic="a", time="day", id="case")


CALENDAR = Calendar(start="2026-01-01", period="1 day")


def test_check_counts_duplicates_within_a_step():
    rows = pl.DataFrame(
        {
            "case": ["1", "1", "1", "2", "2"],
            "city": ["Boston"] * 5,
            "age": ["30", "30", "30", "7", "8"],
            "day": ["2026-01-01", "2026-01-01", "2026-01-02", "2026-01-01", "2026-01-01"],
        }
    )
    made = Reader(domain=CITY, id="case", time="day")
    found = examine(made, CALENDAR, rows)
    assert (found.counted, found.duplicates) == (2, 3), "the next day is another row"


def test_steps_and_values_that_stopped_coming_are_found():
    days = [day for day in range(1, 12) if day != 4]
    cities = ["Boston" if day < 7 else "New York" for day in days]
    frame = pl.DataFrame(
        {"city": cities, "age": ["1"] * 10, "day": [f"2026-01-{day:02d}" for day in days]}
    )
    found = presence(Reader(domain=CITY, time="day"), CALENDAR, [frame[:5], frame[5:]])
    assert found.gaps() == [4] and found.gaps(13) == [4, 12, 13]
    assert found.silent() == [("city", "Boston", 6)]
    assert found.silent(patience=6) == []
    rare = presence(Reader(domain=CITY, time="day"), CALENDAR, [frame[:2]])
    assert rare.silent() == [("city", "New York", None)]


def test_ids_leave_columns_of_other_readers_as_they_are():
    read = Reader(domain=CITY).read(pl.DataFrame({"city": ["Boston"], "age": ["1"]}))
    assert np.all(Reader(domain=CITY).once(read.frame)) and read.frame.columns == ["city", "age"]
