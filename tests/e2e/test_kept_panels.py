"""Panels of the version before people could join open, and go on as that version would have."""

import json
import sys
import tarfile
from pathlib import Path

import pytest

from tailrace import Mismatch, Missing, Stream
from tailrace.config import load
from tailrace.config.opening import open_stream

HERE = Path(__file__).parents[1] / "security"
sys.path.insert(0, str(HERE))
from make_kept_panels import PANELS, month, released  # noqa: E402

CONFIG = """
[stream]
path = "{name}.tail"
population = "p"

[schema]
poor = {{ kind = "Integer", low = 0, high = 1 }}

[mechanism]
kind = "{kind}"
unit = {{ kind = "User", column = "id" }}
horizon = 6
privacy = {{ kind = "ZCDP", rho = "1/2" }}
{more}

[source]
kind = "Folder"
files = "*.csv"
path = "in"
"""
KINDS = {
    "window": ("PanelWindow", 'window = 2\nneighbours = { kind = "AddRemove" }'),
    "cumulative": ("PanelCumulative", 'people = 80\nneighbours = { kind = "Null" }'),
}


@pytest.fixture
def kept(tmp_path):
    with tarfile.open(HERE / "kept_panels.tar.gz") as archive:
        archive.extractall(tmp_path, filter="tar")
    return tmp_path


@pytest.mark.parametrize("name", PANELS)
def test_a_kept_panel_goes_on_by_its_stored_rule(kept, name):
    expected = json.loads((kept / f"{name}.json").read_text())
    with Stream.open(kept / f"{name}.tail") as stream:
        assert stream.mechanism.missing is Missing.Carry and not stream.mechanism.complete
        assert stream.mechanism != PANELS[name](), "the default has changed since"
        assert released(stream) == expected


@pytest.mark.parametrize("name", PANELS)
def test_its_configuration_still_means_what_it_meant(kept, name):
    kind, more = KINDS[name]
    file = kept / "stream.toml"
    file.write_text(CONFIG.format(name=name, kind=kind, more=more))
    (kept / "in").mkdir()
    with open_stream(load(file)) as stream:
        assert stream.step == 3 and stream.mechanism.missing is Missing.Carry
        stream.push(month(4))
    for change in ('missing = { kind = "Absent" }', "complete = true", 'first = "7"'):
        if name == "window" or "first" not in change:
            file.write_text(CONFIG.format(name=name, kind=kind, more=f"{more}\n{change}"))
            with pytest.raises(Mismatch, match="asks for another mechanism"):
                open_stream(load(file))
