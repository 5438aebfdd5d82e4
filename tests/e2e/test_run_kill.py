"""`tailrace run` killed and started again, over a folder that grows: every row counts once, every
step is released once.
"""

import polars as pl
import pytest

from tailrace.ledger import Ledger
from tailrace.stream.verify import public_table

pytestmark = pytest.mark.slow  # kills through the command line take minutes


def counts(table):
    return dict(table.group_by("sex").len().sort("sex").iter_rows())


def assert_one_release_a_step(folder, steps):
    """The stream's own directory, both sinks and the ledger agree on what was released."""
    names = [f"{step:06d}" for step in range(1, steps + 1)]
    for where in ("ward.tail/releases/log", "csv", "parquet"):
        assert sorted(path.stem for path in (folder / where).glob("0*")) == names, where
    for name in names:
        table = public_table(folder / "ward.tail" / "releases", int(name))
        assert table.equals(pl.read_parquet(folder / "parquet" / name / "table.parquet"))
        assert table.equals(
            pl.read_csv(folder / "csv" / name / "table.csv", schema={"sex": pl.String})
        )
    assert [entry.mark.step for entry in Ledger(folder / "tailrace.ledger").entries()] == [steps], (
        "charged once"
    )


def test_watching_a_growing_folder_and_killed_again_and_again_no_row_is_lost_or_counted_twice(
    killing, tmp_path
):
    folder = tmp_path / "watched"
    done = killing("killing_runs.py", "watch", folder)
    assert sum(done["kills"].values()) >= 15 and all(done["kills"].values()), (
        "how many depends on the machine"
    )
    assert_one_release_a_step(folder, done["steps"])
    assert sum(done["written"].values()) > 50
    last = public_table(folder / "ward.tail" / "releases", done["steps"])
    assert counts(last) == done["written"]


def test_killed_at_each_point_of_a_run_every_row_counts_once_late_ones_too(killing, tmp_path):
    points = killing("killing_runs.py", "at_each", tmp_path / "each")["points"]
    for part in ("create", "cut", "files used", "intent", "commit", "sink", "sink's README.md"):
        assert f"{part}, before" in points and f"{part}, after" in points
    for number in range(1, len(points) + 1):
        folder = tmp_path / "each" / str(number)
        assert_one_release_a_step(folder, 3)
        table = public_table(folder / "ward.tail" / "releases", 3)
        assert counts(table) == {"f": 2, "m": 3}, points[number - 1]
