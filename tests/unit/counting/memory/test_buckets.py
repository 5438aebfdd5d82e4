"""Units are bounded in buckets, here or on executors, as in one memory on one machine."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from executing import Session
from tailrace import Corrupt, Integer, Schema, User, Window
from tailrace.counting import executors, jobs, parts
from tailrace.counting.memory import LastValues, Missing, Weight, buckets, check, discard, spread
from tailrace.counting.memory import levels_kernel as kernel
from tailrace.counting.memory.bounding import Rule
from tailrace.counting.memory.levels import EMPTY, Levels
from tailrace.counting.plan import Plan
from tailrace.counting.step import UnitMemory, count

KEY = bytes(range(16))
CODES = Schema(v=Integer(0, 5))
DAYS = 4


def rows(step):
    return Plan(CODES, key="id")


def values(missing):
    def plan(step):
        recall = LastValues(window=2, values=7, missing=missing, first=step == 1)
        return Plan(CODES, key="id", memory=recall)

    return plan


def weights(step):
    recall = Weight(value=3, horizon=DAYS, missing=Missing.Carry, first=step == 1)
    return Plan(CODES, key="id", memory=recall)


PERSON = User(column="id", records=1)
CASES = {
    "events": (rows, User(column="id", events=3), False),
    "records": (rows, User(column="id", records=2), False),
    "window": (rows, Window(steps=2, column="id", events=2), False),
    "snapshot": (rows, User(column="id", records=2), True),
    "carry": (values(Missing.Carry), PERSON, False),
    "category": (values(Missing.Category), PERSON, False),
    "drop": (values(Missing.Drop), PERSON, False),
    "weights": (weights, PERSON, False),
}


def day(number, many=300):
    """Person 0 has half of the rows."""
    rng = np.random.default_rng(number)
    ids = np.where(rng.random(many) < 0.5, 0, rng.integers(0, 60, many))
    return pl.DataFrame({"id": ids, "v": rng.integers(0, 7, many)})


def kept(path):
    """The rows of a memory, and the step that it stands at."""
    found, steps = [], set()
    for one in buckets.buckets_of(path) or [path]:
        levels, rows = Levels(one, None), EMPTY
        for segment in levels.segments:
            rows = kernel.overlay(rows, segment.slice(0, 0))
        levels.close()
        steps.add(levels.step)
        found += [row for row in zip(*(column.tolist() for column in rows), strict=True) if row[3]]
    return found, steps


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """Count the days of a case; `there` says which of them come in a Spark frame."""

    def run(case, there, session=None):
        plan_of, unit, snapshot = CASES[case]
        session, folder, before, found = session or Session(), tmp_path / str(there), None, []
        folder.mkdir()
        monkeypatch.setattr(jobs, "session", lambda: session)
        monkeypatch.setattr(
            executors, "chosen", lambda rows, columns: session.frame(rows.collect().to_arrow())
        )
        for step in range(1, DAYS + 1):
            plan, more = plan_of(step), None
            if plan.memory is None and not snapshot:
                more = day(step - 1)
            read = []
            # Two calls fill a step: the second is here in any case.
            for some, gone, where in (
                (day(step), more, there(step)),
                (day(step + 50), None, False),
            ):
                monkeypatch.setattr(parts, "_there", _lazy if where else lambda frame: None)
                given = {"key": KEY, "known": None, "folder": folder}
                read += parts.read_parts(plan, unit, some, gone, **given)
            adds, deletes = parts.together(plan, unit, lambda read=read: read, folder)
            told = {"step": step, "snapshot": snapshot}
            memory = UnitMemory(folder, KEY, before, f"{step:03d}")
            counts, before = count(plan, unit, adds, deletes, **told, memory=memory)
            found.append((counts.adds.tolist(), counts.deletes.tolist()))
        assert not snapshot or before is None
        if before is not None:
            found.append(kept(folder / before))
            assert check(folder / before) == len(found[-1][0])
        return found, None if before is None else folder / before

    return run


def _lazy(frame):
    import narwhals as nw

    return None if frame is None else nw.from_native(frame.lazy())


def nowhere(step):
    return False


def everywhere(step):
    return True


def now_and_then(step):
    return step in (2, 3)


@pytest.mark.parametrize("case", CASES)
def test_executors_count_as_one_machine_does(case, counted):
    wanted, _ = counted(case, nowhere)
    found, path = counted(case, everywhere)
    assert found == wanted
    assert path is None or len(buckets.buckets_of(path)) == 4


@pytest.mark.parametrize("case", CASES)
def test_a_stream_may_move_to_spark_and_back(case, counted):
    assert counted(case, now_and_then)[0] == counted(case, nowhere)[0]


def test_tasks_that_run_twice_count_once(counted):
    session = Session(partitions=7, twice=True)
    assert counted("events", everywhere, session)[0] == counted("events", nowhere)[0]


def test_a_damaged_bucket_is_refused(counted):
    _, path = counted("events", everywhere)
    one = next(one for one in buckets.buckets_of(path) if Levels(one, None).rows)
    segment = max(one.iterdir(), key=lambda file: file.stat().st_size)
    data = bytearray(segment.read_bytes())
    data[9] ^= 1
    segment.unlink()
    segment.write_bytes(data)
    with pytest.raises(Corrupt, match="damaged"):
        check(path)
    text = (path / "buckets").read_text()
    (path / "buckets").unlink()
    (path / "buckets").write_text(text.replace("000-", "../", 1))
    with pytest.raises(Corrupt, match="damaged"):
        buckets.buckets_of(path)
    discard(path)
    assert not path.exists()


def test_a_damaged_file_of_rows_is_refused(tmp_path):
    some = spread._keep(tmp_path, 0, (np.ones(1, np.uint64),) * 2 + (np.ones(1, np.int64),))
    files = spread.Files(tmp_path.name, 0, ((0, some["name"], some["digest"]),))
    assert spread.Files.read(str(files)) == files
    assert [part[2].tolist() for part in spread.rows_of(files, tmp_path.parent)] == [[1]]
    (tmp_path / some["name"]).write_bytes(b"")
    with pytest.raises(Corrupt, match="damaged"):
        list(spread.rows_of(files, tmp_path.parent))
    (tmp_path / some["name"]).unlink()
    with pytest.raises(Corrupt, match="damaged"):
        list(spread.rows_of(files, tmp_path.parent))


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), max_size=30),
    st.integers(0, 30),
    st.sampled_from([Rule(1), Rule(2), Rule(5), Rule(1, gone=True), Rule(None)]),
)
def test_what_is_kept_of_parts_is_what_is_kept_of_the_whole(pairs, at, rule):
    def cut(some):
        hi, lo, cell = (np.array([pair[i] for pair in some]) for i in (0, 0, 1))
        sorted_ = spread._sorted(hi.astype(np.uint64), lo.astype(np.uint64), cell.astype(np.int64))
        kept = rule.cut(sorted_, KEY)
        return list(zip(kept[0].tolist(), kept[2].tolist(), strict=True))

    assert cut(cut(pairs[:at]) + cut(pairs[at:])) == cut(pairs)
    if rule.limit is not None and not rule.gone:
        assert all(sum(one == hi for one, _ in cut(pairs)) <= rule.limit for hi, _ in pairs)
