import re
from dataclasses import replace

import pytest

from tailrace import (
    Box,
    Categorical,
    ConfigError,
    Event,
    Integer,
    Places,
    Real,
    Schema,
    User,
    sinks,
    sources,
)
from tailrace.calendar import Calendar
from tailrace.config import load, parts
from tailrace.config.template import Answers, attribute, write


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("integer 0 99", Integer(0, 99)),
        ("integer -5 +5 outside=clip", Integer(-5, 5, outside="clip")),
        ("category f m outside=other", Categorical(["f", "m"], outside="other")),
        ("category 'new york' boston \"\"", Categorical(["new york", "boston", ""])),
        ("category 1 2", Categorical(["1", "2"])),
        ("category outside=a outside=drop", Categorical(["outside=a"])),
        ("real 10 18.5 25 30 60", Real(edges=[10, 18.5, 25, 30, 60])),
        ("  boolean   outside=other", Categorical([False, True], outside="other")),
    ],
)
def test_an_attribute_in_words(text, made):
    assert attribute(text) == made


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "An attribute is written like 'integer 0 99' or"),
        ("category 'f", "An attribute is written like 'integer 0 99' or"),
        ("interger 0 9", "There is no attribute 'interger'; did you mean integer?"),
        ("xyz 1", "There is no attribute 'xyz'; write it like"),
        ("integer 0", "The words after integer do not fit; write it like 'integer 0 99'."),
        ("integer 0 1 2", "The words after integer do not fit; write it like 'integer 0 99'."),
        ("integer 0 9.5", "The words after integer do not fit; write it like 'integer 0 99'."),
        (f"integer 0 {'9' * 5000}", "The words after integer do not fit; write it like 'integer 0 99'."),
        ("integer 9 0", "low of an Integer must not be above its high."),
        ("integer 0 9 outside=maybe", "outside of Integer must be one of"),
        ("integer outside=clip 0 9", "The words after integer do not fit"),
        ("category", "Categorical takes one or more distinct values"),
        ("category a b outside=clip", "outside of Categorical must be one of"),
        ("real low high", "The words after real do not fit"),
        ("real 0 inf", "edges of a Real must be a list of finite numbers."),
        ("boolean yes no", "The words after boolean do not fit; write it like 'boolean'."),
    ],
)  # fmt: skip
def test_words_that_are_no_attribute(text, sentence):
    with pytest.raises(ConfigError) as caught:
        attribute(text)
    assert str(caught.value).startswith(sentence) and caught.value.__cause__ is None


WARD_ANSWERS = Answers(
    path="ward.tail",
    population="patients of the ward",
    epsilon=1,
    unit=Event(),
    horizon=365,
    attributes=(("age", Integer(0, 99)), ("sex", Categorical(["f", "m"]))),
    calendar=Calendar(start="2026-01-01", period="day"),
    source={"kind": "Folder", "path": "incoming", "files": "*.csv", "time": "day"},
)


BOX = {"columns": ["lon", "lat"], "low": [0.0, 0.0], "high": [1.0, 1.0]}
OTHERS = [
    {"mechanism": "SpatialStream", "places": BOX, "attributes": ()},
    {"mechanism": "SpatialStream", "places": BOX, "attributes": WARD_ANSWERS.attributes[1:]},
    {"mechanism": "TabularStream"},
    {
        "mechanism": "PanelWindow",
        "delta": "1e-6",
        "unit": User(column="id"),
        "attributes": WARD_ANSWERS.attributes[1:],
        "more": {"window": 3, "neighbours": {"kind": "AddRemove"}},
    },
    {"mechanism": "SnapshotHistogram", "unit": User(column="id", records=1)},
    {
        "mechanism": "JourneyStream",
        "places": BOX,
        "attributes": (),
        "more": {"trajectory": "trip", "order": "minute"},
    },
    {
        "mechanism": "Trajectories",
        "places": BOX,
        "attributes": (),
        "more": {"trajectory": "trip", "order": "minute"},
        "calendar": None,
        "source": {"kind": "Folder", "path": "incoming", "files": "*.csv"},
    },
]


@pytest.mark.parametrize(
    "answers",
    [replace(WARD_ANSWERS, deletes=True), *(replace(WARD_ANSWERS, **one) for one in OTHERS)],
    ids=lambda answers: (
        answers.mechanism
        + " and columns" * (answers.places is not None and bool(answers.attributes))
    ),
)
def test_everything_that_a_template_offers_can_be_used(tmp_path, answers):
    """Each line that is commented out, taken in alone or for its neighbour, still makes a
    configuration.
    """
    lines = write(answers).splitlines()
    offers = [place for place, line in enumerate(lines) if re.match(r"# \w+ = ", line)]
    timeless = answers.calendar is None
    offers = [
        at for at in offers if not (timeless and re.match(r"# (name|time|format)", lines[at]))
    ]
    takes = parts.keys(parts.classes()[answers.mechanism])
    offers = [
        at
        for at in offers
        if ("deletes" in takes and answers.deletes) or not re.match(r"# (deletes|op)", lines[at])
    ]
    assert len(offers) >= 7
    for place in offers:
        name = lines[place].split()[1]
        others = ("files", "time") if name == "name" else (name,)
        kept = [
            line for line in lines if not line.startswith(tuple(f"{other} = " for other in others))
        ]
        if name in ("kind", "path"):  # of [[sink]], which is offered as a whole
            kept = [re.sub(r"^# (\[\[sink\]\]|kind|path)", r"\1", line) for line in lines]
        (tmp_path / "stream.toml").write_text(
            "\n".join(kept).replace(lines[place], lines[place][2:])
        )
        load(tmp_path / "stream.toml")


def test_places_may_have_attributes(tmp_path):
    """Those of the answers, or the ones that are offered."""
    few = (*WARD_ANSWERS.attributes[1:], ("urgent", Categorical([False, True])))
    places = replace(WARD_ANSWERS, mechanism="SpatialStream", places=BOX, attributes=few)
    (tmp_path / "stream.toml").write_text(write(places))
    domain = load(tmp_path / "stream.toml").mechanism.domain
    assert domain == Places(Box(**BOX), Schema(**dict(few)))
    alone = write(replace(places, attributes=()))
    (tmp_path / "stream.toml").write_text(alone)
    assert load(tmp_path / "stream.toml").mechanism.domain == Box(**BOX)
    (tmp_path / "stream.toml").write_text(re.sub(r"# (\[schema\]|  type)", r"\1", alone))
    assert load(tmp_path / "stream.toml").mechanism.domain.columns == ("lon", "lat", "type")


@pytest.mark.parametrize(
    "source",
    [
        {"kind": "Lines", "time": "day"},
        {"kind": "SqlTable", "url": "sqlite:///a.db", "table": "t", "time": "day"},
        {"kind": "Topic", "servers": "one:9092", "topic": "cases", "time": "day"},
        {"kind": "Spark", "loads": "delta", "checkpoint": "/notes", "time": "day"},
    ],
)
@pytest.mark.parametrize(
    "sink",
    [
        {"kind": "ParquetFolder", "path": "out"},
        {"kind": "SqlTable", "url": "sqlite:///b.db", "table": "t"},
    ],
)
def test_every_kind_of_source_and_sink_can_be_written(tmp_path, source, sink):
    (tmp_path / "stream.toml").write_text(
        write(replace(WARD_ANSWERS, source=source, sinks=(sink,)))
    )
    config = load(tmp_path / "stream.toml")
    assert type(config.source) is sources.KINDS[source["kind"]]
    assert type(config.sinks[0]) is sinks.KINDS[sink["kind"]]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"source": {"path": "x"}}, "kind must be one of Folder, Lines, Spark, SqlTable, Topic."),
        ({"source": {"kind": "Lines", "path": "x"}}, "Lines has no key 'path'; remove it."),
        (
            {"sinks": ({"kind": "Folder", "path": "x"},)},
            "kind must be one of CsvFolder, DeltaTables, ParquetFolder, SparkTables, SqlTable.",
        ),
        ({"epsilon": 0}, "epsilon must be a finite number above 0"),
        ({"population": "\ud800"}, "A configuration must be valid Unicode text"),
    ],
)
def test_answers_that_cannot_be_written(change, sentence):
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        write(replace(WARD_ANSWERS, **change))
