"""Trajectories by the command line: a file of rows with ids, times as text, and places; released
and charged once.
"""

import json

import pytest

from samples import FOLDER
from tailrace.stream.verify import public_table

MECHANISM = """kind = "{kind}"
trajectory = "trip"
order = "time"
privacy = {{ kind = "PureDP", epsilon = 5000 }}
unit = {{ kind = "User", column = "who" }}
{more}"""
BOX = 'low = [0, 0]\nhigh = [1, 1]\ncolumns = ["x", "y"]\ncells = 16'
MORE = {
    "Trajectories": 'visits = { kind = "Grids", share = 0.5, sides = [4, 16], most = 10 }',
    "PrivTreeTrajectories": 'moves = { kind = "Transitions", share = 0.4, weighting = { kind = "Ends" } }',
}


def rows(many=40):
    lines = ["who,trip,time,x,y"]
    for trip in range(many):
        for minute in range(0, 50, 10):
            x, y = (trip % 10 / 10 + minute / 200) % 1, trip / many
            lines.append(f"p{trip % 9},{trip},2026-01-01 0{trip % 10}:{minute:02d}:00,{x},{y}")
    return (
        "\n".join([*lines, "p1,3,later,0.5,0.5", ",4,2026-01-01,0.5,0.5", "p2,5,7,west,0.5"]) + "\n"
    )


@pytest.mark.parametrize("kind", MORE)
def test_a_file_is_released_once(tailrace, configure, tmp_path, kind):
    configure(
        tmp_path,
        mechanism=MECHANISM.format(kind=kind, more=MORE[kind]),
        schema=None,
        box=BOX,
        calendar=None,
        source=FOLDER,
    )
    (tmp_path / "incoming" / "all.csv").write_text(rows())
    tailrace("check", "stream.toml", "incoming/all.csv", cwd=tmp_path)
    tailrace("run", "stream.toml", cwd=tmp_path)
    table = public_table(tmp_path / "ward.tail" / "releases", 1)
    assert table.columns == ["trip", "time", "x", "y"] and len(table)
    status = json.loads(tailrace("status", "stream.toml", "--json", cwd=tmp_path).stdout)
    assert (status["step"], status["horizon"], status["ledger_step"]) == (1, 1, 1)
    assert "one person (column 'who')" in status["guarantee"]
    (tmp_path / "incoming" / "more.csv").write_text(rows())
    tailrace("run", "stream.toml", cwd=tmp_path)
    assert public_table(tmp_path / "ward.tail" / "releases", 1).equals(table)
    assert [path.stem for path in (tmp_path / "ward.tail/releases/log").iterdir()] == ["000001"]
    tailrace("report", "stream.toml", cwd=tmp_path)
    tailrace("report", "stream.toml", "--private", cwd=tmp_path)
    public = (tmp_path / "report.html").read_text()
    private = (tmp_path / "ward.tail" / "private" / "PRIVATE-report.html").read_text()
    assert "ward: synthetic journeys" in public and 'id="map-true"' not in public
    assert 'id="map-true"' in private and "Kendall" in private
