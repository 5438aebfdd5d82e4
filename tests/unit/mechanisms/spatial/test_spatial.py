"""The adaptive spatial stream: its promises, its tree, its points and its answers."""

import dataclasses
import tarfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import shapely

from samples import LOSSES, UNITS, UNITS_AND_LOSSES, changing, growing, states
from tailrace import (
    ZCDP,
    ApproxDP,
    Box,
    Categorical,
    Event,
    Integer,
    Noise,
    Places,
    PureDP,
    Schema,
    Stream,
    User,
    Window,
)
from tailrace.checks import check_mechanism
from tailrace.checks.spy import Spy
from tailrace.domain.geometry import Region
from tailrace.errors import ConfigError
from tailrace.mechanisms.spatial import tree
from tailrace.mechanisms.spatial.public import AdaTree
from tailrace.mechanisms.spatial.stream import SpatialStream
from tailrace.mechanisms.spatial.tree import Found
from tailrace.storage.codec import pack
from tailrace.stream.state import no_rows

SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=64)
SMALL = Box(
    low=(0, 0), high=(1, 1), columns=("x", "y"), cells=8
)  # every cell is a leaf from the start
EXACT = AdaTree(churn=1e-6, unsure=0)  # every step ends an epoch, and nothing is taken to be empty


def batch(seed, count=200, low=0.0, high=1.0):
    rng = np.random.default_rng(seed)
    points = rng.uniform(low, high, (count, 2))
    return pl.DataFrame(
        {"x": points[:, 0] ** 2, "y": points[:, 1], "id": rng.integers(0, 50, count)}
    )


def stream(**changes):
    about = {"domain": SQUARE, "privacy": PureDP(epsilon=1), "unit": Event(), "horizon": 12}
    return SpatialStream(**{**about, **changes})


def truth(domain, *frames):
    """How many rows of the first frames, less those of the last, lie in each cell."""
    import narwhals as nw

    adds, deletes = frames
    sums = [
        np.bincount(domain.cells(nw.from_native(frame)), minlength=domain.size)
        for frame in (adds, deletes)
    ]
    return sums[0] - sums[1]


BATCHES = changing(batch, 2000)
ADDS = growing(BATCHES)


@UNITS_AND_LOSSES
@pytest.mark.parametrize(
    ("changes", "batches"),
    [
        ({}, BATCHES),
        ({"horizon": None}, BATCHES),
        ({"deletes": False}, ADDS),
        ({"retention": 2}, ADDS),
    ],
    ids=["horizon", "endless", "adds", "retention"],
)
def test_conformance(unit, privacy, changes, batches):
    check_mechanism(stream(unit=unit, privacy=privacy, **changes), batches)


@pytest.mark.parametrize("dimensions", [1, 3])
def test_conformance_in_other_dimensions(dimensions):
    names = tuple("xyz"[:dimensions])
    box = Box(low=(0,) * dimensions, high=(1,) * dimensions, columns=names, cells=16)
    frame = pl.DataFrame(
        {name: np.random.default_rng(i).random(300) for i, name in enumerate(names)}
    )
    check_mechanism(stream(domain=box), [(frame, None)] * 3)


def described(seed, count=200):
    """Rows with a kind that says where they are, and a level."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(["a", "b", "c", "?"], count, p=[0.6, 0.3, 0.05, 0.05])
    place = np.select([kind == "a", kind == "b"], [0.25, 0.75], 0.5)[:, None]
    points = np.clip(place + rng.normal(0, 0.1, (count, 2)), 0, 1)
    return pl.DataFrame(
        {
            "x": points[:, 0],
            "y": points[:, 1],
            "kind": kind,
            "level": rng.integers(1, 4, count),
            "id": rng.integers(0, 50, count),
        }
    )


KINDS = Schema(kind=Categorical(["a", "b", "c"]), level=Integer(1, 3))
CITY = Places(SQUARE, KINDS)
DESCRIBED = changing(described, 2000)


@UNITS_AND_LOSSES
@pytest.mark.parametrize(
    ("changes", "batches"),
    [({}, DESCRIBED), ({"retention": 2}, growing(DESCRIBED))],
    ids=["horizon", "retention"],
)
def test_conformance_with_attributes(unit, privacy, changes, batches):
    check_mechanism(stream(domain=CITY, unit=unit, privacy=privacy, **changes), batches)


def test_the_view_counts_by_attributes():
    frames = [(described(seed, 4000), None) for seed in range(4)]
    mechanism = stream(domain=CITY, privacy=PureDP(epsilon=20), horizon=4, deletes=False)
    view = mechanism.view(states(mechanism, frames)[-1].public)
    rows = pl.concat([frame for frame, _ in frames]).filter(pl.col("kind") != "?")
    for where, true in (
        ({}, pl.lit(True)),
        ({"kind": "a"}, pl.col("kind") == "a"),
        (
            {"kind": ["a", "c"], "level": (2, 3)},
            pl.col("kind").is_in(["a", "c"]) & (pl.col("level") > 1),
        ),
        (
            {"low": (0, 0), "high": (0.5, 1), "kind": "b"},
            (pl.col("x") <= 0.5) & (pl.col("kind") == "b"),
        ),
    ):
        found = view.count(**where)
        assert abs(found.value - rows.filter(true).height) < 5 * found.error + 40
        assert 0 < found.error < 200
    parts = [view.count(kind=kind, level=level) for kind in "abc" for level in (1, 2, 3)]
    assert sum(part.value for part in parts) == pytest.approx(view.counts[0])
    assert view.held.sum(axis=0) == pytest.approx([part.value for part in parts])
    everywhere = view.count(low=(0, 0), high=(1, 1), kind="a")
    assert everywhere.value == pytest.approx(view.count(kind="a").value)
    with pytest.raises(ConfigError, match="no attribute 'colour': it has kind, level"):
        view.count(colour="red")
    with pytest.raises(ConfigError, match="no such value"):
        view.count(kind="d")
    with pytest.raises(ConfigError, match="no attribute 'kind': it has none"):
        stream().view(states(stream(), BATCHES)[-1].public).count(kind="a")


def test_synthetic_points_carry_their_attributes():
    frames = [(described(seed, 3000), None) for seed in range(3)]
    mechanism = stream(domain=CITY, privacy=PureDP(epsilon=20), horizon=3, deletes=False)
    with Stream(mechanism, noise=Noise.insecure(1)) as running:
        table = [running.push(frame).table for frame, _ in frames][-1]
    assert table.columns == ["x", "y", "kind", "level"]
    assert set(table["kind"]) == set("abc") and set(table["level"]) == {1, 2, 3}
    middle = table.group_by("kind").agg(pl.col("x").mean()).sort("kind")["x"].to_list()
    assert middle[0] < 0.35 and middle[1] > 0.65


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: type(unit).__name__)
@pytest.mark.parametrize("privacy", LOSSES, ids=lambda privacy: type(privacy).__name__)
@pytest.mark.parametrize("changes", [{}, {"horizon": None}, {"deletes": False}, {"retention": 3}])
def test_the_guarantee_is_what_was_asked_for(unit, privacy, changes):
    guarantee = stream(unit=unit, privacy=privacy, **changes).guarantee
    if isinstance(privacy, ZCDP):
        assert privacy.rho * (1 - 1e-9) < guarantee.loss.as_zcdp().rho <= privacy.rho
    else:
        assert guarantee.loss.epsilon == privacy.epsilon


def test_the_loss_of_a_life():
    assert stream().guarantee.of_life() == PureDP(epsilon=2)
    assert stream(retention=5).guarantee.of_life() == PureDP(epsilon=1)
    assert stream(retention=5).guarantee.retention == 5
    assert stream(retention=5, unit=User(column="id", events=3)).guarantee.retention is None
    assert stream(privacy=ZCDP(rho=1)).guarantee.of_life() == ZCDP(rho=2)


def test_a_gaussian_is_used_where_it_is_quieter():
    assert isinstance(stream(privacy=ZCDP(rho=0.5)).atoms.privacy, ZCDP)
    assert isinstance(stream(privacy=ApproxDP(epsilon=1, delta=1e-9)).atoms.privacy, PureDP)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"retention": 3, "deletes": True}, "deletes must be False"),
        ({"begin": 13}, "beyond the horizon"),
        ({"unit": User(column="id")}, "bound on the events"),
        ({"unit": Window(steps=3, column="id", records=1)}, "bound on the events"),
        ({"structure": "AdaTree"}, "structure must be an AdaTree"),
        ({"privacy": 1.0}, "privacy must be"),
        ({"domain": Box(low=(0,), high=(1,), columns=("x",), cells=100)}, "power of two"),
        ({"privacy": PureDP(epsilon="1e-12")}, "sampler's range"),
    ],
)
def test_what_cannot_work_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        stream(**changes)


def test_without_noise_and_fully_divided_the_counts_are_exact():
    mechanism = stream(domain=SMALL, privacy=PureDP(epsilon=1000), structure=EXACT)
    adds, deletes = [], []
    silent = states(mechanism, [(b, d) for b, d in BATCHES], Spy(None))
    for state, (added, deleted) in zip(silent[1:], BATCHES, strict=True):
        adds += [added] if added is not None else []
        deletes += [deleted] if deleted is not None else []
        view, none = mechanism.view(state.public), batch(0, 0)
        expected = truth(SMALL, pl.concat(adds), pl.concat(deletes or [none]))
        places = view.leaves.index
        cells = np.empty(SMALL.size, np.int64)
        cells[places] = np.rint(view.leaves.count).astype(np.int64)
        by_cell = np.empty_like(cells)
        from tailrace.domain.geometry.partition import Partition

        by_cell[Partition(SMALL).cells] = cells
        assert np.array_equal(by_cell, expected)
        table = mechanism.sample(view, no_rows(mechanism), np.random.default_rng(0)).table
        assert np.array_equal(np.bincount(table.cells, minlength=SMALL.size), expected)


def test_without_noise_a_rectangle_of_whole_cells_is_exact():
    mechanism = stream(domain=SMALL, privacy=PureDP(epsilon=1000), structure=EXACT)
    rows = batch(0, 1000)
    view = mechanism.view(states(mechanism, [(rows, None)], Spy(None))[-1].public)
    inside = rows.filter((pl.col("x") < 0.25) & (pl.col("y") < 0.5))
    assert view.count(low=(0, 0), high=(0.25, 0.5)).value == pytest.approx(len(inside))
    assert view.count(low=(0, 0), high=(1, 1)).value == pytest.approx(1000)
    assert view.count(low=(-5, -5), high=(-1, -1)).value == 0
    with pytest.raises(ConfigError, match="a number for each of the columns x, y"):
        view.count(low=(0,), high=(1, 1))


def test_points_stay_where_the_view_allows_it():
    mechanism, rng = (
        stream(horizon=20, domain=Box(low=(0, 0), high=(1, 1), columns=("x", "y"))),
        np.random.default_rng(0),
    )
    found = states(mechanism, [(batch(i, 3000), None) for i in range(8)])
    table = no_rows(mechanism)
    for state in found[1:]:
        view = mechanism.view(state.public)
        first = mechanism.sample(view, table, rng)
        again = mechanism.sample(view, first.table, rng)
        assert not len(again.removed) and len(again.table) == len(first.table)
        table = first.table
    smaller = dataclasses.replace(view, counts=view.counts * 0.99)
    fewer = mechanism.sample(smaller, table, rng)
    gone, new = len(fewer.removed), fewer.table.born - table.born
    assert gone - new == len(table.cells) - round(0.99 * view.counts[0])
    assert new < 0.005 * len(table.cells)


def test_an_empty_stream_stays_small():
    mechanism = stream(horizon=365)
    found = states(mechanism, [(None, None)] * 365)
    assert int(found[-1].public.epoch) <= 16  # 8 by schedule, and few by chance
    assert len(found[-1].public.tree.inner) < 600
    assert mechanism.view(found[-1].public).counts[0] < 300


def test_the_state_does_not_grow_with_the_past():
    mechanism, sizes = stream(horizon=400), []
    rows = [batch(i, 300, low=(i % 40) / 50, high=(i % 40) / 50 + 0.2) for i in range(400)]
    moving = [(rows[i], rows[i - 20] if i >= 20 else None) for i in range(400)]
    for state in states(mechanism, moving)[100::100]:
        sizes.append(len(pack(state)))
    assert max(sizes) < 1.5 * sizes[0]


def test_all_is_measured_at_the_horizon():
    last = states(stream(horizon=6), BATCHES)[-1]
    assert int(last.public.closed) == 6
    assert not len(last.private.places)


@pytest.mark.parametrize("retention", [None, 3])
def test_nothing_is_released_before_the_beginning(retention):
    mechanism, spy = stream(begin=4, retention=retention, horizon=8), Spy(Noise.insecure(1))
    found = states(mechanism, ADDS, spy)
    assert all(mechanism.view(state.public) is None for state in found[:4])
    assert mechanism.view(found[4].public) is not None
    drawn = {drawn.path[1] for drawn in spy.record}
    assert drawn == set(range(4 if retention is None else 1, 7))


def test_what_came_before_the_beginning_is_counted():
    mechanism = stream(
        begin=3, horizon=8, domain=SMALL, privacy=PureDP(epsilon=1000), structure=EXACT
    )
    view = mechanism.view(states(mechanism, BATCHES[:3], Spy(None))[-1].public)
    assert view.counts[0] == pytest.approx(600 - 60)


def test_points_leave_after_their_retention():
    mechanism = stream(horizon=40, retention=6, privacy=PureDP(epsilon=100))
    found = states(mechanism, [(batch(i, 500), None) for i in range(10)] + [(None, None)] * 10)
    sizes = [mechanism.view(state.public).counts[0] for state in found[1:]]
    assert sizes[9] == pytest.approx(3000, rel=0.05)
    assert sizes[12] == pytest.approx(1500, rel=0.1)
    assert sizes[15] < 300, "half of an epoch that has half expired"
    assert sizes[16] < 50
    assert found[-1].public.tree.counts.shape[0] <= 8


def test_the_tree_follows_the_points():
    mechanism = stream(horizon=40, privacy=PureDP(epsilon=2))
    left, right = batch(1, 2000, high=0.3), batch(2, 2000, low=0.7)
    found = states(mechanism, [(left, None)] * 5 + [(right, left)] * 5 + [(None, None)] * 10)
    view = mechanism.view(found[-1].public)
    assert view.count(low=(0, 0), high=(0.3, 0.4)).value < 300
    assert view.count(low=(0.45, 0.65), high=(1, 1)).value > 9000
    busiest = view.leaves.count.argmax()
    assert view.leaves.low[busiest][1] > 0.6


def test_cells_that_miss_the_geometry_are_public_zeros():
    triangle = Region(shapely.Polygon([(0, 0), (1, 0), (0, 1)]), columns=("x", "y"), cells=16)
    mechanism = stream(domain=triangle)
    plan = mechanism.plan(mechanism.init().public)
    assert (plan.groups < 0).sum() == 120  # cells above the diagonal
    assert len(Found.nothing(mechanism._epochs.standing(mechanism.init().public)).leaves) < 64
    check_mechanism(mechanism, BATCHES)
    view = mechanism.view(states(mechanism, BATCHES)[-1].public)
    table = mechanism.sample(view, no_rows(mechanism), np.random.default_rng(0)).table
    assert len(table.cells) > 100
    assert (table.columns["x"] + table.columns["y"] <= 1 + 1e-9).all()


def test_the_view_adds_up_and_has_errors():
    mechanism = stream()
    view = mechanism.view(states(mechanism, BATCHES)[-1].public)
    leaves = view.leaves
    assert leaves.count.sum() == pytest.approx(view.counts[0])
    assert (leaves.count >= 0).all() and (leaves.error > 0).all()
    assert ((leaves.high - leaves.low).prod(axis=1).sum()) == pytest.approx(1)
    nodes = np.flatnonzero(view.inner)
    assert np.allclose(view.counts[nodes], view.counts[nodes + 1] + view.counts[view.second[nodes]])
    assert view.count(low=(0.1, 0.1), high=(0.5, 0.7)).error > 0


@pytest.mark.parametrize(
    "changes", [{"clock": 1}, {"churn": 0}, {"split": -1}, {"parts": 0}, {"far": float("nan")}]
)
def test_constants_that_make_no_sense_are_refused(changes):
    with pytest.raises(ConfigError):
        AdaTree(**changes)


# streams of before shares, rounds and places


KEPT = Path(__file__).parents[3] / "security" / "kept_places.tar.gz"


@pytest.mark.parametrize(
    ("name", "steps"), [("places", 8), ("kept", 8), ("waiting", 8), ("adding", 8)]
)
def test_a_stream_of_the_last_version_goes_on(tmp_path, name, steps):
    """Each was cut off in its sixth step, or had added rows to it: see make_kept_places.py."""
    with tarfile.open(KEPT) as archive:
        archive.extractall(tmp_path, filter="tar")
    path = tmp_path / f"{name}.tail"
    with Stream.open(path) as stream:
        assert stream.step == (5 if name == "adding" else 6)
        if name == "adding":
            stream.add(batch(6, 1))
            stream.publish()
        while stream.step < steps:
            stream.push(batch(stream.step, 600))
        view, table = stream.release(steps).view, stream.release(steps).table
    present = 600 * (4 if name == "kept" else steps)
    assert view.counts[0] == pytest.approx(present, rel=0.1)
    # Six steps of a beta(2, 8) and two of a square: what the former counts said is kept.
    left = 1 - 0.8**9 - 9 * 0.2 * 0.8**8
    if name != "kept":
        expected = 3600 * left + 1200 * 0.2**0.5
        assert view.count(low=(0, 0), high=(0.2, 1)).value == pytest.approx(expected, rel=0.2)
    assert len(table) == round(view.counts[0])
    with Stream.open(path) as stream:
        for step in range(1, steps + 1):
            before = stream.release(step).view
            assert (before is None) == (name == "waiting" and step < 8)


# large batches, quiet steps


def clusters(seed, many):
    """Points in twenty small clusters."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).uniform(0.1, 0.9, (20, 2))
    points = centres[rng.integers(0, 20, many)] + rng.normal(0, 0.01, (many, 2))
    return pl.DataFrame({"x": points[:, 0], "y": points[:, 1]})


def off(view, rows):
    """The mean error of counts of small squares on the clusters."""
    errors = []
    for x, y in np.random.default_rng(0).uniform(0.1, 0.9, (20, 2)):
        low, high = (x - 0.02, y - 0.02), (x + 0.02, y + 0.02)
        inside = pl.col("x").is_between(low[0], high[0]) & pl.col("y").is_between(low[1], high[1])
        errors.append(abs(view.count(low=low, high=high).value - len(rows.filter(inside))))
    return np.mean(errors)


@pytest.mark.parametrize("begin", [1, 4])
def test_a_large_first_batch_is_counted_as_finely_as_its_steps(begin):
    parts, found = [clusters(seed, 1500) for seed in range(4)], []
    whole = pl.concat(parts)
    together = [(whole, None)] if begin == 1 else [(rows, None) for rows in parts]
    square = Box(low=(0, 0), high=(1, 1), columns=("x", "y"))
    for batches, first in ((together, begin), ([(rows, None) for rows in parts], 1)):
        mechanism = stream(begin=first, horizon=4, domain=square)
        seeds = (states(mechanism, batches, Noise.insecure(seed))[-1] for seed in range(3))
        found.append(np.mean([off(mechanism.view(state.public), whole) for state in seeds]))
    assert found[0] < 1.1 * found[1]


def test_several_rounds_are_drawn_in_turn_and_only_where_there_is_much():
    spy = Spy(Noise.insecure(1))
    states(stream(), [(clusters(0, 9000), None), (clusters(1, 100), None)], spy)
    drawn = [one.path[2:] for one in spy.record if "leaves" in one.path]
    assert drawn == [("leaves", 1), ("leaves", 2), ("leaves", 3)]


def test_quiet_places_stay_quiet():
    mechanism, rng = stream(horizon=80, privacy=PureDP(epsilon=2)), np.random.default_rng(0)
    table, moved = no_rows(mechanism), []
    for seed in range(3):
        noise = Noise.insecure(seed)
        events = [(clusters(step, 400), None) for step in range(20)] + [(None, None)] * 60
        for step, state in enumerate(states(mechanism, events, noise)[1:], 1):
            sample = mechanism.sample(mechanism.view(state.public), table, rng)
            changed = 2 * len(sample.removed) + len(sample.table) - len(table)
            # The epoch that is open at step 20 has events of its own.
            if step > 40:
                moved.append(changed / len(table))
            table = sample.table
        table = no_rows(mechanism)
    assert np.mean(np.array(moved) == 0) >= 0.9
    assert np.mean(moved) <= 0.002


def test_an_empty_half_shrinks_to_nothing_and_the_rest_adds_up():
    from tailrace.mechanisms.spatial import filtering

    share, spread = np.array([0.02, 0.5, 0.5]), np.array([0.0004, 0.01, 0.0])
    held = share, spread, np.zeros(3)
    parents, second, halves = np.array([0, 1, 4]), np.array([4, 3, 6]), np.full(3, 0.5)
    counts = filtering.shown(100.0, 0.0, 90.0, 5.0, held, parents, second, halves, 7, 2.0, 4.0)
    assert counts.tolist() == [100, 0, 0, 0, 100, 50, 50]


def test_leaves_deeper_than_events_are_told_apart_are_joined(monkeypatch):
    monkeypatch.setattr(tree, "FINEST", 20)
    fine = Box(low=(0, 0), high=(1, 1), columns=("x", "y"))
    spot = pl.DataFrame({"x": [0.301] * 4000, "y": [0.702] * 4000})
    mechanism = stream(domain=fine, horizon=4)
    before = states(mechanism, [(spot, None)] * 2)[-1].public
    assert (depths := mechanism.view(before).leaves.depth).max() == 20
    monkeypatch.setattr(tree, "FINEST", 12)
    made = Found.nothing(stream(domain=fine, horizon=4)._epochs.standing(before))
    assert made.standing.layout.depth[made.leaves].max() == 12
    sizes = 0.5 ** made.standing.layout.depth[made.leaves]
    assert sizes.sum() == pytest.approx((0.5**depths).sum()) == pytest.approx(1)
