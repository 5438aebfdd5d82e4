"""What becomes of a file's rows, for the curator: the same numbers as a run would come to."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace import Box, Categorical, Integer, Region, Roads, Schema
from tailrace.calendar import Calendar
from tailrace.counting.plan import Plan
from tailrace.sources import Reader, Shelf, TimedFiles, Used, examine

WARD = Schema(sex=Categorical(["f", "m"], outside="other"), age=Integer(0, 99, outside="clip"))
DAYS = Calendar(start="2026-01-01", period="1 day")


def test_each_cell_is_missing_unreadable_outside_or_fine():
    frame = pl.DataFrame(
        {
            "sex": ["f", None, "x", "m", "f", "f"],
            "age": ["41", "7", None, "old", "120", "nan"],
            "day": ["2026-01-05", "2026-01-07", "2025-12-31", "2026-01-01", "soon", None],
        }
    )
    found = examine(Reader(domain=WARD, time="day"), DAYS, frame)
    assert [(one.name, one.missing, one.unreadable, one.outside) for one in found.columns] == [
        ("sex", 1, 0, 1),
        ("age", 1, 2, 1),
    ]
    assert (found.rows, found.counted, found.dropped, found.untimed, found.early) == (6, 2, 4, 2, 1)
    assert found.steps == (1, 7) and found.deletes == found.unknown_op == 0


def test_without_a_calendar_nothing_is_said_of_times():
    found = examine(Reader(domain=WARD), None, pl.DataFrame({"sex": ["f"], "age": [-5.0]}))
    assert (found.counted, found.untimed, found.early, found.steps) == (1, 0, 0, None)
    assert found.columns[1].outside == 1, "outside, and clipped"


def test_ops_and_places():
    box = Box(low=(0, 0), high=(4, 2), columns=("x", "y"), cells=2)
    rows = {"x": ["1", "9", "1", "1"], "y": ["1"] * 4, "op": ["insert", "insert", "delete", "else"]}
    found = examine(Reader(domain=box, op="op"), None, pl.DataFrame(rows))
    assert (found.rows, found.counted, found.deletes, found.unknown_op) == (4, 2, 1, 1)
    assert [column.outside for column in found.columns] == [1, 0] and found.outside == 1


def test_points_off_a_region_or_a_road_are_outside_with_all_their_columns():
    shapely = pytest.importorskip("shapely", reason="shapely is not installed")
    rows = pl.DataFrame({"lon": ["1", "3.5", "9", "x"], "lat": ["1", "3.5", "9", "1"]})
    for domain, outside in (
        (Region(shapely.Polygon([(0, 0), (4, 0), (0, 4)]), cells=4), 2),
        (Region(shapely.Polygon([(0, 0), (4, 0), (0, 4)]), cells=4, outside="nearest"), 0),
        (Roads(shapely.LineString([(0, 0), (4, 0), (4, 4)]), cells=4), 2),
    ):
        found = examine(Reader(domain=domain), None, rows)
        assert (found.outside, found.dropped) == (outside, outside + 1)
        assert [column.outside for column in found.columns] == [None, None]


def test_bytes_that_are_no_letters_are_counted():
    found = examine(
        Reader(domain=WARD), None, pl.DataFrame({"sex": ["f", "k\ufffdln", "m"], "age": [1, 2, 3]})
    )
    assert (found.garbled, found.columns[0].outside) == (1, 1)


@pytest.mark.parametrize("year", ["0001-01-01", "9999-12-31T23:59:59.999999Z"])
@pytest.mark.parametrize("period", ["10 seconds", "1 day", "month", "year"])
@pytest.mark.parametrize("timezone", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_a_crazy_year_is_a_step_that_can_be_named(year, period, timezone):
    calendar = Calendar(start="2026-01-01", period=period, timezone=timezone)
    found = examine(
        Reader(domain=WARD, time="day"),
        calendar,
        pl.DataFrame({"sex": ["f"], "age": [1], "day": [year]}),
    )
    assert found.early == (year < "2026")
    for step in found.steps or ():
        assert calendar.label(step) > "9999"


cells = st.fixed_dictionaries(
    {
        "sex": st.sampled_from(["f", "m", "x", "", " f "]),
        "age": st.sampled_from(["41", "-1", "1e9", "old", "", "nan", "inf"]),
        "day": st.sampled_from(
            ["2026-01-01", "2026-01-02", "2026-01-03", "2025-01-01", "soon", ""]
        ),
        "op": st.sampled_from(["insert", "delete", "", "upsert"]),
    }
)


@given(rows=st.lists(cells, min_size=1, max_size=12))
def test_what_is_counted_here_is_what_a_run_counts(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("examined")
    names = ["sex", "age", "day", "op"]
    text = "\n".join([",".join(names), *(",".join(row[name] for name in names) for row in rows)])
    (folder / "a.csv").write_text(text)
    reader = Reader(domain=WARD, time="day", op="op")
    frame = pl.DataFrame(
        [{name: cell or None for name, cell in row.items()} for row in rows],
        dict.fromkeys(names, pl.String),
    )
    found = examine(reader, DAYS, frame)
    shelf = Shelf(path=folder, files="*.csv")
    source = TimedFiles(
        shelf=shelf, reader=reader, calendar=DAYS, used=Used(folder / "used.json"), late="next"
    )
    counts = [
        Plan(WARD).counts(batch.adds, batch.deletes) for batch in map(source.batch, (1, 2, 3))
    ]
    assert found.counted == sum(int(one.adds.sum() + one.deletes.sum()) for one in counts)
    assert found.deletes == sum(int(one.deletes.sum()) for one in counts)
