"""A plug-in of another distribution: checked, kept, opened again and configured."""

import json
import os
import re
from pathlib import Path

import pytest

from processes import python, variables
from samples import FOLDER

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "write-a-mechanism.md"
# all but the mechanism, which is the page's own
MORE = '''
from fractions import Fraction
from pathlib import Path

import polars as pl

from tailrace.counters.ladder import LadderCounter
from tailrace.mechanisms.snapshot.policy import Split, beginning, bounded, decided
from tailrace.privacy.budget import part
from tailrace.sources import Frames, Settings


@dataclass(frozen=True, kw_only=True)
class Weekly(LadderCounter):
    @property
    def sizes(self):
        return 1, 7


@dataclass(frozen=True, kw_only=True)
class Alternate:
    """Every second step is released."""

    tracks = False

    def split(self, series):
        releases = -(-bounded(series, "Alternate") // 2)
        return Split(part(series.privacy, Fraction(1, releases)), releases)

    def proved(self, series):
        return None

    def begin(self, series):
        return beginning(series)

    def decide(self, series, pace, hidden, snapshot, noise):
        return decided(int(pace.step) % 2, pace, hidden)


@dataclass(frozen=True, kw_only=True)
class Same(Settings):
    """The same row, twice a step, for some steps."""

    steps: int
    value: str

    def open(self, given):
        return Frames([pl.DataFrame({"sex": [self.value] * 2})] * self.steps)


@dataclass(frozen=True)
class Log:
    """The numbers of released steps, one a line."""

    path: Path

    def holds(self):
        return set(map(int, self.path.read_text().split())) if self.path.exists() else set()

    def put(self, release):
        with self.path.open("a") as file:
            file.write(f"{release.step}\\n")
'''
PARTS = ("Daily", "Weekly", "Alternate", "Same", "Log")
MAKE = """
import polars as pl
from daily import Alternate, Daily, Same, Weekly
from tailrace import (
    Categorical, Event, HistogramStream, PureDP, Schema, SnapshotHistogram, Stream, User, checks
)

same = {"domain": Schema(sex=Categorical(["f", "m"])), "horizon": 4}
event = {**same, "privacy": PureDP(epsilon=100), "unit": Event()}
person = {**same, "privacy": PureDP(epsilon=100), "unit": User(column="id", records=1)}
made = {
    "mechanism": Daily(**event),
    "counter": HistogramStream(**event, counter=Weekly()),
    "policy": SnapshotHistogram(**person, policy=Alternate()),
}
day = pl.DataFrame({"id": [1, 2, 3], "sex": ["f", "m", "f"]})
"""
KEEP = f"""{MAKE}
for name, mechanism in made.items():
    with Stream.create(f"{{name}}.tail", mechanism, population=name) as stream:
        stream.push(day)
"""
OPEN = f"""{MAKE}
for name, mechanism in made.items():
    with Stream.open(f"{{name}}.tail") as stream:
        assert stream.mechanism == mechanism
        first = stream.release(1)
        assert stream.push(day).step == 2
        print(name, round(first.view.count(sex="f").value))
"""
CHECK = f"""{MAKE}
few, policy = ({{**one, "privacy": PureDP(epsilon=1)}} for one in (event, person))
checks.check_counter(Weekly(privacy=PureDP(epsilon=1), horizon=30))
for mechanism in (Daily(**few), Daily(**{{**few, "unit": User(column="id", events=2)}})):
    checks.check_mechanism(mechanism, [(day, None), (day[:1], None), (None, None)])
alternate = SnapshotHistogram(**policy, policy=Alternate())
checks.check_mechanism(alternate, [(day, None), (day[:2], None), (day, None)])
checks.check_source(lambda: Same(steps=3, value="f").open(None), rows=[2, 2, 2])
"""
EVENT = '{ kind = "Event" }'
CONFIGURE = """
[stream]
path = "configured.tail"
population = "configured"

[mechanism]
kind = "{kind}"
horizon = 4
privacy = {{ kind = "PureDP", epsilon = 100 }}
unit = {unit}
{more}
[schema]
sex = {{ kind = "Categorical", values = ["f", "m"] }}

[source]
{source}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the plug-in's module and its metadata, as pip leaves them."""
    folder = tmp_path_factory.mktemp("site")
    code = re.search(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S).group(1)
    (folder / "daily.py").write_text(code + MORE)
    about = folder / "daily-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: daily\nVersion: 1.0\n")
    points = "".join(f"{name} = daily:{name}\n" for name in PARTS)
    (about / "entry_points.txt").write_text(f"[tailrace.parts]\n{points}")
    return folder


def said_by(code, cwd, *arguments, path="", fails=False):
    """What a process prints, or what it says when it fails."""
    done = python("-c", code, *arguments, cwd=cwd, env=variables(PYTHONPATH=str(path)))
    assert bool(done.returncode) == fails, done.stderr
    return done.stderr if fails else done.stdout


@pytest.fixture(scope="module")
def kept(installed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    said_by(KEEP, folder, path=installed)
    return folder


@pytest.mark.slow
def test_a_kept_plug_in_is_opened_by_another_process(installed, kept):
    said = said_by(OPEN, kept, path=installed)
    assert said.split() == ["mechanism", "2", "counter", "2", "policy", "2"]


def test_without_the_plug_in_its_stream_says_what_is_missing(kept):
    code = "import tailrace as tr; tr.Stream.open('mechanism.tail')"
    assert "a plug-in of its parts is not installed" in said_by(code, kept, fails=True)


def test_a_plug_in_passes_the_conformance_suite(installed, tmp_path):
    said_by(CHECK, tmp_path, path=installed)


SAME = 'kind = "Same"\nsteps = 3\nvalue = "f"'
LOG = '\n[[sink]]\nkind = "Log"\npath = "log"\n'
PERSON = '{ kind = "User", column = "id", records = 1 }'
TEXTS = {
    "mechanism": CONFIGURE.format(kind="Daily", more="", unit=EVENT, source=FOLDER),
    "counter": CONFIGURE.format(
        kind="HistogramStream", more='counter = { kind = "Weekly" }\n', unit=EVENT, source=FOLDER
    ),
    "policy": CONFIGURE.format(
        kind="SnapshotHistogram",
        more='policy = { kind = "Alternate" }\n',
        unit=PERSON,
        source=FOLDER,
    ),
    "edges": CONFIGURE.format(kind="Daily", more="", unit=EVENT, source=SAME) + LOG,
    "wrong": CONFIGURE.format(kind="Daily", more="", unit=EVENT, source='kind = "Same"') + LOG,
}
RUN = """
import json, sys
from typer.testing import CliRunner
from tailrace.cli import app
from tailrace.config import load
said = {
    name: CliRunner().invoke(app, ["run", f"{name}/stream.toml"]).output for name in sys.argv[1:]
}
print(json.dumps({**said, "made": str(load("policy/stream.toml").mechanism.policy)}))
"""


@pytest.fixture(scope="module")
def ran(installed, tmp_path_factory):
    """What a run of each configuration says, all of them in one process; and where they lie."""
    folder = tmp_path_factory.mktemp("ran")
    for name, text in TEXTS.items():
        (folder / name / "incoming").mkdir(parents=True)
        (folder / name / "stream.toml").write_text(text)
        (folder / name / "incoming" / "a.csv").write_text("id,sex\n1,f\n2,m\n3,f\n")
    return folder, json.loads(said_by(RUN, folder, *TEXTS, path=installed))


@pytest.mark.parametrize("name", ["mechanism", "counter", "policy"])
def test_a_plug_in_is_configured(ran, name):
    assert "Released step 1 of 4" in ran[1][name]


def test_a_source_and_a_sink_of_a_plug_in_are_configured(ran):
    folder, said = ran
    assert "Released steps 1 to 3 of 4" in said["edges"]
    assert (folder / "edges" / "log").read_text().split() == ["1", "2", "3"]
    assert "[source] needs the key 'steps'" in said["wrong"]


def test_a_policy_of_a_plug_in_is_the_one_that_was_made(ran):
    assert ran[1]["made"] == "Alternate()"


def test_a_plug_in_cannot_take_the_name_of_a_part_of_ours(installed, tmp_path):
    about = tmp_path / "other-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[tailrace.parts]\nBlock = daily:Weekly\n")
    code = "from tailrace.registry import parts; parts()"
    said = said_by(code, tmp_path, path=f"{tmp_path}{os.pathsep}{installed}", fails=True)
    assert "The part Block of daily:Weekly has the name of another" in said
