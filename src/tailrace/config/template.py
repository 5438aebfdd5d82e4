"""Write a commented `stream.toml` from a few answers."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from typing import Any

from tailrace.calendar import Calendar
from tailrace.config import parts
from tailrace.config.problem import nearest, one_line
from tailrace.domain import Attribute, Categorical, Integer, Real
from tailrace.errors import ConfigError
from tailrace.privacy.loss import ApproxDP, Number, PureDP, number_text
from tailrace.privacy.unit import Event, User
from tailrace.storage.codec import to_plain

_HEAD = """\
# A stream: what comes in, what is promised, what is published. \
Lines that begin with # are notes and offers.
# All of this is public: never choose a value by looking at the data.
"""
# A line of a table: a key, perhaps an example, and its explanation. A key without a value is
# offered in a comment; a line that begins with # is another way to write the key above it.
_STREAM = """\
path  # where the stream is kept, relative to this file
population  # whose data these are: their budget is charged
ledger = "tailrace.ledger"  # where budgets are written down; left out: this, beside the stream
"""
_MECHANISM = """\
kind  # what is published
trajectory  # the column that says which journey a point belongs to
order  # the column that puts the points of a journey in order: numbers or times
window  # how many steps in a row questions may be about
horizon  # how many steps there will be at most; "none": a stream without end, at a higher error
privacy  # the loss of one unit over all steps; a smaller epsilon protects more and blurs more
# privacy = { kind = "ApproxDP", epsilon = 1.0, delta = 1e-6 }  # or this: allows Gaussian noise
unit  # who is protected
neighbours  # which data must look alike: with and without a person; or "Replace", one for another
deletes  # whether rows may be deleted later; true costs accuracy where a person is protected
retention = 30  # after how many steps a point or journey leaves by itself; left out: it stays
workload = 3  # how many columns are kept together: all sets of so many; left out: pairs
counter = { kind = "Block", size = 8 }  # how sums are kept; left out: with the lowest error
"""
# Other units, offered below the one that was chosen.
_EVENTS = """\
# unit = { kind = "Event" }  # or one event, that is one row
# unit = { kind = "User", column = "id", events = 3 }  # or a person with at most so many rows
# unit = { kind = "Window", steps = 30, column = "id", events = 3 }  # or within any 30 steps
"""
_UNITS = {
    "PanelWindow": "",
    "SnapshotHistogram": """\
# unit = { kind = "Window", steps = 7, column = "id", records = 1 }  # or a person within 7 steps
""",
    "Trajectories": """\
# unit = { kind = "Event" }  # or one journey
# unit = { kind = "User", column = "id" }  # or a person with all journeys
""",
    "JourneyStream": """\
# unit = { kind = "Event" }  # or one journey
# unit = { kind = "User", column = "id", events = 50 }  # or a person with at most so many journeys
# unit = { kind = "Window", steps = 7, column = "id", events = 9 }  # or within any 7 steps
""",
}
_PLACES = """\
path  # a file of GeoJSON or GeoParquet, relative to this one: points lie inside its polygons
columns  # the columns of x and y: longitude and latitude, or metres
low  # the least x and y
high  # the greatest x and y
cells = 1024  # cells a side: places are never told finer
outside = "drop"  # what becomes of points outside: "drop", or the nearest ("clip", or in a region\
 "nearest")
"""
_CALENDAR = """\
start = 2026-01-01  # when step 1 begins, by the clock of the time zone
period = "1 day"  # how long a step is: "1 day", "2 weeks", "1 month", "6 hours"
timezone = "Europe/Berlin"  # whose clock; an IANA name
grace = "6 hours"  # how long to wait for rows after a step has ended
late = "drop"  # rows that come later still: "next" (counted in the open step) or "drop"
"""
# The keys of sources and sinks: a table has the lines of those that its class takes.
_EDGES = """\
path  # the folder, relative to this file
url  # the database; keep passwords out of it
table  # its table
loads  # what Spark reads: parquet, kafka, delta
checkpoint  # a folder of Spark's, in full or as a url: it must last as long as the stream
columns = "id string, day timestamp"  # names and types, where Spark's reader must be told
options = "reader.properties"  # a file of further options of Spark's reader, such as passwords
replaces = "6f1d..."  # the id of a query whose checkpoint was lost, once no row can come twice
servers  # brokers of Kafka, with commas between
topic  # the topic
client = "kafka.properties"  # a file of further settings of the client, such as passwords
gaps = "skip"  # go on without messages that the brokers removed unread; left out: refuse
files = "*.csv"  # which files: .csv or .parquet
name = "cases-%Y-%m-%d.csv"  # instead of files and time: one file a period, which its name says
time = "day"  # the column that says which step a row belongs to (with [calendar])
format = "%d.%m.%Y"  # how its times are written, if not like 2026-01-31T06:00; ["%d.%m.%Y", "ISO"]
id = "case"  # the column that names a row: within a step, rows of one id count once
arrived = "entered"  # the column that says when a row came; needed for late = "next"
deletes = "gone/*.csv"  # files of deleted rows (with deletes = true)
op = "op"  # a column that says insert or delete (with deletes = true)
decimal = ","  # how numbers are written: "," as in 1.234,5; left out: "." as in 1234.5
encoding = "windows-1252"  # how the letters of .csv files are written; left out: UTF-8
formulas = true  # leave texts that a spreadsheet would run; left out: marked with a '
"""
_SCHEMA = """\
# What each column may hold: Integer (low, high), Categorical (values), Real (edges of its bins) or\
 Amount (low, high, unit: added up). A value outside
# is left out ("drop"), moved to the nearest ("clip", numbers only) \
or counted as one more value ("other").
[schema]
"""
_BESIDE = """\
# What else is published of each place: every combination of values has a map of its own. A value\
 outside is as in a table:
# left out ("drop"), moved to the nearest ("clip", numbers only) or counted as one more ("other").
[schema]
"""
_NO_BESIDE = """\

# What else is published of each place: every combination of values has a map of its own.
# [schema]
#   type = { kind = "Categorical", values = ["fire", "police"] }
"""
_ALIASES = """\
# Other spellings of the values of a category, a table for each column. They are public, too: \
write those that everybody
# knows, not a slip of the pen that one row has.
"""
_NO_ALIASES = """\
# [aliases.city]
# "NYC" = "New York"
"""
_NO_SINK = """\
# Releases are always kept in the stream's own folder, in releases/; a sink gets a copy of each.
# [[sink]]
# kind = "CsvFolder"                      # or "ParquetFolder", or "SqlTable" with url and table
# path = "public"                         # the folder to write to, relative to this file
"""


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Answers that make a configuration.

    `more` holds further keys of the mechanism; `places` is the table of a box or, with a path, of
    a region, in the place of `attributes` or beside them. `source` and `sinks` are tables, with
    their kind; `aliases` has, by column, other spellings of its values.
    """

    path: str
    population: str
    ledger: str | None = None
    mechanism: str = "HistogramStream"
    epsilon: Number
    delta: Number | None = None
    unit: Event | User
    horizon: int | None
    deletes: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)
    attributes: tuple[tuple[str, Attribute], ...] = ()
    places: Mapping[str, Any] | None = None
    calendar: Calendar | None = None
    source: Mapping[str, Any]
    sinks: tuple[Mapping[str, str], ...] = ()
    aliases: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def write(answers: Answers) -> str:
    """The text of a `stream.toml`, which `tailrace.config.load` reads back to the same."""
    privacy: dict[str, Any] = {"kind": "PureDP", "epsilon": PureDP(epsilon=answers.epsilon).epsilon}
    if answers.delta is not None:
        proved = ApproxDP(epsilon=answers.epsilon, delta=answers.delta)
        privacy = {"kind": "ApproxDP", "epsilon": proved.epsilon, "delta": proved.delta}
    mechanism = {
        **vars(answers),
        **answers.more,
        "kind": answers.mechanism,
        "horizon": "none" if answers.horizon is None else answers.horizon,
        "privacy": privacy,
        "unit": to_plain(answers.unit),
    }
    known = parts.keys(parts.classes()[answers.mechanism])
    sinks = (
        "[[sink]]\n" + _edge(sink, parts.sink_kinds(), "where releases are copied to")
        for sink in answers.sinks
    )
    tables = (
        "[stream]\n" + _keys(_STREAM, vars(answers)),
        "[mechanism]\n" + _mechanism(answers.mechanism, mechanism, known),
        _domain(answers),
        *([_calendar(answers.calendar)] if "horizon" in known else []),
        "[source]\n" + _edge(answers.source, parts.source_kinds(), "where rows come from"),
        *(
            []
            if answers.places and not answers.attributes
            else [_ALIASES + (_aliases(answers.aliases) or _NO_ALIASES)]
        ),
    )
    return "\n".join((_HEAD, *tables, *(sinks if answers.sinks else [_NO_SINK])))


def _aliases(aliases: Mapping[str, Mapping[str, str]]) -> str:
    """A table for each column, with a line for each spelling."""
    tables = (
        f"[aliases.{_key(column)}]\n"
        + "".join(f"{_value(spelling)} = {_value(value)}\n" for spelling, value in known.items())
        for column, known in aliases.items()
    )
    return "\n".join(tables)


def _mechanism(kind: str, values: Mapping[str, Any], known: Collection[str]) -> str:
    """The keys that a mechanism takes."""
    found = ""
    for line in _MECHANISM.splitlines():
        name = line.removeprefix("# ").split()[0]
        if name == "kind" or name in known:
            found += f"{line}\n" + (_UNITS.get(kind, _EVENTS) if line.startswith("unit") else "")
    return _keys(found, values)


def _domain(answers: Answers) -> str:
    """What the columns may hold: attributes, a box or a region."""
    columns = "".join(
        f"{_key(name)} = {_value(one.to_dict())}\n" for name, one in answers.attributes
    )
    if answers.places is None:
        return _SCHEMA + columns
    described = f"\n{_BESIDE}{columns}" if columns else _NO_BESIDE
    name = "region" if "path" in answers.places else "box"
    left_out = ("low", "high") if name == "region" else ("path",)
    lines = (line for line in _PLACES.splitlines() if line.split()[0] not in left_out)
    table = f"# Where points may lie.\n[{name}]\n" + _keys("\n".join(lines), answers.places)
    return table + (described if answers.mechanism == "SpatialStream" else "")


def attribute(text: str) -> Attribute:
    """An attribute in the words of a flag.

    `integer 0 99`, `category f m "not said"`, `real 0 18.5 30` (the edges of its bins) or
    `boolean`, and, last, what happens to other values: `outside=clip`.

    >>> attribute("integer 0 99 outside=clip")
    Integer(low=0, high=99, outside='clip')
    """
    try:
        kind, *words = shlex.split(text)
    except ValueError:
        raise ConfigError(
            f"An attribute is written like {_OFFERED}, with every quote closed."
        ) from None
    if kind not in _MAKERS:
        meant = nearest(kind, _MAKERS)
        fix = f"did you mean {meant}?" if meant else f"write it like {_OFFERED}."
        raise ConfigError(f"There is no attribute '{one_line(kind)}'; {fix}")
    outside = {}
    if words and words[-1].startswith("outside="):
        outside["outside"] = words.pop().removeprefix("outside=")
    example, make = _MAKERS[kind]
    try:
        return make(words, outside)
    except (ValueError, TypeError) as error:
        if isinstance(error, ConfigError):
            raise
    raise ConfigError(f"The words after {kind} do not fit; write it like '{example}'.")


def _boolean(words: list[str], outside: dict[str, Any]) -> Attribute:
    if words:
        raise ValueError
    return Categorical([False, True], **outside)


def _integer(words: list[str], outside: dict[str, Any]) -> Attribute:
    low, high = map(int, words)
    return Integer(low, high, **outside)


_MAKERS: dict[str, tuple[str, Callable[[list[str], dict[str, Any]], Attribute]]] = {
    "integer": ("integer 0 99", _integer),
    "category": ("category f m", lambda words, outside: Categorical(words, **outside)),
    "real": (
        "real 0 18.5 30",
        lambda words, outside: Real(edges=[float(word) for word in words], **outside),
    ),
    "boolean": ("boolean", _boolean),
}
_OFFERED = " or ".join(f"'{example}'" for example, _ in _MAKERS.values())


def _calendar(calendar: Calendar | None) -> str:
    head = "# Steps by the clock; without this table every file is a step."
    if calendar is None:
        return f"{head}\n# [calendar]\n{_keys(_CALENDAR, {})}"
    start = tomllib.loads(f"x = {calendar.start}")["x"]
    return f"{head}\n[calendar]\n{_keys(_CALENDAR, {**vars(calendar), 'start': start})}"


def _edge(table: Mapping[str, Any], kinds: Mapping[str, type[Any]], words: str) -> str:
    """A source or sink, with every key that its class takes."""
    kind = table.get("kind", "")
    if kind not in kinds:
        raise ConfigError(f"kind must be one of {', '.join(kinds)}.")
    known = parts.keys(kinds[kind])
    for name in table:
        if name not in ("kind", *known):
            raise ConfigError(f"{kind} has no key '{one_line(name)}'; remove it.")
    others = " or ".join(_value(other) for other in kinds if other != kind)
    lines = (line for line in _EDGES.splitlines() if line.split()[0] in known)
    return _keys("\n".join((f"kind  # {words}; or {others}", *lines)), table)


def _keys(lines: str, values: Mapping[str, Any]) -> str:
    """Each line with its value; what has none is offered in a comment."""
    found = ""
    for line in lines.splitlines():
        code, words = line.split("  # ")
        value = values.get(code.split()[0])
        if value is not None:
            code = f"{code.split()[0]} = {_value(value)}"
        elif not code.startswith("#"):
            code = f"# {code}"
        found += f"{code:<40}  # {words}\n"
    return found


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)


def _value(value: Any) -> str:
    """A plain value as TOML."""
    if isinstance(value, Mapping):
        held = ((name, part) for name, part in value.items() if part is not None)
        return "{ " + ", ".join(f"{_key(name)} = {_value(part)}" for name, part in held) + " }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Fraction):
        text = number_text(value)
        exact = "/" not in text and Fraction(str(tomllib.loads(f"x = {text}")["x"])) == value
        return text if exact else _value(text)
    if not isinstance(value, str):
        return repr(value).lower()  # numbers, true and false
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ConfigError(
            "A configuration must be valid Unicode text, which every program can hold."
        )
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
