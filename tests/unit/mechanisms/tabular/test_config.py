"""A tabular stream from a file."""

import pytest

from tailrace import ConfigError, Selection, TabularStream, counters
from tailrace.config import load
from tailrace.models.tables import JunctionTree
from tailrace.papers import TabularSteps
from tailrace.registry import parts
from tailrace.storage.codec import from_plain
from tailrace.stream.directory import configuration

SHOP = """\
[stream]
path = "shop.tail"
population = "customers"

[mechanism]
kind = "{kind}"
horizon = 365
privacy = {{ kind = "PureDP", epsilon = 1.0 }}
unit = {{ kind = "Event" }}
{more}

[schema]
kind = {{ kind = "Categorical", values = ["a", "b"] }}
size = {{ kind = "Integer", low = 0, high = 4 }}
paid = {{ kind = "Categorical", values = [false, true] }}

[source]
kind = "Folder"
path = "incoming"
files = "*.csv"
"""


def loaded(folder, more="", kind="TabularStream"):
    (folder / "stream.toml").write_text(SHOP.format(kind=kind, more=more))
    return load(folder / "stream.toml").mechanism


def test_the_defaults_are_those_of_the_class(tmp_path):
    made = loaded(tmp_path)
    assert isinstance(made, TabularStream)
    assert (made.workload, made.fit, made.selection) == (2, JunctionTree(limit=2**16), Selection())
    assert isinstance(loaded(tmp_path, kind="TabularSteps"), TabularSteps)


def test_every_part_can_be_written(tmp_path):
    made = loaded(
        tmp_path,
        'workload = [["kind", "size"], ["paid"]]\n'
        'fit = { kind = "JunctionTree", limit = 4096 }\n'
        'selection = { kind = "Selection", chosen = 1, churn = 0.25, clock = "1/10" }\n'
        "deletes = false",
    )
    assert made.workload == (("kind", "size"), ("paid",))
    assert made.fit == JunctionTree(limit=4096)
    assert made.selection == Selection(chosen=1, churn=0.25, clock="1/10")
    assert not made.deletes
    steps = loaded(
        tmp_path,
        'chosen = 2\ncounter = { kind = "UnboundedBlock" }\nworkload = 1',
        kind="TabularSteps",
    )
    assert (steps.chosen, steps.counter, steps.workload) == (2, counters.UnboundedBlock(), 1)


def test_what_is_kept_makes_the_same_again(tmp_path):
    for more in ('workload = [["kind", "size"], ["paid"]]', "workload = 1"):
        made = loaded(tmp_path, more)
        assert from_plain(configuration(made), parts()) == made


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ('workload = [["kind", "colour"]]', "columns of the domain: kind, size, paid"),
        ('workload = ["kind"]', "workload"),
        ("workload = 0", "at least 1"),
        ('fit = { kind = "JunctionTree", limit = 3 }', "fit may hold 3 cells"),
        ('fit = { kind = "Junction" }', "JunctionTree"),
        ('selection = { kind = "Selection", chosen = 0 }', "chosen must be a whole number"),
        ('selection = { kind = "Selection", often = 1 }', "often"),
    ],
)
def test_what_is_wrong_is_said_at_its_line(tmp_path, more, sentence):
    with pytest.raises(ConfigError, match=sentence) as caught:
        loaded(tmp_path, more)
    assert "stream.toml" in str(caught.value) or "line" in str(caught.value)
