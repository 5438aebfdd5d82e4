"""From a source through a stream to its sinks: what is delivered, in which order, and again after a
failure.
"""

import polars as pl
import pytest

from tailrace import (
    Categorical,
    DataError,
    Event,
    HistogramStream,
    Ledger,
    Noise,
    PureDP,
    Schema,
    SinkError,
    StateError,
    Stream,
)
from tailrace.pipeline import run
from tailrace.sinks import Memory
from tailrace.sources import Batch, Frames
from tailrace.storage import durable

WARD = Schema(sex=Categorical(["f", "m"]))
DAYS = [pl.DataFrame({"sex": ["f"] * 30 * step}) for step in range(1, 5)]


def mechanism(horizon: int | None = 4, deletes=False):
    return HistogramStream(
        domain=WARD, privacy=PureDP(epsilon=8), unit=Event(), horizon=horizon, deletes=deletes
    )


@pytest.fixture
def kept(tmp_path):
    """The stream kept in a folder, made at first and opened after that, as every new process
    does.
    """

    def kept(**options):
        if (tmp_path / "ward.tail").exists():
            return Stream.open(tmp_path / "ward.tail")
        noise = Noise.insecure(5)
        return Stream.create(
            tmp_path / "ward.tail", mechanism(**options), population="ward", noise=noise
        )

    return kept


def steps(releases):
    return [release.step for release in releases]


class Failing(Memory):
    """A sink that refuses one step."""

    def __init__(self, step):
        super().__init__()
        self.step, self.asked = step, []

    def put(self, release):
        self.asked.append(release.step)
        if release.step == self.step:
            raise StateError("The sink is full.")
        super().put(release)


def test_every_step_goes_to_every_sink(kept):
    one, two = Memory(), Memory()
    with kept() as stream:
        assert steps(run(stream, Frames(DAYS[:3]), [one, two])) == [1, 2, 3]
    assert one.holds() == two.holds() == {1, 2, 3}


def test_sinks_get_what_they_lack_after_a_failure(kept):
    good, bad = Memory(), Failing(2)
    with kept() as stream, pytest.raises(SinkError, match=r"1 of 2 sinks .* The sink is full"):
        list(run(stream, Frames(DAYS[:3]), [bad, good]))
    assert (good.holds(), bad.holds()) == ({1, 2, 3}, {1}), "the others go on"
    bad.step, new = 0, Memory()
    with kept() as stream:
        assert stream.step == 3, "a step is in the stream before it is in a sink"
        stored = stream.release(2).table
        assert steps(run(stream, Frames(DAYS), [good, bad, new])) == [4]
        assert stream.release(2).table.equals(stored)
    assert good.holds() == bad.holds() == new.holds() == {1, 2, 3, 4}
    assert bad.asked == [1, 2, 2, 3, 4], "a sink that failed is not asked again in that run"


def test_a_sink_that_breaks_in_any_way_stops_nothing_and_shows_no_value(kept):
    class Broken(Memory):
        def holds(self):
            raise TypeError("row 7: secret")

    good = Memory()
    with kept() as stream, pytest.raises(SinkError) as caught:
        list(run(stream, Frames(DAYS[:2]), [Broken(), good]))
    assert good.holds() == {1, 2}
    assert "It broke off (TypeError)." in str(caught.value) and "secret" not in str(caught.value)


def test_sinks_are_brought_up_to_date_even_when_nothing_is_ready(kept):
    with kept() as stream:
        list(run(stream, Frames(DAYS[:2])))
    late = Memory()
    with kept() as stream:
        assert steps(run(stream, Frames(DAYS[:2]), [late])) == []
    assert late.holds() == {1, 2}


def test_the_horizon_ends_a_run_and_the_source_is_not_asked_beyond_it(kept):
    asked = []

    class Endless:
        over = False

        def ready(self, step):
            asked.append(step)
            return True

        def batch(self, step):
            return Batch()

    with kept(horizon=3) as stream:
        assert steps(run(stream, Endless())) == [1, 2, 3]
        assert steps(run(stream, Endless())) == []
    assert asked == [1, 2, 3]


def test_a_stream_without_end_goes_on_while_the_source_is_ready():
    stream = Stream(mechanism(horizon=None))
    assert steps(run(stream, Frames([None] * 6))) == [1, 2, 3, 4, 5, 6]


def test_frames_of_released_steps_are_passed_over_without_a_look(kept):
    with kept() as stream:
        first = [release.table for release in run(stream, Frames(DAYS[:2]))]
    with kept() as stream:
        assert steps(run(stream, Frames([object(), "no frame at all", *DAYS[2:]]))) == [3, 4]
        assert [stream.release(step).table.rows() for step in (1, 2)] == [
            frame.rows() for frame in first
        ]


def test_a_run_that_is_killed_at_any_point_goes_on_with_the_same_counts(
    kept, tmp_path, monkeypatch
):
    """Every step is counted once: with this little noise the releases tell."""
    with kept() as stream:
        list(run(stream, Frames(DAYS[:1])))

    points = []
    monkeypatch.setattr(durable, "hook", points.append)
    with kept() as stream:
        list(run(stream, Frames(DAYS[:2])))
    wanted = list(dict.fromkeys(points))
    Ledger(tmp_path / "other.ledger")  # on purpose, beside the first
    for point in wanted:

        def kill(name, point=point):
            if name == point:
                raise KeyboardInterrupt

        place = tmp_path / point.replace(" ", "-").replace(",", "").replace("'", "")
        stream = Stream.create(
            place,
            mechanism(),
            population=point,
            ledger=tmp_path / "other.ledger",
            noise=Noise.insecure(7),
        )
        try:
            list(run(stream, Frames(DAYS[:1])))
            monkeypatch.setattr(durable, "hook", kill)
            with pytest.raises(KeyboardInterrupt):
                list(run(stream, Frames(DAYS[:2])))
        finally:
            monkeypatch.setattr(durable, "hook", None)
            stream.close()
        with Stream.open(place, ledger=tmp_path / "other.ledger") as stream:
            list(run(stream, Frames(DAYS)))
            sizes = [len(stream.release(step).table) for step in range(1, 5)]
        assert all(
            abs(size - total) < 30 for size, total in zip(sizes, [30, 90, 180, 300], strict=True)
        ), point
    assert len(wanted) > 5


def test_a_batch_of_the_wrong_shape_stops_the_run_and_the_step_can_be_pushed_later(kept):
    with kept() as stream:
        running = run(stream, Frames([DAYS[0], pl.DataFrame({"age": [1]})]))
        assert next(running).step == 1
        with pytest.raises(DataError, match="'sex'"):
            next(running)
        assert steps(run(stream, Frames(DAYS[:2]))) == [2]


def test_frames_may_be_pairs_batches_or_none():
    stream = Stream(mechanism(deletes=True), noise=Noise.insecure(1))
    gone = pl.DataFrame({"sex": ["f"] * 25})
    source = Frames([DAYS[0], (None, gone), Batch(DAYS[0], None), None])
    sizes = [len(release.table) for release in run(stream, source)]
    assert all(abs(size - total) < 20 for size, total in zip(sizes, [30, 5, 35, 35], strict=True))
    assert not source.ready(5) and source.over


def test_frames_come_once_and_in_order():
    source = Frames(iter(DAYS))
    assert source.batch(2).adds is DAYS[1]
    assert source.batch(2).adds is DAYS[1], "a step may be asked for again"
    with pytest.raises(
        StateError,
        match=r"^The frame of step 1 is not to be had: frames come once, in their order.$",
    ):
        source.batch(1)
    with pytest.raises(StateError):
        source.batch(9)
    assert source.over
