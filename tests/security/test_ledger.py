"""Ways to spend a budget twice: a lost folder, a new ledger, another spelling, a larger record, a
crafted file.
"""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import unicodedata
import warnings
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from samples import DAY, FOLDER, WARD, ward
from tailrace import (
    AddRemove,
    BehindLedger,
    Box,
    BudgetExceeded,
    Calendar,
    ConfigError,
    Corrupt,
    Event,
    Guarantee,
    HistogramStream,
    Ledger,
    Mismatch,
    PureDP,
    StateError,
    Stream,
    Trajectories,
    Uncapped,
    User,
    open_releases,
)
from tailrace.cli import app
from tailrace.counting.journeys.masses import WHOLE
from tailrace.ledger import Cap, Mark
from tailrace.ledger.file import digest, transaction
from tailrace.storage import durable
from tailrace.stream.migrate import migrate
from tailrace.stream.verify import verify_public


def walks(unit=Event(), epsilon=1):
    square = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=8)
    return Trajectories(
        domain=square, privacy=PureDP(epsilon=epsilon), unit=unit, trajectory="walk", order="minute"
    )


# a lost folder


def test_a_lost_folder_is_not_made_again_in_silence(tmp_path):
    path = tmp_path / "ward.tail"
    with Stream.create(path, ward(), population="ward") as stream:
        stream.push(DAY)
        shutil.copytree(path, tmp_path / "backup")
        stream.push(DAY)
    shutil.rmtree(path)
    for mechanism, population in ((ward(), "ward"), (ward(2), "ward"), (ward(), "another")):
        with pytest.raises(
            BehindLedger, match=r"of this path that stands at step 2.*Stream\.fork.*another path"
        ):
            Stream.create(path, mechanism, population=population)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["backup", "tailrace.ledger"], (
        "nothing is left half made"
    )
    assert len(Ledger(tmp_path / "tailrace.ledger").entries()) == 1
    with pytest.raises(BehindLedger, match="of this path"):
        Stream.fork(tmp_path / "backup", path)
    with pytest.warns(Uncapped), Stream.fork(tmp_path / "backup", tmp_path / "second.tail") as fork:
        assert fork.step == 1
    with pytest.warns(Uncapped):
        Stream.create(tmp_path / "third.tail", ward(), population="ward").close()


def test_rm_and_run_says_so_at_the_command_line(configure, tmp_path):
    configure(tmp_path, calendar=None, source=FOLDER)
    (tmp_path / "incoming" / "1.csv").write_text("sex\nf\nm\n")
    command = ["run", str(tmp_path / "stream.toml")]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.output
    shutil.rmtree(tmp_path / "ward.tail")
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 5 and "of this path that stands at step 1" in again.output
    assert (
        len(Ledger(tmp_path / "tailrace.ledger").entries()) == 1
        and not (tmp_path / "ward.tail").exists()
    )


def test_an_erased_stream_is_not_made_again_in_its_place(tmp_path):
    path = tmp_path / "ward.tail"
    stream = Stream.create(path, ward(), population="ward")
    stream.push(DAY)
    stream.close(erase=True)
    shutil.rmtree(path)
    with pytest.raises(BehindLedger, match="of this path"):
        Stream.create(path, ward(), population="ward")


# a ledger that knows nothing


@pytest.mark.parametrize("beside", ["a stream", "an erased stream", "a ledger"])
def test_a_new_ledger_is_not_made_beside_what_was_spent(tmp_path, beside):
    book = tmp_path / "books" / "all.ledger"
    book.parent.mkdir()
    if beside == "a ledger":
        Ledger(tmp_path / "charges.db").cap("ward", PureDP(epsilon=1), Event())
    else:
        Stream.create(tmp_path / "a.tail", ward(), population="ward", ledger=book).close(
            erase="erased" in beside
        )
    for ledger in (None, tmp_path / "typo.ledger", tmp_path / "books" / "al.ledger"):
        with pytest.raises(
            BehindLedger, match=r"There is no ledger .*lies beside b\.tail.*on purpose, with Ledger"
        ):
            Stream.create(tmp_path / "b.tail", ward(), population="ward", ledger=ledger)
        assert not (tmp_path / "b.tail").exists()
    Ledger(tmp_path / "new.ledger")  # on purpose
    Stream.create(
        tmp_path / "b.tail", ward(), population="ward", ledger=tmp_path / "new.ledger"
    ).close()


def test_what_a_crash_leaves_of_a_ledger_is_no_ledger(tmp_path):
    Ledger(tmp_path / "l")
    os.rename(tmp_path / "l", tmp_path / "tailrace.ledger.0123.new")
    Stream.create(tmp_path / "a.tail", ward(), population="ward").close()


# names of populations

COMPOSED, APART = "Málaga 2026", unicodedata.normalize("NFD", "Málaga 2026")


def test_a_population_is_one_however_it_is_typed(tmp_path):
    ledger = Ledger(tmp_path / "tailrace.ledger")
    ledger.cap(APART, PureDP(epsilon=1), Event())
    Stream.create(tmp_path / "a.tail", ward(), population=COMPOSED).close()
    for name in (COMPOSED, APART, f" {COMPOSED}\u00a0", "Málaga \t2026"):
        with pytest.raises(BudgetExceeded):
            Stream.create(tmp_path / "b.tail", ward(), population=name)
        assert len(ledger.entries(name)) == 1
    ledger.cap(COMPOSED, PureDP(epsilon=2), Event())
    assert [cap.loss for cap in ledger.caps()] == [PureDP(epsilon=2)]
    with pytest.raises(ConfigError, match="population must"):
        Stream.create(tmp_path / "c.tail", ward(), population=" \u00a0")


def test_names_that_an_earlier_version_kept_as_typed_still_count(tmp_path):
    ledger = Ledger(tmp_path / "l")
    ledger.cap("x", PureDP(epsilon=1), Event())
    promise = Guarantee(PureDP(epsilon=1), Event(), AddRemove, 9)
    held = ledger.charge(population="x", path="/a", fingerprint="f", guarantee=promise)
    with contextlib.closing(
        sqlite3.connect(ledger.path)
    ) as file:  # as typed then, with the digests of then
        (terms,) = file.execute("SELECT terms FROM caps").fetchone()
        row = file.execute(
            "SELECT id, population, path, fingerprint, guarantee, fork_of, created, step, tag FROM "
            "entries"
        ).fetchone()
        row = (row[0], f"{APART} ", *row[2:])
        file.execute("UPDATE caps SET population = ?, digest = ?", (APART, digest((APART, terms))))
        file.execute("UPDATE entries SET population = ?, digest = ?", (row[1], digest(row)))
        file.commit()
    again = Ledger(ledger.path)
    assert (
        again.charge(population=COMPOSED, path="/a", fingerprint="f", guarantee=promise).id
        == held.id
    )
    with pytest.raises(BudgetExceeded):
        again.charge(population=COMPOSED, path="/b", fingerprint="f", guarantee=promise)
    again.claim(held.id, before=Mark(0, ""), after=Mark(1, "t"))
    again.cap(COMPOSED, PureDP(epsilon=3), Event())
    assert len(again.caps()) == 1 and again.entries(APART)[0].mark.step == 1


# records that are more than a row


def test_one_point_of_a_trajectory_is_two_trajectories_away():
    """Why a stream of trajectories counts twice under a cap for one record: both worlds are one
    trajectory from neither.
    """
    # All but the number, which one point cannot move.
    setting = walks().setting(0.0)
    plan = replace(walks().plan(walks().init().public), layout=setting.layout, parts=setting.counts)

    def counts(points):
        rows = pl.DataFrame(
            {"walk": [1] * len(points), "minute": range(len(points)), "x": points, "y": points}
        )
        return plan.counts(plan.read(rows)).parts

    def apart(ones, others):
        """In units: how far each part of the counts moved."""
        size = 1 + max(int(masses.codes.max(initial=0)) for masses in (*ones, *others))
        moves = [
            np.abs(a.dense(size) - b.dense(size)).sum() / WHOLE
            for a, b in zip(ones, others, strict=True)
        ]
        return max(moves)

    with_it, without_it, nothing = (
        counts([0.1, 0.2, 0.9]),
        counts([0.1, 0.2]),
        plan.counts(None).parts,
    )
    assert apart(with_it, nothing) == apart(without_it, nothing) == 1, "what epsilon was proved for"
    assert 1 < apart(with_it, without_it) <= 2


@pytest.mark.parametrize(
    ("guarantee", "unit", "epsilon"),
    [
        (walks().guarantee, Event(), 2),
        (walks(User(column="id")).guarantee, Event(), 2),
        (walks().guarantee, User(column="id", events=3), 3),
        (ward().guarantee, Event(), 1),
    ],
    ids=["a trajectory", "a person's", "under a cap for people", "a row"],
)
def test_a_cap_counts_rows(guarantee, unit, epsilon):
    cap = Cap(population="city", loss=PureDP(epsilon=9), unit=unit, neighbours=AddRemove)
    assert cap.spent([guarantee]).amount == Fraction(epsilon)


def test_a_cap_for_one_record_does_not_admit_trajectories_at_the_same_epsilon(tmp_path):
    ledger = Ledger(tmp_path / "tailrace.ledger")
    ledger.cap("city", PureDP(epsilon=1), Event())
    with pytest.raises(
        BudgetExceeded,
        match=r"asks for epsilon = 2 \(it protects a trajectory, and changing one row",
    ):
        Stream.create(tmp_path / "walks.tail", walks(), population="city")
    Stream.create(tmp_path / "walks.tail", walks(epsilon="1/2"), population="city").close()


# charges without a cap


def test_a_population_charged_twice_without_a_cap_gets_a_sentence(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Stream.create(tmp_path / "a.tail", ward(), population="ward").close()
    with pytest.warns(
        Uncapped,
        match=r"'ward' is charged for 2 streams now and has no cap: what they lose adds up",
    ):
        Stream.create(tmp_path / "b.tail", ward(), population="ward").close()
    said = CliRunner().invoke(app, ["status", str(tmp_path / "b.tail")])
    assert "what its 2 streams lose adds up" in " ".join(said.output.split())
    Ledger(tmp_path / "tailrace.ledger").cap("ward", PureDP(epsilon=5), Event())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Stream.create(tmp_path / "c.tail", ward(), population="ward").close()
    said = CliRunner().invoke(app, ["status", str(tmp_path / "c.tail")])
    assert "epsilon = 5, of which epsilon = 3 is spent" in " ".join(said.output.split())


# the file


LAYOUTS = {
    "a view without end": [
        "ALTER TABLE caps RENAME TO old",
        "CREATE VIEW caps AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT population, terms, digest FROM old, n WHERE i < 0",
    ],
    "a trigger that forgets": [
        "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END"
    ],
    "an index": ["CREATE INDEX i ON entries (length(path))"],
    "no table": ["DROP TABLE caps"],
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_crafted_ledger_is_refused_before_it_is_run(tmp_path, name):
    ledger = Ledger(tmp_path / "l")
    with contextlib.closing(sqlite3.connect(ledger.path)) as file:
        for statement in LAYOUTS[name]:
            file.execute(statement)
        file.commit()
    for use in (lambda: Ledger(ledger.path), ledger.entries):
        with pytest.raises(Corrupt, match="is damaged"):
            use()


def test_a_ledger_that_anybody_may_write_is_refused_with_the_fix(tmp_path):
    ledger = Ledger(tmp_path / "l")
    assert ledger.path.stat().st_mode & 0o777 == 0o600
    for mode in (0o602, 0o666, 0o777):
        os.chmod(ledger.path, mode)
        with pytest.raises(StateError, match=r"may be written by every user.*chmod o-w l"):
            Ledger(ledger.path)
    for mode in (0o644, 0o664, 0o660, 0o600):  # as earlier versions made it, or shared with a group
        os.chmod(ledger.path, mode)
        Ledger(ledger.path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")
def test_a_ledger_of_another_user_is_refused_unless_it_is_shared(tmp_path):
    ledger = Ledger(tmp_path / "l")
    os.chown(ledger.path, 65534, -1)
    with pytest.raises(StateError, match=r"belongs to another user.*chown"):
        Ledger(ledger.path)
    os.chmod(ledger.path, 0o660)
    Ledger(ledger.path)


def test_a_ledger_with_a_log_is_changed_over_though_others_look(tmp_path):
    """As the last version kept it: SQLite's log may lose a commit, and a journal does not."""
    ledger = Ledger(tmp_path / "l")
    ledger.cap("ward", PureDP(epsilon=1), Event())
    with contextlib.closing(sqlite3.connect(ledger.path)) as file:
        assert file.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    code = "import sys; from tailrace import Ledger; assert len(Ledger(sys.argv[1]).caps()) == 1"
    others = [subprocess.Popen([sys.executable, "-c", code, ledger.path]) for _ in range(3)]
    assert len(Ledger(ledger.path).caps()) == 1
    assert [other.wait() for other in others] == [0, 0, 0]
    with transaction(ledger.path, "BEGIN") as file:
        assert file.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert [file.name for file in tmp_path.iterdir()] == ["l"]


# what is published says nothing of how long it took


def dated(path):
    """The times of all files of steps, and of the folders that hold them."""
    folders = [path / "releases" / name for name in ("added", "removed", "log")]
    return {file.stat().st_mtime for one in folders for file in (one, *one.iterdir())}


def test_the_published_time_is_not_that_of_counting(tmp_path):
    asked = datetime(2026, 3, 1, 12, tzinfo=UTC)
    with Stream.create(tmp_path / "a.tail", ward(), population="ward") as stream:
        release = stream.push(DAY, asked=asked)
        assert release.provenance["time"] == "2026-03-01T12:00:00+00:00"
        with pytest.raises(ConfigError, match="asked must be a datetime with a time zone"):
            stream.push(DAY, asked=datetime(2026, 3, 1))
    assert dated(tmp_path / "a.tail") == {asked.timestamp()}


@pytest.mark.parametrize(
    "cut", [None, "intent, after", "commit, before", "commit, after", "publish log, before"]
)
def test_with_a_calendar_the_time_is_when_the_step_closed_also_after_a_crash(
    tmp_path, monkeypatch, cut
):
    class Cut(BaseException):
        pass

    def stop(name):
        if name == cut:
            raise Cut

    path, days = tmp_path / "a.tail", Calendar(start="2026-01-01", period="1 day")
    stream = Stream.create(path, ward(), population="ward", calendar=days)
    monkeypatch.setattr(durable, "hook", stop)
    with contextlib.suppress(Cut):
        stream.push(DAY)
    monkeypatch.setattr(durable, "hook", None)
    stream.close()
    with Stream.open(path) as stream:
        assert stream.release(1).provenance["time"] == days.closes(1).isoformat(timespec="seconds")
    assert dated(path) == {days.closes(1).timestamp()}


def test_a_crash_does_not_move_the_time_of_a_step(tmp_path, monkeypatch):
    class Cut(BaseException):
        pass

    def stop(name):
        if name == "intent, after":
            raise Cut

    asked = datetime.now(UTC) - timedelta(days=2)
    stream = Stream.create(tmp_path / "a.tail", ward(), population="ward")
    monkeypatch.setattr(durable, "hook", stop)
    with pytest.raises(Cut):
        stream.push(DAY, asked=asked)
    monkeypatch.setattr(durable, "hook", None)
    stream.close()
    with Stream.open(tmp_path / "a.tail") as stream:
        assert stream.release(1).provenance["time"] == asked.isoformat(timespec="seconds")


def test_a_run_dates_all_its_steps_before_it_reads(tmp_path):
    """Each step's own clock would tell how long the one before took."""
    from tailrace import run

    read = []

    class Source:
        over = False

        def ready(self, step):
            return step <= 3

        def batch(self, step):
            from tailrace.sources.base import Batch

            read.append(datetime.now(UTC))
            return Batch(DAY)

    with Stream.create(tmp_path / "a.tail", ward(), population="ward") as stream:
        times = {release.provenance["time"] for release in run(stream, Source())}
    assert len(times) == 1 and datetime.fromisoformat(times.pop()) <= read[0]


# a fork is whole on disk before it is charged


def test_nothing_is_charged_before_it_is_whole_on_disk(tmp_path, monkeypatch):
    person = HistogramStream(
        domain=WARD, privacy=PureDP(epsilon=1), unit=User(column="id", events=2), horizon=9
    )
    with Stream.create(tmp_path / "a.tail", person, population="ward") as stream:
        stream.push(pl.DataFrame({"id": [1, 2], "sex": ["f", "m"]}))
    synced, needed = set(), {}
    fsync, charge = os.fsync, Ledger.charge

    def watched(descriptor):
        synced.add(os.path.realpath(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    def charged(self, **asked):
        partial = tmp_path / ".b.tail.partial"
        needed.update({str(file): str(file) in synced for file in (partial, *partial.rglob("*"))})
        return charge(self, **asked)

    monkeypatch.setattr(os, "fsync", watched)
    monkeypatch.setattr(Ledger, "charge", charged)
    with pytest.warns(Uncapped):
        Stream.fork(tmp_path / "a.tail", tmp_path / "b.tail").close()
    assert any("/memory/" in name for name in needed) and all(needed.values()), needed


def test_a_charge_that_is_refused_leaves_nothing(tmp_path):
    Ledger(tmp_path / "tailrace.ledger").cap("ward", PureDP(epsilon="1/2"), Event())
    with pytest.raises(BudgetExceeded):
        Stream.create(tmp_path / "a.tail", ward(), population="ward")
    assert [file.name for file in tmp_path.iterdir()] == ["tailrace.ledger"]


# streams of the last version


KEPT = Path(__file__).with_name("kept.tar.gz")


def test_streams_of_the_last_version_open_and_go_on(tmp_path):
    """One at rest with its memory, one cut off in a step and one fork, beside a ledger with a log:
    see make_kept.py.
    """
    with tarfile.open(KEPT) as archive:
        archive.extractall(tmp_path, filter="tar")
    day = pl.DataFrame({"id": [1, 2, 3, 4], "sex": ["f", "m", "f", "f"]})
    for name, step in (("ward.tail", 2), ("cut.tail", 2), ("fork.tail", 2)):
        with pytest.raises(Mismatch, match="bring it over with tailrace migrate"):
            Stream.open(tmp_path / name)
        migrate(tmp_path / name)
        with Stream.open(tmp_path / name) as stream:
            assert stream.step == step
            before = [stream.release(number).table.rows() for number in range(1, step + 1)]
            stream.push(day)
        with Stream.open(tmp_path / name) as stream:
            assert stream.step == step + 1
            assert [stream.release(number).table.rows() for number in range(1, step + 1)] == before
    entries = Ledger(tmp_path / "tailrace.ledger").entries()
    assert [entry.mark.step for entry in entries] == [3, 3, 3]


def test_streams_that_published_no_states_go_on_and_publish_them(tmp_path):
    """Format 3 at e6b96df, made by make_kept.py: views of later steps can be asked in public."""
    with tarfile.open(Path(__file__).with_name("kept3.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="tar")
    day = pl.DataFrame({"id": [1, 2, 3, 4], "sex": ["f", "m", "f", "f"]})
    for name in ("ward.tail", "cut.tail", "fork.tail"):
        with Stream.open(tmp_path / name) as stream:
            assert stream.step == 2
            views = [stream.release(step).view.count() for step in (1, 2)]
            for _ in range(3):
                views.append(stream.push(day).view.count())
        with Stream.open(tmp_path / name) as stream:
            assert [stream.release(step).view.count() for step in range(1, 6)] == views
        releases = open_releases(tmp_path / name)
        assert [releases.count(step) for step in (3, 4, 5)] == views[2:]
        first = (1,) if name == "cut.tail" else (1, 2)
        for step in first:
            with pytest.raises(StateError, match="by an earlier version, without its measurements"):
                releases.count(step)
        assert verify_public(tmp_path / name / "releases").steps == 5
