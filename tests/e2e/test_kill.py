"""Killed at every durable write and at random moments, and resumed each time: exactly one release
per step.
"""

from pathlib import Path

import pytest

import tailrace
from tailrace import Stream
from tailrace.ledger import Ledger
from tailrace.storage.codec import pack

STEPS = 60


def everything(folder):
    """Tables, changes, views, state arrays, memory, marks and charges: all but clock times and
    random names.
    """
    with Stream.open(folder / "ward.tail") as stream:
        seen = []
        for step in range(1, stream.step + 1):
            release = stream.release(step)
            frames = (release.table, release.changes.added, release.changes.removed)
            seen += [frame.to_dict(as_series=False) for frame in frames]
            if release.view is not None:  # a panel shows nothing before its first window is full
                seen += [release.view.estimates.tobytes(), getattr(release.view, "variance", None)]
            seen.append(str(release.guarantee))
        state = stream._standing.state
        seen += [pack(state.public), pack(state.private)]
    segments = sorted((folder / "ward.tail" / "private" / "memory").rglob("*"))
    memory = [
        (file.parent.name, file.name, file.read_bytes()) for file in segments if file.is_file()
    ]
    entries = [
        (e.population, e.guarantee, e.mark, e.fingerprint)
        for e in Ledger(folder / "tailrace.ledger").entries()
    ]
    return {"releases": seen, "memory": memory, "ledger": entries}


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["event", "window", "panel"])
def test_killed_at_durable_writes_and_resumed_nothing_differs(killing, tmp_path, unit):
    points = killing("killing.py", "unbroken", tmp_path / "unbroken", unit)["points"]
    assert len(points) >= 8 * STEPS
    kills = killing("killing.py", "at_writes", tmp_path / "broken", unit)["kills"]
    assert kills >= 80
    whole, broken = everything(tmp_path / "unbroken"), everything(tmp_path / "broken")
    assert whole["ledger"] == broken["ledger"] and len(whole["ledger"]) == 1
    assert whole["memory"] == broken["memory"] and bool(whole["memory"]) == (unit != "event")
    assert whole["releases"] == broken["releases"]


@pytest.mark.slow
def test_killed_at_random_moments_no_release_that_was_held_changes(killing, tmp_path):
    done = killing("killing.py", "at_moments", tmp_path / "moments", "event")
    assert done["steps"] == [f"{step:06d}" for step in range(1, STEPS + 1)], (
        "none lost, none doubled"
    )
    assert done["kills"] >= 3, "how many there are depends on the machine"


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("mode", "unit"),
    [
        ("at_some", "user"),
        pytest.param("at_each", "user", marks=SLOW),
        pytest.param("at_each", "panel", marks=SLOW),
    ],
)
def test_killed_at_points_of_a_step_it_is_charged_and_released_once(killing, tmp_path, mode, unit):
    numbers = killing("killing.py", mode, tmp_path / "each", unit)["numbers"]
    assert len(numbers) > (10 if mode == "at_each" else 5)
    for number in numbers:
        entries = Ledger(tmp_path / "each" / str(number) / "tailrace.ledger").entries()
        assert [entry.mark.step for entry in entries] == [2]


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["event", "user", "panel"])
def test_a_step_filled_in_parts_and_killed_at_its_points_counts_each_part_once(
    killing, tmp_path, unit
):
    found = killing("killing.py", "filled_at_each", tmp_path / "filled", unit)
    assert sum(name == "add, before" for name in found["points"]) == (6 if unit == "panel" else 8)
    wanted = everything(tmp_path / "filled" / "0")
    assert len(wanted["ledger"]) == 1 and wanted["ledger"][0][2].step == 2
    for number in found["numbers"]:
        assert everything(tmp_path / "filled" / str(number)) == wanted, found["points"][number - 1]


@pytest.mark.slow
def test_a_fork_killed_at_each_of_its_points_is_charged_once(killing, tmp_path):
    folders = killing("killing.py", "at_each_of_a_fork", tmp_path / "forks", "user")["folders"]
    assert folders > 10
    for number in range(1, folders + 1):
        entries = Ledger(tmp_path / "forks" / str(number) / "tailrace.ledger").entries()
        assert [entry.mark.step for entry in entries] == [1, 2]


@pytest.mark.slow
def test_two_copies_that_race_for_a_step_one_gets_it_and_the_other_draws_nothing(killing, tmp_path):
    assert killing("killing.py", "race", tmp_path / "race", "event")["won"] == [[0, 3]] * 20


def test_every_durable_write_has_a_point():
    """Elsewhere nothing is committed, renamed or synced, so nothing durable escapes the kills; a
    SQL sink has its own points.
    """
    source = Path(tailrace.__file__).parent
    # Files that nothing names until they are whole; `killing_spark.py` kills who writes them.
    counting = ("counting/memory/", "counting/files.py")
    known = ("storage/durable.py", "storage/store.py", "sources/database.py", "sinks/sql.py")
    for path in source.rglob("*.py"):
        name = path.relative_to(source).as_posix()
        if name in known or name.startswith((*counting, "ledger/")):
            continue
        for word in ("os.rename", "os.replace", "fsync", "COMMIT", ".commit("):
            assert word not in path.read_text(), f"{name}: {word}"
    assert all((source / name).exists() for name in known)
