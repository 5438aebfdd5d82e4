"""Compiling before the first release, and the line that tells of it."""

import json
import sys

import numba
import pytest

from processes import call, python, variables
from tailrace.cli import say

WARD = """
[stream]
path = "ward.tail"
population = "ward"
[mechanism]
kind = "HistogramStream"
horizon = 3
privacy = { kind = "PureDP", epsilon = 1 }
unit = { kind = "User", column = "id", events = 2 }
deletes = true
[schema]
sex = { kind = "Categorical", values = ["f", "m"] }
[source]
kind = "Folder"
path = "incoming"
files = "*.csv"
"""
# Compiles all in a fresh folder, then pushes, and prints whose functions were compiled for each.
SCRIPT = """
import json, sys
from numba.core import event
compiled = []

class Listening(event.Listener):
    def on_start(self, event):
        compiled.append(event.data["dispatcher"].py_func.__module__)
    def on_end(self, event): ...

event.register("numba:compile", Listening())
from tailrace.cli import warm
warm.warm_up(None)
print(json.dumps(compiled))
"""


def test_a_mechanism_is_warmed_without_a_source_or_a_charge(tmp_path):
    (tmp_path / "stream.toml").write_text(WARD)
    told = call("warm", "stream.toml", cwd=tmp_path).output
    assert told.startswith("Ready after ") and told.endswith(" s: HistogramStream.\n")
    assert [file.name for file in tmp_path.iterdir()] == ["stream.toml"]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_is_told_once_that_loops_are_compiled(capsys, monkeypatch, terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    with say.compiling():
        pass
    assert capsys.readouterr().err == ""
    with say.compiling():
        numba.njit(lambda x: x + 1)(1)
        numba.njit(lambda x: x + 2)(1)
    assert capsys.readouterr().err.count("Compiling for this machine") == terminal


@pytest.mark.slow
def test_a_second_process_compiles_nothing_and_the_first_no_text(tmp_path):
    def compiled():
        kept = variables(NUMBA_CACHE_DIR=str(tmp_path))
        done = python("-c", SCRIPT, env=kept, cwd=tmp_path)
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout.splitlines()[-1])

    first = compiled()
    assert any(module.startswith("tailrace.") for module in first)
    # Assigning a slice, or a sum along an axis, brings numba's text for the sentence of an error.
    assert "numba.cpython.unicode" not in first
    assert compiled() == []
