import inspect
import re
import sys
import tomllib
from dataclasses import FrozenInstanceError, dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from samples import FOLDER
from tailrace import (
    ApproxDP,
    Box,
    Categorical,
    ConfigError,
    Event,
    HistogramStream,
    Integer,
    PureDP,
    Schema,
    User,
    counters,
    registry,
)
from tailrace.calendar import Calendar
from tailrace.config import load, parts
from tailrace.privacy.unit import Neighbours
from tailrace.registry import FORMER
from tailrace.sinks import CsvFolder, ParquetFolder, SqlTable
from tailrace.sources import FolderSource, Frames, LinesSource, Settings, SqlSource

WARD = """\
[stream]
path = "ward.tail"
population = "patients of the ward"

[mechanism]
kind = "HistogramStream"
horizon = 365
privacy = { kind = "PureDP", epsilon = 1.0 }
unit = { kind = "Event" }
deletes = true
counter = { kind = "Block", size = 8 }

[schema]
age = { kind = "Integer", low = 0, high = 99, outside = "clip" }
sex = { kind = "Categorical", values = ["f", "m"] }

[calendar]
start = 2026-01-01
period = "1 day"
timezone = "Europe/Berlin"
grace = "6 hours"

[source]
kind = "Folder"
path = "incoming"
files = "*.csv"
time = "day"
format = "%d.%m.%Y"
op = "op"

[[sink]]
kind = "CsvFolder"
path = "public"
"""
CALENDAR = WARD[WARD.index("[calendar]") : WARD.index("[source]")]
SQL = 'kind = "SqlTable"\nurl = "sqlite:///ward.db"\ntable = "cases"'


@pytest.fixture
def loaded(tmp_path):
    """The configuration of the ward, after some changes to its text."""

    def after(*changes):
        text = WARD
        for old, new in changes:
            assert old in text
            text = text.replace(old, new, 1)
        (tmp_path / "stream.toml").write_text(text, newline="")
        return load(tmp_path / "stream.toml")

    return after


@pytest.fixture
def refused(loaded):
    """The one sentence, after some changes to the ward's text."""

    def after(*changes):
        with pytest.raises(ConfigError) as caught:
            loaded(*changes)
        sentence = str(caught.value)
        assert sentence.startswith("stream.toml") and sentence[-1] in ".?" and "\n" not in sentence
        assert caught.value.__cause__ is None and caught.value.__suppress_context__
        return sentence

    return after


def test_the_objects_are_those_that_python_makes(loaded, tmp_path):
    config = loaded()
    ward = Schema(age=Integer(0, 99, outside="clip"), sex=Categorical(["f", "m"]))
    assert config.mechanism == HistogramStream(
        domain=ward,
        privacy=PureDP(epsilon=1),
        unit=Event(),
        horizon=365,
        counter=counters.Block(size=8),
        deletes=True,
    )
    assert config.calendar == Calendar(
        start="2026-01-01", period="day", timezone="Europe/Berlin", grace="6 hours"
    )
    assert config.source == FolderSource(
        path=tmp_path / "incoming", files="*.csv", time="day", format="%d.%m.%Y", op="op"
    )
    assert config.sinks == (CsvFolder(path=tmp_path / "public"),)
    assert (config.path, config.population, config.ledger) == (
        tmp_path / "ward.tail",
        "patients of the ward",
        None,
    )
    assert config.file == tmp_path / "stream.toml"
    assert loaded() == config


def test_a_configuration_does_not_change(loaded):
    config = loaded()
    for part, name in ((config, "path"), (config.source, "files"), (config.sinks[0], "path")):
        with pytest.raises(FrozenInstanceError):
            setattr(part, name, "x")


def test_paths_are_relative_to_the_file(loaded, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    config = loaded(
        ('"ward.tail"', '"../kept/ward.tail"\nledger = "/var/ledger"'),
        (FOLDER, SQL),
        ('kind = "CsvFolder"', 'kind = "ParquetFolder"'),
        (
            'path = "public"',
            'path = "public"\n[[sink]]\nkind = "SqlTable"\nurl = "sqlite:////full.db"\ntable = '
            '"out"',
        ),
    )
    assert config.path == tmp_path.parent / "kept" / "ward.tail" and config.ledger == Path(
        "/var/ledger"
    )
    assert (
        isinstance(config.source, SqlSource)
        and config.source.url == f"sqlite:///{tmp_path}/ward.db"
    )
    assert config.sinks == (
        ParquetFolder(path=tmp_path / "public"),
        SqlTable(url="sqlite:////full.db", table="out"),
    )


def test_a_database_elsewhere_is_left_as_it_is(loaded):
    assert loaded(
        (FOLDER, SQL.replace("sqlite:///ward.db", "postgresql://me@host/ward"))
    ).source.url.endswith("host/ward")


@pytest.mark.parametrize(
    "written",
    ['"2026-01-01T06:30"', "2026-01-01T06:30:00", "2026-01-01 06:30:00", '"2026-01-01 06:30"'],
)
def test_a_start_is_a_date_or_a_text(loaded, written):
    assert loaded(("2026-01-01", written)).calendar.start == "2026-01-01T06:30:00"


def test_a_file_of_any_editor_is_read(tmp_path):
    (tmp_path / "stream.toml").write_bytes(b"\xef\xbb\xbf" + WARD.replace("\n", "\r\n").encode())
    assert load(str(tmp_path / "stream.toml")).mechanism.horizon == 365


def test_tables_may_be_written_in_any_way(loaded):
    spread = 'age.kind = "Integer"\nage.low = 0\nage.high = 99\nage.outside = "clip"'
    below = '[mechanism.privacy]\nkind = "PureDP"\nepsilon = "1"\n[schema]'
    assert (
        loaded(
            (re.search("age = .*", WARD)[0], spread),
            (re.search("privacy = .*", WARD)[0], ""),
            ("[schema]", below),
        ).mechanism
        == loaded().mechanism
    )


@pytest.mark.parametrize(
    "counter", ["BinaryTree", "Block", "Hybrid", "KaryTree", "Simple", "UnboundedBlock"]
)
def test_every_counter_can_be_written(loaded, counter):
    assert (
        loaded(('"Block", size = 8', f'"{counter}"')).mechanism.counter
        == getattr(counters, counter)()
    )


def test_parts_have_parts(loaded):
    config = loaded(
        (
            '"Block", size = 8',
            '"Unbounded", first = 4, counter = { kind = "KaryTree", levels = 2, subtract = false }',
        ),
        ('"PureDP", epsilon = 1.0', '"ApproxDP", epsilon = "1/3", delta = 1e-6'),
        ('kind = "Event"', 'kind = "User", column = "patient", events = 3'),
        ("horizon = 365", 'horizon = "none"'),
    )
    assert config.mechanism == HistogramStream(
        domain=config.mechanism.domain,
        privacy=ApproxDP(epsilon="1/3", delta=1e-6),
        unit=User(column="patient", events=3),
        horizon=None,
        counter=counters.Unbounded(first=4, counter=counters.KaryTree(levels=2, subtract=False)),
    )


@pytest.fixture
def plug(monkeypatch):
    """Plug in classes as another distribution would."""
    known = (registry.parts, parts.source_kinds, parts.sink_kinds)

    def plug(*made):
        ours = entry_points(group=registry.GROUP)
        others = [
            EntryPoint(one.__name__, f"elsewhere:{one.__name__}", registry.GROUP) for one in made
        ]
        monkeypatch.setitem(
            sys.modules, "elsewhere", SimpleNamespace(**{o.__name__: o for o in made})
        )
        monkeypatch.setattr(registry, "entry_points", lambda group: [*ours, *others])
        for one in known:
            one.cache_clear()

    yield plug
    for one in known:
        one.cache_clear()


@dataclass(frozen=True, kw_only=True)
class Later:
    """A mechanism that is not there yet."""

    measure = None  # what a mechanism is known by

    domain: Box
    neighbours: Neighbours
    structures: tuple[Any, ...] = ()
    label: str | None = None
    deletes: bool = True


def test_a_later_mechanism_needs_no_change(loaded, refused, plug):
    plug(Later)
    body = WARD[WARD.index('kind = "HistogramStream"') : WARD.index("[calendar]")]
    box = '[box]\nlow = [0, 0]\nhigh = [1, 2.5]\ncolumns = ["x", "y"]\n'
    own = 'kind = "Later"\nneighbours = { kind = "Replace" }\nstructures = [{ kind = "Block" }, { kind = "Simple" }]\n'
    made = loaded((body, own + box)).mechanism
    assert made.domain == Box(low=(0, 0), high=(1, 2.5), columns=("x", "y"))
    assert made.neighbours is Neighbours.Replace and made.structures == (
        counters.Block(),
        counters.Simple(),
    )
    assert "structures.kind" not in refused((body, own.replace('"Simple"', '"Simpl"') + box))
    assert refused((body, own + "label = 3\n" + box)).endswith(
        "line 9: [mechanism] label must be a text in quotes."
    )
    assert refused((body, own.replace("Replace", "Swap") + box)).endswith(
        'use one of "AddRemove", "Null", "Replace".'
    )
    assert (
        "line 5: [mechanism] needs the key 'neighbours', for example neighbours = { kind = "
        '"AddRemove" }.' in refused((body, 'kind = "Later"\n' + box))
    )


@dataclass(frozen=True, kw_only=True)
class Counted(Settings):
    """A source of another distribution: so many rows a step."""

    rows: int
    beside: Path | None = None

    def open(self, given):
        sex = given.reader.domain.columns[0]
        return Frames([{sex: ["f"] * self.rows}] * 2)


@dataclass(frozen=True)
class Drawer:
    """A sink of another distribution."""

    path: Path

    def holds(self):
        return set()

    def put(self, release): ...


def test_a_source_and_a_sink_of_another_distribution_can_be_configured(
    loaded, refused, plug, tmp_path
):
    plug(Counted, Drawer)
    source = (FOLDER, 'kind = "Counted"\nrows = 3\nbeside = "a"')
    sink = ('"CsvFolder"', '"Drawer"')
    config = loaded(source, sink)
    assert config.source == Counted(
        rows=3, beside=tmp_path / "a", time="day", format="%d.%m.%Y", op="op"
    )
    assert config.sinks == (Drawer(tmp_path / "public"),)
    assert "line 25: [source] rows must be a whole number." in refused(
        (FOLDER, source[1].replace("3", "true"))
    )
    assert "[source] needs the key 'rows', for example rows = 10." in refused(
        (FOLDER, 'kind = "Counted"')
    )
    assert "[source] time needs [calendar]" in refused(source, (CALENDAR, ""))
    assert '(of "Counted", "Folder", "Lines", "Spark", "SqlTable", "Topic")?' in refused(
        ('"Folder"', '"Folders"')
    )


def test_a_plug_in_cannot_take_a_name_of_ours(refused, plug):
    plug(type("Lines", (Counted,), {}))
    with pytest.raises(ConfigError, match="The part Lines of elsewhere:Lines has the name of"):
        parts.source_kinds()


def test_an_example_can_be_used_as_it_stands():
    # domains and mechanisms have a table of their own
    whole = {*FORMER, "Schema", "Box", "Region", "Roads", "Places"}
    made = [make for name, make in parts.classes().items() if name not in whole]
    for make in (one for one in made if inspect.isclass(one) and not hasattr(one, "measure")):
        table = tomllib.loads(f"part = {parts.example(make)}")["part"]
        assert table.pop("kind") == make.__name__
        assert type(parts.build(make, table, ("part",))) is make


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("horizon", "horizn", "line 7: [mechanism] has no key 'horizn'; did you mean 'horizon'?"),
        ("horizon = 365", "", "line 5: [mechanism] needs the key 'horizon', for example horizon = 365."),
        ("365", '"x"', 'line 7: [mechanism] horizon must be a whole number or "none".'),
        ("365", "{ a = 1 }", 'line 7: [mechanism] horizon must be a whole number or "none", not a table.'),
        ("365", "0", "line 7: [mechanism]: horizon must be a whole number of at least 1."),
        ("365", "365\nxyz = 1", "line 8: [mechanism] has no key 'xyz'; it has privacy, unit, horizon, counter, deletes, totals_by, totals_share, growing_share."),
        ("true", '"no"', "line 10: [mechanism] deletes must be true or false."),
        ("HistogramStream", "Histogram", 'line 6: [mechanism] has no kind \'Histogram\'; did you mean "HistogramStream"'),
        ('"HistogramStream"', "7", 'line 6: [mechanism] kind must be a text in quotes; use one of "HistogramStream", '),
        ('"PureDP"', '"PureDp"', 'privacy has no kind \'PureDp\'; did you mean "PureDP" (of "ApproxDP", "PureDP", "ZCDP")?'),
        ('"PureDP"', '"User"', 'line 8: [mechanism] privacy has no kind \'User\'; use one of "ApproxDP", "PureDP", "ZCDP".'),
        ("epsilon = 1.0", "eps = 1.0", "line 8: [mechanism] privacy has no key 'eps'; did you mean 'epsilon'?"),
        ("epsilon = 1.0", "epsilon = 1e-30", "line 8: [mechanism]: privacy= is too small for all that it pays for"),
        ("epsilon = 1.0", "epsilon = true", "line 8: [mechanism] privacy.epsilon must be a number."),
        ('{ kind = "PureDP", epsilon = 1.0 }', "1", 'for example { kind = "PureDP", epsilon = 1.0 }.'),
        ('{ kind = "Event" }', "{}", "line 9: [mechanism] unit needs the key 'kind', which is one of \"Event\", \"User\", \"Window\"."),
        ('"Event"', '"User", column = "id"', "line 9: [mechanism]: unit is not bounded: HistogramStream protects"),
        ('"Event"', '"User"', "line 9: [mechanism] unit needs the key 'column', for example column = \"id\"."),
        ("size = 8", "size = 1", "line 11: [mechanism] counter: A block of 1 step"),
        ("size = 8", "privacy = {}", "line 11: [mechanism] counter takes its privacy from [mechanism]; remove it here."),
        ('"Block"', '"Simple"', "line 11: [mechanism] counter has no key 'size'; remove it."),
        ('"Block", size = 8', '"Event"', "line 11: [mechanism]: counter must be a counter"),
        ("low = 0", "low = 100", "line 14: [schema] age: low of an Integer must not be above its high."),
        ("low = 0", "low = 0.5", "line 14: [schema] age.low must be a whole number."),
        ("low = 0, ", "", "line 14: [schema] age needs the key 'low', for example low = 0."),
        ('"clip"', '"clp"', 'line 14: [schema] age.outside must be one of "drop", "clip", "other".'),
        ('["f", "m"]', '["f",\n"m",\n"f"]', "line 15: [schema] sex: Categorical takes one or more distinct values"),
        ('["f", "m"]', '["f",\n2026-01-01]', "line 16: [schema] sex.values must be a text in quotes or"),
        ('["f", "m"]', '"f"', "line 15: [schema] sex.values must be a list of texts in quotes or whole numbers"),
        ("sex = {", '"a\\nb" = 1\nsex = {', 'line 15: [schema] "a\\nb" must be a table with a kind, for example { kind ='),
        ("high = 99", "high = 99999999", "line 13: [schema]: The domain has more than 10,000,000 bins"),
        ("[schema]", "[box]", "line 14: [box] has no key 'age'; it has low, high, columns, cells, outside."),
        ("[schema]", "[box]\n[region]\n[schema]", "line 14: [region] is one description too many; keep only one of [schema] or [box]"),
        ("[schema]", "[box]\ncolumns = ['x', 'y']\nlow = [0, 0]\nhigh = [1, 1]\n[schema]", "line 13: [box] has [schema] beside it, which only SpatialStream takes; keep one."),
        ("[schema]", "[schemata]", "line 13: there is no table [schemata]; did you mean [schema]?"),
        ("[stream]", "[1]\n[stream]", "line 1: there is no table [1]; there are [stream], [mechanism], [source], [schema],"),
        ("[stream]", "[[stream]]", "line 1: stream must be one table, [stream], with its keys below it."),
        ('path = "ward.tail"', "", "line 1: [stream] needs the key 'path', for example path = \"ward.tail\"."),
        ('"ward.tail"', "3", "line 2: [stream] path must be a text in quotes."),
        ('"ward.tail"', '" "', "line 2: [stream] path must not be empty, nor hold a zero character."),
        ('"ward.tail"', '"a\\u0000"', "line 2: [stream] path must not be empty, nor hold a zero character."),
        ('"ward.tail"', '"w"\nledger = "w/l"', "line 3: [stream] ledger must lie outside path"),
        ("population", "popultion", "line 3: [stream] has no key 'popultion'; did you mean 'population'?"),
        ('"1 day"', '"1 dya"', "line 19: [calendar]: period must be a whole number and a unit of time"),
        ("2026-01-01", "2026-01-01T00:00:00Z", "line 18: [calendar]: start must be the local time"),
        ("2026-01-01", "06:30:00", "line 18: [calendar]: start must be a date"),
        ("2026-01-01", "20260101", "line 18: [calendar] start must be a text in quotes"),
        ('"6 hours"', '"6 hours"\nlate = "nxt"', 'line 22: [calendar] late must be one of "next", "drop".'),
        ('"Folder"', '"Folders"', 'did you mean "Folder" (of "Folder", "Lines", "Spark", "SqlTable", "Topic")?'),
        ('"Folder"', '"Lines"', "line 25: [source] has no key 'path'; it has time, format, op, id, decimal."),
        ('kind = "Folder"\n', "", 'line 23: [source] needs the key \'kind\', which is one of "Folder", "Lines", "Spark", "SqlTable", "Topic".'),
        ('time = "day"', "", "line 23: [source] must say which step a row belongs to; add time"),
        ('time = "day"', 'time = "day"\nname = "%Y.csv"', "line 28: [source] name and time are two ways"),
        ('files = "*.csv"\ntime = "day"', 'name = "%Y.csv"', "line 27: [source] format says how the column of time"),
        ('time = "day"\nformat = "%d.%m.%Y"', 'name = "%Y.csv"', "line 26: [source] files is not needed, since name says"),
        ('files = "*.csv"', "", "line 23: [source] needs the key 'files', for example files = \"*.csv\"."),
        ('"*.csv"', '"*.xlsx"', "line 26: [source] files must end in .csv or .parquet"),
        ('"*.csv"', '"/in/*.csv"', "line 26: [source] files must be a pattern inside the folder of path"),
        ('"*.csv"', '"**.csv"', "line 26: [source] files must be a pattern inside the folder of path"),
        ('files = "*.csv"', 'name = "%Q.csv"', "line 26: [source] name must say where the date stands"),
        ('files = "*.csv"', 'name = "%Y%Y.csv"', "line 26: [source] name must say where the date stands"),
        ('files = "*.csv"', 'name = "100%%.csv"', "line 26: [source] name must say where the date stands"),
        ('"%d.%m.%Y"', '"dd.mm.yyyy"', "line 28: [source] format must say how a time is written"),
        ('op = "op"', 'op = "day"', "line 29: [source] op must be a column of its own"),
        ('op = "op"', 'op = "op"\ndeletes = "gone/*.csv"', "line 29: [source] op and deletes are two ways"),
        ('op = "op"', 'deletes = "*.csv"', "line 29: [source] deletes names the same files"),
        ("deletes = true", "deletes = false", "line 29: [source] op brings deletes, which this mechanism does not take; write"),
        (FOLDER, 'kind = "Lines"\ntme = "day"', "line 25: [source] has no key 'tme'; did you mean 'time'?"),
        (FOLDER, SQL.replace("sqlite", "mysql"), 'line 25: [source]: url must begin with "sqlite:///"'),
        (FOLDER, SQL.replace("table", "tables"), "line 26: [source] has no key 'tables'; did you mean 'table'?"),
        (CALENDAR, "", 'line 21: [source] time needs [calendar]; add it with start = 2026-01-01 and period = "1 day"'),
        ("[[sink]]", "[sink]", "line 31: a sink is a table in two brackets, [[sink]]"),
        ("CsvFolder", "Csv", 'line 32: [[sink]] has no kind \'Csv\'; use one of "CsvFolder", "DeltaTables", "ParquetFolder", "SparkTables", "SqlTable".'),
        ('path = "public"', "", "line 31: [[sink]] needs the key 'path', for example path = \"public\"."),
        ('"public"', '"./incoming"', "line 33: [[sink]] path must not be read by [source]"),
        ('"public"', '"ward.tail/private"', "line 33: [[sink]] path must lie outside the stream's own folder"),
        ('"public"\n', '"public"\n[[sink]]\nkind = "CsvFolder"\npath = "x/../public"', "line 34: [[sink]] is there twice"),
    ],
)  # fmt: skip
def test_a_sentence_names_the_line_the_key_and_the_fix(refused, old, new, sentence):
    assert sentence in refused((old, new))


@pytest.mark.parametrize("table", ["stream", "mechanism", "source"])
def test_a_missing_table_is_named(refused, table):
    body = re.search(rf"\[{table}\]\n(.+\n)+", WARD)[0]
    assert refused((body, "")).startswith(
        f"stream.toml: the table [{table}] is missing; add it, with "
    )


def test_a_domain_must_be_there_and_fit_the_mechanism(refused):
    body = WARD[WARD.index("[schema]") : WARD.index("[calendar]")]
    assert "the table [schema] or [box] or [region] or [roads] is missing" in refused((body, ""))
    box = '[box]\nlow = [0]\nhigh = [1]\ncolumns = ["x"]\n'
    assert (
        "line 13: [box] does not fit HistogramStream; describe the columns in [schema]."
        in refused((body, box))
    )


def test_a_name_says_the_period(loaded, refused):
    time = 'time = "day"\nformat = "%d.%m.%Y"\nop = "op"'
    named = (FOLDER, FOLDER.replace('files = "*.csv"', 'name = "cases-%Y-%m-%d.csv"'))
    assert loaded(named, (time, "")).source.name == "cases-%Y-%m-%d.csv"
    assert (
        loaded(named, (time, 'deletes = "gone-%Y-%m-%d.csv"')).source.deletes == "gone-%Y-%m-%d.csv"
    )
    assert "line 27: [source] deletes must say where the date stands" in refused(
        named, (time, 'deletes = "gone.csv"')
    )
    assert "line 20: [source] name needs [calendar]" in refused(named, (time, ""), (CALENDAR, ""))


def test_without_a_calendar_every_file_is_a_step(loaded):
    config = loaded((CALENDAR, ""), ('time = "day"\nformat = "%d.%m.%Y"\n', ""))
    assert config.calendar is None and config.source.time is None


def test_rows_that_may_come_twice_are_dropped_when_late(loaded, refused):
    lines, sql = (FOLDER, 'kind = "Lines"'), (FOLDER, SQL)
    arrived, late = (
        (FOLDER, f'{SQL}\narrived = "entered"'),
        ('"6 hours"', '"6 hours"\nlate = "next"'),
    )
    assert [loaded(source).calendar.late for source in (lines, sql, arrived)] == [
        "drop",
        "drop",
        None,
    ]
    assert isinstance(loaded(lines).source, LinesSource)
    assert loaded(arrived, late).calendar.late == loaded(late).calendar.late == "next"
    assert 'line 22: [calendar] late must be "drop" with lines from standard input' in refused(
        lines, late
    )
    assert (
        'line 22: [calendar] late = "next" needs to know when a row of the table came; add arrived'
        in refused(sql, late)
    )
    assert loaded(sql, ('"6 hours"', '"6 hours"\nlate = "drop"')).calendar.late == "drop"


def test_lines_and_tables_need_a_time(refused):
    time = 'time = "day"\nformat = "%d.%m.%Y"\n'
    assert "[source] needs the key 'time', for example time = \"day\"." in refused(
        (FOLDER, 'kind = "Lines"'), (time, "")
    )
    assert "[source] needs the key 'time', for example time = \"day\"." in refused(
        (FOLDER, SQL), (time, "")
    )
    assert "[source] time needs [calendar]" in refused((FOLDER, SQL), (CALENDAR, ""))


def test_a_release_is_not_written_into_the_table_it_comes_from(refused):
    sink = ('kind = "CsvFolder"\npath = "public"', SQL)
    assert "line 34: [[sink]] table must not be the table of [source]." in refused(
        (FOLDER, SQL), sink
    )


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"ward.tail"', "ward.tail", 'line 2: not valid TOML: write a value after the equals sign, and text in quotes, for'),
        ('"ward.tail"', '"ward.tail', "line 2: not valid TOML: close the text with a quote on its own line."),
        ("horizon = 365", "horizon 365", "line 7: not valid TOML: write key = value."),
        ("horizon = 365", "horizon = 365\nhorizon = 366", "line 8: not valid TOML: this key is here twice; keep one of them."),
        ("[schema]", "[stream]\n[schema]", "line 13: not valid TOML: this table is here twice; keep one of them."),
        ('"f", "m"]', '"f" "m"]', "line 15: not valid TOML: put commas between the values of the list"),
        ("365", "3 65", "line 7: not valid TOML: write one key to a line"),
        ('path = "public"\n', "path =", "line 33: not valid TOML: write a value"),
        ('"1 day"', '"1\\day"', "line 19: not valid TOML: write a backslash twice"),
        ("365", "9" * 5000, "stream.toml: a number is too long, or lists are too deep"),
        ("365", "[" * 2000 + "]" * 2000, "stream.toml: a number is too long, or lists are too deep"),
    ],
)  # fmt: skip
def test_a_slip_in_the_syntax_has_its_line(refused, old, new, sentence):
    assert sentence in refused((old, new))


def test_a_file_that_is_not_text_has_its_line(tmp_path):
    (tmp_path / "stream.toml").write_bytes(WARD.encode() + b"# \xff\xfe")
    with pytest.raises(
        ConfigError,
        match=r"^stream\.toml, line 34: this is not UTF-8 text; save the file as UTF-8\.$",
    ):
        load(tmp_path / "stream.toml")


@pytest.mark.parametrize("path", ["no.toml", ".", "", "a\0b", b"x", 5, None])
def test_a_file_that_is_not_there_is_one_sentence(path):
    with pytest.raises(
        ConfigError,
        match=r"^\S+ cannot be read; name a stream\.toml, or make one with tailrace init\.$",
    ):
        load(path)


def test_a_region_is_read_from_the_file_beside(tmp_path):
    """The geometry of [region] lies beside the configuration, and what is wrong with it is said at
    its line.
    """
    pytest.importorskip("shapely", reason="shapely is not installed")
    from tailrace.config.parts import space
    from tailrace.config.problem import Problem

    square = '{"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]]}'
    (tmp_path / "land.geojson").write_text(square)
    made = space("region", {"path": "land.geojson", "columns": ["x", "y"], "cells": 4}, tmp_path)
    assert made.columns == ("x", "y") and made.shape == (4, 4)
    with pytest.raises(Problem, match="region"):
        space("region", {"path": "nowhere.geojson"}, tmp_path)


def test_a_panel_can_be_configured_with_its_policy(tmp_path):
    text = """
[stream]
path = "panel.tail"
population = "panel"
[mechanism]
kind = "PanelWindow"
horizon = 6
window = 3
privacy = { kind = "ZCDP", rho = 0.1 }
unit = { kind = "User", column = "id" }
neighbours = { kind = "AddRemove" }
missing = { kind = "Drop" }
[schema]
poor = { kind = "Categorical", values = [false, true] }
[source]
kind = "Folder"
path = "in"
files = "*.csv"
"""
    (tmp_path / "stream.toml").write_text(text)
    assert load(tmp_path / "stream.toml").mechanism.missing.name == "Drop"
