"""`tailrace audit` from the command line."""

import json

import pytest

from processes import call

WARD = """
[stream]
path = "ward.tail"
population = "ward"
[mechanism]
kind = "HistogramStream"
horizon = 3
privacy = { kind = "PureDP", epsilon = 1 }
unit = { kind = "Event" }
[schema]
sex = { kind = "Categorical", values = ["f", "m"] }
[source]
kind = "Folder"
path = "incoming"
files = "*.csv"
"""


def test_parts_and_a_configuration_are_audited(tmp_path):
    (tmp_path / "stream.toml").write_text(WARD)
    found = call("audit", "Simple", tmp_path / "stream.toml", "--runs", "0", "--json")
    verdicts = json.loads(found.stdout)
    assert [one["claim"] for one in verdicts] == ["epsilon = 2", "rho = 0.5", "epsilon = 1"]
    assert all(one["meter"]["share"] == 1 and one["planted"]["meter"] for one in verdicts)
    assert not (tmp_path / "ward.tail").exists(), "nothing is made and nothing charged"


@pytest.mark.parametrize(
    "given", [("Nothing",), ("Simple", "--runs", "5"), ("Simple", "--fault", "2")]
)
def test_what_cannot_be_audited_is_told_in_a_sentence(given):
    found = call("audit", *given, code=3)
    assert len(found.stderr.strip().splitlines()) == 1
