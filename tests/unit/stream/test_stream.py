"""What a stream promises to the program that holds it."""

import copy
import dataclasses
import json
import os
import pickle
import shutil
import threading
from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from tailrace import (
    ApproxDP,
    BehindLedger,
    BudgetExceeded,
    Categorical,
    ConfigError,
    Corrupt,
    DataError,
    Event,
    HistogramStream,
    HorizonReached,
    Integer,
    Ledger,
    Noise,
    PureDP,
    Schema,
    StateError,
    Stream,
    User,
)
from tailrace.cli import app
from tailrace.mechanisms.base import State, Step
from tailrace.registry import Named
from tailrace.stream.verify import public_table, verify_public, verify_stream

WARD = Schema(sex=Categorical(["f", "m"]), age=Integer(0, 4))


def histogram(unit=Event(), horizon=10, **more):
    return HistogramStream(
        domain=WARD, privacy=PureDP(epsilon=1), unit=unit, horizon=horizon, **more
    )


def day(seed, count=30):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "id": rng.integers(0, 9, count),
            "sex": rng.choice(["f", "m"], count),
            "age": rng.integers(0, 5, count),
        }
    )


@pytest.fixture
def stream(tmp_path):
    with Stream.create(
        tmp_path / "ward.tail", histogram(), population="ward", noise=Noise.insecure(1)
    ) as stream:
        yield stream


def rows(frame):
    return sorted(map(str, frame.rows()))


def test_steps_follow_one_another_and_changes_make_the_next_table_of_the_last(stream):
    table = []
    for step in range(1, 6):
        release = stream.push(day(step), deletes=day(step - 1, 10))
        assert release.step == stream.step == step
        for row in rows(release.changes.removed):
            table.remove(row)
        table += rows(release.changes.added)
        assert sorted(table) == rows(release.table)
    assert release.table.columns == ["sex", "age"]
    assert release.table.schema == {"sex": pl.String, "age": pl.Int64}


def test_synthetic_rows_change_as_little_as_the_histogram_allows(stream):
    before = stream.push(day(1, 3000))
    after = stream.push(None)
    wanted = [np.bincount(release.rows.cells, minlength=WARD.size) for release in (before, after)]
    assert len(after.added.cells) + len(after.removed.cells) == np.abs(wanted[1] - wanted[0]).sum()


def test_a_committed_step_returns_the_stored_release_without_looking_at_the_frame(stream):
    first = stream.push(day(1))
    stream.push(day(2))
    again = stream.push(pl.DataFrame({"nonsense": [object()]}), step=1)
    assert rows(again.table) == rows(first.table)
    assert again.provenance == first.provenance
    assert stream.step == 2


def test_two_equal_empty_days_are_two_steps(stream):
    a, b = stream.push(day(1, 0)), stream.push(day(1, 0))
    assert (a.step, b.step) == (1, 2)
    assert not np.array_equal(a.view.estimates, b.view.estimates), "each has noise of its own"


def test_a_step_beyond_the_next_is_refused(stream):
    with pytest.raises(StateError, match="The next step is 1; step 3 cannot come before it"):
        stream.push(day(1), step=3)
    for bad in (0, -1, 1.5, "1", True):
        with pytest.raises(ConfigError, match="step must be a whole number"):
            stream.push(day(1), step=bad)


def test_past_the_horizon_nothing_is_counted(tmp_path):
    with Stream.create(tmp_path / "w", histogram(horizon=2), population="ward") as stream:
        stream.push(day(1)), stream.push(day(2))
        with pytest.raises(HorizonReached, match="All 2 steps of the horizon are released"):
            stream.push(day(3))
        assert stream.push(day(3), step=2).step == 2


def test_a_frame_of_the_wrong_shape_is_refused_and_nothing_is_lost(stream):
    for frame, message in (
        (pl.DataFrame({"sex": ["f"]}), "age"),
        (pl.DataFrame({"sex": ["f"], "age": [["old"]]}), "age"),
        ([1, 2, 3], "data frame"),
        ("rows", "data frame"),
    ):
        with pytest.raises(DataError, match=message):
            stream.push(frame)
    assert stream.push(day(1)).step == 1


def test_content_never_raises(stream):
    odd = pl.DataFrame(
        {
            "sex": ["f", None, "?", "m"],
            "age": [1.0, float("nan"), float("inf"), 1e300],
            "more": [1, 2, 3, 4],
        }
    )
    assert stream.push(odd, deletes=odd).step == 1


def test_in_memory_the_sentence_ends_not_charged_to_any_ledger():
    stream = Stream(histogram())
    assert str(stream.push(day(1)).guarantee).endswith("; not charged to any ledger.")
    assert "NO privacy" not in str(stream.guarantee)
    assert stream.release(1).step == 1
    stream.close()
    with pytest.raises(StateError, match="closed"):
        stream.push(day(1))


def test_a_known_seed_is_named_in_every_release(stream):
    assert "NO privacy: made with a known seed" in str(stream.push(day(1)).guarantee)


def test_memory_and_disk_release_the_same(tmp_path):
    seeded = Stream(histogram(User(column="id", events=2)), noise=Noise.insecure(3))
    with Stream.create(
        tmp_path / "w", seeded.mechanism, population="p", noise=Noise.insecure(3)
    ) as kept:
        for step in range(1, 6):
            a, b = (s.push(day(step), deletes=day(step - 1, 9)) for s in (seeded, kept))
            assert rows(a.table) == rows(b.table)
            assert np.array_equal(a.view.estimates, b.view.estimates)


def test_after_closing_a_stream_goes_on_where_it_stood(tmp_path):
    path = tmp_path / "ward.tail"
    with Stream.create(path, histogram(), population="ward") as stream:
        first = stream.push(day(1))
    with Stream.open(path) as stream:
        assert stream.step == 1
        assert stream.mechanism == histogram()
        assert rows(stream.release(1).table) == rows(first.table)
        assert stream.push(day(2)).step == 2
        with pytest.raises(StateError, match="There is no release of step 3 yet"):
            stream.release(3)


def test_noise_is_fresh_at_every_push_even_for_copies_of_the_same_object(tmp_path):
    """The nonce comes from the operating system, so two equal streams with one secret never share
    noise on other data.
    """
    source = Noise.fresh()
    a, b = Stream(histogram(), noise=source), Stream(histogram(), noise=source)
    assert not np.array_equal(a.push(day(1)).view.estimates, b.push(day(1)).view.estimates)


def test_one_writer_at_a_time(stream, tmp_path):
    with pytest.raises(StateError, match="is open in another process"):
        Stream.open(tmp_path / "ward.tail")


def test_a_stream_belongs_to_its_process(stream):
    own, stream._process = stream._process, -1
    for attempt in (lambda: stream.push(day(1)), lambda: stream.close(erase=True)):
        with pytest.raises(StateError, match="belongs to the process that opened it"):
            attempt()
    stream._process = own
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(StateError, match="cannot be copied"):
            attempt(stream)


def test_creating_twice_or_opening_nothing_is_refused(stream, tmp_path):
    with pytest.raises(StateError, match="exists already"):
        Stream.create(tmp_path / "ward.tail", histogram(), population="ward")
    with pytest.raises(StateError, match="is not a stream"):
        Stream.open(tmp_path / "nothing")
    with pytest.raises(ConfigError, match="population must name"):
        Stream.create(tmp_path / "other", histogram(), population="")


def test_creation_is_charged_and_capped(tmp_path):
    ledger = Ledger(tmp_path / "tailrace.ledger")
    ledger.cap("ward", PureDP(epsilon=2), Event())
    for name in ("a", "b"):
        Stream.create(tmp_path / name, histogram(), population="ward").close()
    with pytest.raises(BudgetExceeded):
        Stream.create(tmp_path / "c", histogram(), population="ward")
    assert not (tmp_path / "c").exists()
    assert len(ledger.entries("ward")) == 2


def test_after_a_crash_the_entry_without_a_step_is_reused(tmp_path, monkeypatch):
    from tailrace.stream import directory

    def crash(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(directory, "place", crash)
        with pytest.raises(KeyboardInterrupt):
            Stream.create(tmp_path / "w", histogram(), population="ward")
    Stream.create(tmp_path / "w", histogram(), population="ward").close()
    assert len(Ledger(tmp_path / "tailrace.ledger").entries()) == 1


def copied(tmp_path, name="copy"):
    """The stream's directory as it is now, and put back in its place by the caller."""
    shutil.copytree(tmp_path / "ward.tail", tmp_path / name)


def test_an_older_directory_is_refused_before_any_draw(tmp_path):
    with Stream.create(tmp_path / "ward.tail", histogram(), population="ward") as stream:
        stream.push(day(1))
        copied(tmp_path)
        stream.push(day(2))
    shutil.rmtree(tmp_path / "ward.tail")
    os.rename(tmp_path / "copy", tmp_path / "ward.tail")
    with pytest.raises(BehindLedger, match=r"stands at step 1, its ledger at step 2.*Stream\.fork"):
        Stream.open(tmp_path / "ward.tail")


def test_two_copies_that_race_for_the_next_step_only_one_gets_it(tmp_path):
    with Stream.create(tmp_path / "ward.tail", histogram(), population="ward") as stream:
        stream.push(day(1))
    copied(tmp_path)
    with Stream.open(tmp_path / "ward.tail") as one, Stream.open(tmp_path / "copy") as other:
        one.push(day(2))
        with pytest.raises(BehindLedger):
            other.push(day(3))
        assert other.step == 1 and not (tmp_path / "copy/releases/log/000002.json").exists()
    with pytest.raises(BehindLedger):
        Stream.open(tmp_path / "copy")


def test_a_fork_goes_on_from_a_copy_and_is_charged(tmp_path):
    unit = User(column="id", events=2)
    with Stream.create(tmp_path / "ward.tail", histogram(unit), population="ward") as stream:
        stream.push(day(1))
        copied(tmp_path)
        stream.push(day(2))
        with Stream.fork(tmp_path / "copy", tmp_path / "forked") as fork:
            assert fork.step == 1
            assert rows(fork.release(1).table) == rows(stream.release(1).table)
            assert fork.push(day(2)).step == 2
            assert not np.array_equal(
                fork.release(2).view.estimates, stream.release(2).view.estimates
            )
    entries = Ledger(tmp_path / "tailrace.ledger").entries()
    assert [entry.mark.step for entry in entries] == [2, 2]
    assert entries[1].fork_of == entries[0].id
    with Stream.open(tmp_path / "forked") as fork:
        assert fork.step == 2
    with pytest.raises(ConfigError, match="needs ledger="):
        Stream.fork(tmp_path / "copy", tmp_path / "elsewhere" / "fork")


def test_a_fork_respects_the_cap(tmp_path):
    Ledger(tmp_path / "tailrace.ledger").cap("ward", PureDP(epsilon=1), Event())
    Stream.create(tmp_path / "ward.tail", histogram(), population="ward").close()
    with pytest.raises(BudgetExceeded):
        Stream.fork(tmp_path / "ward.tail", tmp_path / "forked")
    assert not (tmp_path / "forked").exists()


def test_without_its_ledger_a_directory_is_refused(tmp_path):
    Stream.create(tmp_path / "ward.tail", histogram(), population="ward").close()
    os.remove(tmp_path / "tailrace.ledger")
    with pytest.raises(BehindLedger, match="has no ledger"):
        Stream.open(tmp_path / "ward.tail")
    assert not (tmp_path / "tailrace.ledger").exists(), "none is made up"
    Ledger(tmp_path / "tailrace.ledger")
    with pytest.raises(BehindLedger, match="no entry of this stream"):
        Stream.open(tmp_path / "ward.tail")


def test_a_ledger_may_lie_anywhere(tmp_path):
    book = tmp_path / "books" / "all.ledger"
    book.parent.mkdir()
    Stream.create(tmp_path / "w", histogram(), population="ward", ledger=book).close()
    Stream.open(tmp_path / "w", ledger=book).close()
    assert len(Ledger(book).entries()) == 1 and not (tmp_path / "tailrace.ledger").exists()


def test_the_public_directory_is_readable_without_tailrace(stream, tmp_path):
    release = stream.push(day(1))
    public = tmp_path / "ward.tail" / "releases"
    assert rows(public_table(public, 1)) == rows(release.table)
    promise = json.loads((public / "guarantee.json").read_text())
    assert promise["sentence"] == str(release.guarantee) and promise["loss"] == {
        "kind": "PureDP",
        "epsilon": "1",
    }
    assert "sex" in (public / "codebook.json").read_text()
    assert "Synthetic data" in (public / "README.md").read_text()
    entry = json.loads((public / "log" / "000001.json").read_text())
    assert set(entry) == {"step", "provenance", "rows", "born", "from", "files", "before"}
    assert set(entry["provenance"]) == {"tailrace", "fingerprint", "step", "time", "noise"}, (
        "no counts of rows that came, durations or file names"
    )


def test_the_private_directory_is_private(stream, tmp_path):
    private = tmp_path / "ward.tail" / "private"
    assert oct(private.stat().st_mode)[-3:] == "700"
    for name in ("key", "state.db"):
        assert oct((private / name).stat().st_mode)[-3:] == "600"


def test_releases_that_are_missing_are_published_at_opening(tmp_path):
    path = tmp_path / "ward.tail"
    with Stream.create(path, histogram(), population="ward") as stream:
        tables = [rows(stream.push(day(step)).table) for step in (1, 2, 3)]
    published = sorted((path / "releases").rglob("*"))
    shutil.rmtree(path / "releases")
    Stream.open(path).close()
    assert sorted((path / "releases").rglob("*")) == published
    assert [rows(public_table(path / "releases", step)) for step in (1, 2, 3)] == tables
    (path / "releases/log/000003.json").unlink()
    (path / "releases/removed/000003.parquet").unlink()
    Stream.open(path).close()
    assert sorted((path / "releases").rglob("*")) == published


def test_a_step_that_someone_else_published_is_refused(tmp_path):
    path = tmp_path / "ward.tail"
    with Stream.create(path, histogram(), population="ward") as stream:
        planted = path / "releases/added/000001.parquet"
        planted.write_bytes(b"theirs")
        with pytest.raises(StateError, match="is another file than the one that was published"):
            stream.push(day(1))
    assert planted.read_bytes() == b"theirs"
    planted.unlink()
    with Stream.open(path) as stream:
        assert stream.step == 1, "it was committed, and is delivered now"


def test_closing_with_erase_leaves_only_what_is_public(tmp_path):
    path = tmp_path / "ward.tail"
    stream = Stream.create(path, histogram(), population="ward")
    stream.push(day(1))
    stream.close(erase=True)
    assert not (path / "private").exists() and (path / "releases/log/000001.json").is_file()
    with pytest.raises(StateError, match="is not a stream"):
        Stream.open(path)


def test_nothing_of_a_finished_step_stays_in_the_private_files(tmp_path):
    """The nonce and the sealed counts are gone from the database and its log."""
    path = tmp_path / "ward.tail"
    seen = []
    with Stream.create(path, histogram(), population="ward") as stream:
        seal = stream._seal

        def watched(*arguments):
            seen.append(seal(*arguments))
            return seen[-1]

        stream._seal = watched
        for step in range(1, 4):
            stream.push(day(step))
    files = b"".join(file.read_bytes() for file in (path / "private").rglob("*") if file.is_file())
    for intent in seen:
        assert intent.nonce.encode() not in files


def test_deletes_are_refused_where_the_guarantee_does_not_pay_for_them(tmp_path):
    stream = Stream(histogram(deletes=False))
    with pytest.raises(ConfigError, match="made without deletes"):
        stream.push(day(1), deletes=day(1))
    assert stream.push(day(1)).step == 1


def test_a_user_counts_at_most_as_often_as_declared():
    flood = pl.DataFrame({"id": [7] * 1000 + [8], "sex": ["f"] * 1001, "age": [0] * 1001})
    stream = Stream(
        HistogramStream(
            domain=WARD, privacy=PureDP(epsilon=1000), unit=User(column="id", events=2), horizon=3
        )
    )
    assert round(stream.push(flood).view.count().value) == 3
    assert round(stream.push(flood, deletes=flood).view.count().value) == 1, (
        "one more of 8, then 3 of theirs deleted"
    )
    assert round(stream.push(flood).view.count().value) == 1, "nobody has an insert left"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TwoRounds(HistogramStream):
    """Counts twice in a step: the second plan is public, and the batch is sealed until it is
    done.
    """

    @property
    def rounds(self):
        return 2

    def measure(self, state, counts, noise):
        step = HistogramStream.measure(self, state, counts, noise)
        first = int(step.state.public.step) % 2 == 1
        return Step(State(step.state.public, step.state.private), again=first)


def test_a_mechanism_may_count_again_in_the_same_step(tmp_path, monkeypatch):
    from tailrace.stream import directory

    monkeypatch.setattr(directory, "Named", lambda: {**Named(), "TwoRounds": TwoRounds})
    mechanism = TwoRounds(domain=WARD, privacy=PureDP(epsilon=1000), unit=Event(), horizon=9)
    with Stream.create(
        tmp_path / "w", mechanism, population="p", noise=Noise.insecure(1)
    ) as stream:
        release = stream.push(day(1))
        assert round(release.view.count().value) == 60, "30 rows, counted twice"
        monkeypatch.setattr(
            stream, "_finish", lambda intent: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            stream.push(day(2))
    with Stream.open(tmp_path / "w") as stream:
        assert stream.step == 2, "the sealed batch was enough to finish"
        assert round(stream.release(2).view.count().value) == 120


def test_a_mechanism_that_cannot_be_made_again_is_not_kept(tmp_path):
    with pytest.raises(ConfigError, match=r"TwoRounds cannot be kept.*'tailrace\.parts'"):
        Stream.create(
            tmp_path / "w",
            TwoRounds(domain=WARD, privacy=PureDP(epsilon=1), unit=Event(), horizon=9),
            population="p",
        )


def test_every_configuration_comes_back(tmp_path):
    from tailrace import counters

    for number, mechanism in enumerate(
        [
            histogram(counter=counters.Block(size=3)),
            histogram(counter=counters.Unbounded(counter=counters.KaryTree(levels=2), first=4)),
            HistogramStream(
                domain=WARD,
                privacy=ApproxDP(epsilon=1, delta=1e-6),
                unit=User(column="id", events=2),
                horizon=None,
                deletes=False,
            ),
        ]
    ):
        Stream.create(tmp_path / str(number), mechanism, population="p").close()
        with Stream.open(tmp_path / str(number)) as stream:
            assert stream.mechanism == mechanism


def test_a_second_push_after_an_interrupted_one_leaves_no_rows_of_the_first(tmp_path, monkeypatch):
    """Between an intent and its end an error closes the stream, so that two batches never mix."""
    with Stream.create(
        tmp_path / "w", histogram(), population="p", noise=Noise.insecure(1)
    ) as stream:
        monkeypatch.setattr(
            stream, "_finish", lambda intent: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            stream.push(day(1))
        with pytest.raises(StateError, match="open it again"):
            stream.push(day(2))
    with Stream.open(tmp_path / "w") as stream:
        assert stream.step == 1


def test_several_rounds_and_bounded_people_are_not_built_together_yet():
    with pytest.raises(ConfigError, match="several rounds"):
        Stream(
            TwoRounds(
                domain=WARD, privacy=PureDP(epsilon=1), unit=User(column="id", events=1), horizon=3
            )
        )


def test_a_fork_uses_the_ledger_of_the_first_stream_and_makes_no_new_one(tmp_path):
    book = tmp_path / "books.ledger"
    Ledger(book).cap("ward", PureDP(epsilon=1), Event())
    Stream.create(tmp_path / "a", histogram(), population="ward", ledger=book).close()
    with pytest.raises(BehindLedger, match="has no ledger"):
        Stream.fork(tmp_path / "a", tmp_path / "b")
    Ledger(tmp_path / "tailrace.ledger")
    with pytest.raises(BehindLedger, match="no entry of this stream"):
        Stream.fork(tmp_path / "a", tmp_path / "b")
    with pytest.raises(BudgetExceeded):
        Stream.fork(tmp_path / "a", tmp_path / "b", ledger=book)


def test_a_stream_without_a_step_can_be_forked(tmp_path):
    Stream.create(tmp_path / "a", histogram(), population="ward").close()
    with Stream.fork(tmp_path / "a", tmp_path / "b") as fork:
        assert fork.push(day(1)).step == 1


def test_pushes_from_several_threads_take_turns(tmp_path):
    with (
        Stream.create(tmp_path / "w", histogram(horizon=40), population="p") as kept,
        Stream(histogram(horizon=40)) as held,
    ):
        for stream in (kept, held):
            steps: list[int] = []
            work = lambda s=stream, to=steps: to.append(s.push(day(1)).step)  # noqa: E731
            threads = [threading.Thread(target=work) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sorted(steps) == list(range(1, 9))


def test_a_release_that_was_changed_in_place_is_noticed_before_it_is_used(tmp_path):
    """A published file is a second name of the one that the stream goes on from."""
    path = tmp_path / "w"
    with Stream.create(path, histogram(), population="p") as stream:
        stream.push(day(1))
    changed = path / "releases/added/000001.parquet"
    assert oct(changed.stat().st_mode)[-3:] == "444"
    changed.chmod(0o644)
    with changed.open("ab") as file:
        file.write(b"more")
    with Stream.open(path) as stream, pytest.raises(Corrupt, match="is damaged"):
        stream.push(day(2))
    with pytest.raises(Corrupt, match="is damaged"):
        verify_stream(path)


def test_an_older_ledger_is_named_as_what_it_is(tmp_path):
    with Stream.create(tmp_path / "w", histogram(), population="p") as stream:
        shutil.copy(tmp_path / "tailrace.ledger", tmp_path / "old")
        stream.push(day(1))
    os.replace(tmp_path / "old", tmp_path / "tailrace.ledger")
    with pytest.raises(BehindLedger, match="restore the newest ledger"):
        Stream.open(tmp_path / "w")


def test_erasing_first_delivers_what_was_not(tmp_path):
    stream = Stream.create(tmp_path / "w", histogram(), population="p")
    stream.push(day(1))
    shutil.rmtree(tmp_path / "w" / "releases")
    stream.close(erase=True)
    stream.close(erase=True)
    assert (tmp_path / "w/releases/log/000001.json").is_file()


def test_empty_pandas_frames_and_columns_without_one_value_are_content(tmp_path):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    with Stream(histogram(User(column="id", events=1))) as stream:
        for frame in (
            pd.DataFrame({"id": [], "sex": [], "age": []}),
            pd.DataFrame({"id": [1, 2], "sex": [np.nan, np.nan], "age": [1, 2]}),
            pd.DataFrame(
                {
                    "id": pd.to_datetime([None, None]),
                    "sex": ["f", "m"],
                    "age": pd.to_datetime([None, None]),
                }
            ),
        ):
            stream.push(frame)
        assert stream.step == 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: Stream(HistogramStream), "made of a mechanism"),
        (lambda p: Stream(histogram(), noise=np.random.default_rng()), "noise must be"),
        (lambda p: Stream.create(3, histogram(), population="p"), "path must be"),
        (lambda p: Stream.open("a\0b"), "path must be"),
        (lambda p: Stream.create(p / "w", histogram(), population="p", ledger=3), "ledger must be"),
        (lambda p: histogram(counter=3), "counter must be"),
    ],
)
def test_parts_of_the_wrong_type_are_refused_in_one_sentence(tmp_path, make, message):
    with pytest.raises(ConfigError, match=message):
        make(tmp_path)


def test_two_columns_of_one_name_are_refused():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame([["f", 1, 2]], columns=["sex", "age", "age"])
    with pytest.raises(DataError, match="two columns of the same name"):
        Stream(histogram()).push(frame)


def test_where_links_are_refused_releases_are_copies(tmp_path, monkeypatch):
    linked = os.link

    def refused(source, target, **options):
        if "releases" in str(target) or "files" in str(target):
            raise PermissionError
        linked(source, target, **options)

    monkeypatch.setattr(os, "link", refused)
    path = tmp_path / "w"
    with Stream.create(path, histogram(), population="p") as stream:
        table = rows(stream.push(day(1)).table)
    file = path / "releases/added/000001.parquet"
    assert file.stat().st_nlink == 1 and rows(public_table(path / "releases", 1)) == table
    Stream.open(path).close()
    assert verify_stream(path).steps == 1
    Stream.fork(path, tmp_path / "fork").close()
    assert verify_stream(tmp_path / "fork").steps == 1


@pytest.mark.parametrize("name", ["a[1]", "a*", "a?", "step=1"])
def test_the_name_of_a_folder_is_no_pattern(tmp_path, name):
    path = tmp_path / name / "w"
    path.parent.mkdir()
    with Stream.create(path, histogram(), population="p") as stream:
        table = rows(stream.push(day(1)).table)
    with Stream.open(path) as stream:
        stream.push(day(2))
        assert rows(stream.release(1).table) == table
    assert verify_stream(path).steps == 2 and rows(public_table(path / "releases", 1)) == table


@pytest.mark.parametrize("name", ["*", "^.*$", "row", "Row", "born", "DIED"])
def test_the_name_of_a_column_is_no_pattern(tmp_path, name):
    domain = Schema(**{name: Categorical(["f", "m"]), "other": Categorical(["x"])})
    made = dataclasses.replace(histogram(), domain=domain)
    frame = pl.DataFrame({name: ["f", "m"] * 9, "other": ["x"] * 18})
    with Stream.create(tmp_path / "w", made, population="p") as stream:
        table = stream.push(frame).table
    with Stream.open(tmp_path / "w") as stream:
        stream.push(frame)
        assert stream.release(1).table.equals(table)
    assert verify_stream(tmp_path / "w").steps == 2


def test_a_copy_in_place_of_a_link_is_whole_and_dated(tmp_path, monkeypatch):
    """Half of one would be a changed file, and its time would tell how long the step took."""

    def refused(*_, **options):
        raise PermissionError

    def stop(source, target, rename=os.rename):
        if str(target).endswith("000001.parquet"):
            raise KeyboardInterrupt
        rename(source, target)

    path, asked = tmp_path / "w", datetime(2020, 1, 1, tzinfo=UTC)
    Stream.create(path, histogram(), population="p").close()
    monkeypatch.setattr(os, "link", refused)
    with Stream.open(path) as stream, monkeypatch.context() as cut:
        cut.setattr(os, "rename", stop)
        with pytest.raises(KeyboardInterrupt):
            stream.push(day(1), asked=asked)
    assert not (path / "releases/added/000001.parquet").exists()
    Stream.open(path).close()
    for part in ("added", "removed", "log"):
        (file,) = (path / "releases" / part).iterdir()
        assert file.stat().st_mtime == asked.timestamp() == file.parent.stat().st_mtime
        assert oct(file.stat().st_mode)[-3:] == "444"


def test_the_latest_table_is_there_while_it_is_the_latest(tmp_path):
    path = tmp_path / "w"
    latest = path / "releases/latest.parquet"
    with Stream.create(path, histogram(), population="p") as stream:
        stream.push(day(1))
    with Stream.open(path, full="latest") as stream:
        assert latest.exists() and verify_public(path / "releases")
        stream.push(day(2))
    latest.unlink()
    Stream.open(path).close()
    assert latest.exists() and verify_public(path / "releases")
    Stream.open(path, full="checkpoints").close()
    assert not latest.exists()


def test_verify_tells_what_is_whole_and_publishes_what_is_missing(tmp_path):
    path = tmp_path / "w"
    with Stream.create(path, histogram(), population="p") as stream:
        for step in (1, 2, 3):
            stream.push(day(step))
    (path / "releases/added/000002.parquet").unlink()
    with pytest.raises(Corrupt, match=r"^releases/added/000002\.parquet is missing"):
        verify_public(path / "releases")
    done = CliRunner().invoke(app, ["verify", str(path)])
    assert done.exit_code == 0 and "All is as it was published: 3 steps" in done.output
    done = CliRunner().invoke(app, ["verify", str(path / "releases"), "--json"])
    assert json.loads(done.output)["entry"] == verify_public(path / "releases").entry
    done = CliRunner().invoke(app, ["verify", str(tmp_path / "nowhere")])
    assert done.exit_code != 0 and "Traceback" not in done.output
