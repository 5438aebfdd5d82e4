"""One step's counting: each unit within its bound, remembered where it must be."""

import numpy as np
import polars as pl
import pytest

from tailrace import Categorical, Event, Schema, User, Window
from tailrace.counting.plan import Plan
from tailrace.counting.step import UnitMemory, count

WARD = Schema(sex=Categorical(["f", "m"]))
FLOOD = pl.DataFrame({"id": [7] * 5 + [8], "sex": ["f"] * 5 + ["m"]})
SNAPSHOT_UNITS = (User(column="id", records=2), Window(steps=2, column="id", records=2))


def counted(
    tmp_path, unit, *, snapshot=False, before=None, after="000001-00000001", frame=FLOOD, step=1
):
    plan = Plan(WARD, key=None if isinstance(unit, Event) else "id")
    memory = UnitMemory(tmp_path, bytes(16), before, after)
    return count(plan, unit, frame, None, step=step, snapshot=snapshot, memory=memory)


def test_events_are_all_counted_and_nothing_is_written(tmp_path):
    counts, segment = counted(tmp_path, Event())
    assert (counts.adds.tolist(), segment, list(tmp_path.iterdir())) == ([5, 1], None, [])


@pytest.mark.parametrize("unit", SNAPSHOT_UNITS)
def test_a_snapshot_is_bounded_by_itself_and_nothing_is_written(tmp_path, unit):
    counts, segment = counted(tmp_path, unit, snapshot=True)
    assert (counts.adds.tolist(), segment, list(tmp_path.iterdir())) == ([2, 1], None, [])


def test_a_user_is_bounded_over_all_steps_by_the_segment_written(tmp_path):
    unit = User(column="id", events=3)
    first, before = counted(tmp_path, unit)
    second, after = counted(tmp_path, unit, before=before, after="000002-00000002")
    assert (first.adds.tolist(), second.adds.tolist()) == ([3, 1], [0, 1])
    assert {path.name for path in tmp_path.iterdir()} == {before, after}


def test_a_window_s_memory_begins_anew_with_each_block(tmp_path):
    unit, before, told = Window(steps=2, column="id", events=3), None, []
    for step in range(1, 6):
        counts, before = counted(tmp_path, unit, before=before, after=f"{step}", step=step)
        told.append(counts.adds.tolist())
    assert told == [[3, 1], [0, 1], [3, 1], [0, 1], [3, 1]]


def test_a_plan_of_everything_at_once_counts_by_itself(tmp_path):
    class Everything:
        def counts(self, batch, deletes=None):
            assert deletes is None
            return np.array([len(batch)])

    memory = UnitMemory(tmp_path, bytes(16), None, "000001-00000001")
    unit = User(column="id")
    counts, segment = count(Everything(), unit, FLOOD, None, step=1, snapshot=False, memory=memory)
    assert (counts.tolist(), segment) == ([6], None)
