"""The corrected PrivStream: against the plain algorithm on a full tree, and what it promises of
itself.
"""

import dataclasses
import functools
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from samples import UNITS_AND_LOSSES
from tailrace import ZCDP, Box, Event, Noise, PureDP, Stream, User, counters, papers
from tailrace.checks import check_mechanism
from tailrace.checks.spy import Spy
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Table
from tailrace.papers.privtree import stream as privtree
from tailrace.papers.privtree.splits import GRID, PrivTree, SplitCoin, kappa
from tailrace.papers.privtree.stream import PrivTreeStream

LINE = Box(low=(0,), high=(1,), columns=("x",), cells=32)
SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=8)
CUBE = Box(low=(0, 0, 0), high=(1, 1, 1), columns=("x", "y", "z"), cells=4)
PURE = PureDP(epsilon=4)


def points(rng, domain, number):
    """Some in a corner, some anywhere, some outside."""
    values = rng.random((number, len(domain.columns))) * 1.1
    values[: number // 2] *= 0.2
    return pl.DataFrame({name: values[:, i] for i, name in enumerate(domain.columns)})


def stream_of(domain, steps=6, seed=0):
    rng = np.random.default_rng(seed)
    return [
        (
            points(rng, domain, int(rng.integers(0, 60))),
            points(rng, domain, int(rng.integers(0, 20))),
        )
        for _ in range(steps)
    ]


def run(mechanism, batches, noise):
    states = [mechanism.init()]
    for t, batch in enumerate(batches):
        counts = mechanism.plan(states[-1].public).counts(*batch)
        states.append(mechanism.measure(states[-1], counts, noise.at(t)).state)
    return states


class Plain:
    """PrivStream with the corrections, as it is written: every node of the full tree, and the
    consistent extension in full.
    """

    def __init__(self, mechanism):
        self.m, structure = mechanism, mechanism.structure
        self.each = structure.fan_out.bit_length() - 1
        depth = mechanism.partition.depth
        self.deepest = min(depth // self.each, structure.max_depth or depth)
        self.sizes = [structure.fan_out**k for k in range(self.deepest + 1)]
        self.released = [np.zeros(size) for size in self.sizes]  # G
        self.counters = mechanism.counting.init(sum(self.sizes))
        self.estimates = np.zeros(sum(self.sizes))
        self.ever = []

    def extension(self, leaf_values):
        """Ext_T: values go up to all ancestors, and down evenly."""
        out = [np.zeros(size) for size in self.sizes]
        for (k, i), value in leaf_values.items():
            for up in range(k + 1):
                out[up][i // self.m.structure.fan_out ** (k - up)] += value
            for down in range(k + 1, self.deepest + 1):
                many = self.m.structure.fan_out ** (down - k)
                out[down][i * many : (i + 1) * many] += value / many
        return out

    def nonnegative(self):
        counts = [np.maximum(self.released[0], 0)]
        for level in self.released[1:]:
            positive = np.maximum(level, 0).reshape(-1, self.m.structure.fan_out)
            total = positive.sum(axis=1, keepdims=True)
            share = np.where(
                total > 0, positive / np.where(total > 0, total, 1), 1 / self.m.structure.fan_out
            )
            counts.append((share * counts[-1][:, None]).reshape(-1))
        return counts

    def step(self, counts, noise):
        """`counts` at the finest cells, in the order of places."""
        adds, net = (
            [part.reshape(size, -1).sum(axis=1) for size in self.sizes]
            for part in (counts.adds, counts.net)
        )
        public, coin = self.nonnegative(), self.m.splitting
        tree, level = [], [0]
        for k in range(self.deepest + 1):
            if k == self.deepest or not level:
                tree += [(k, i) for i in level]
                break
            y = np.array(
                [
                    int(np.floor(public[k][i] * GRID)) + int(adds[k][i]) * GRID - k * coin.penalty
                    for i in level
                ]
            )
            theta = coin.threshold * GRID
            splits = noise.at("split", k).coin(
                np.maximum(y, theta - coin.penalty) - theta, coin.scale * GRID
            )
            tree += [(k, i) for i, split in zip(level, splits, strict=True) if not split]
            fan_out = self.m.structure.fan_out
            level = [
                i * fan_out + j
                for i, split in zip(level, splits, strict=True)
                if split
                for j in range(fan_out)
            ]
        leaves = sorted(
            tree, key=lambda node: node[1] * self.m.structure.fan_out ** (self.deepest - node[0])
        )
        rows = np.array([sum(self.sizes[:k]) + i for k, i in leaves])
        inputs = np.array([net[k][i] for k, i in leaves])
        before = self.estimates[rows]
        self.counters, estimates = self.m.counting.step(
            self.counters, inputs, noise.at("leaves"), rows=rows
        )
        self.estimates[rows] = estimates
        change = self.extension(dict(zip(leaves, estimates - before, strict=True)))
        self.released = [old + new for old, new in zip(self.released, change, strict=True)]
        return leaves, np.array([self.released[k][i] for k, i in leaves])


CASES = {
    "line": {"domain": LINE},
    "square, halved": {"domain": SQUARE},
    "square, quartered": {"domain": SQUARE, "structure": PrivTree(fan_out=4)},
    "cube, eight children": {"domain": CUBE, "structure": PrivTree(fan_out=8)},
    "shallow": {"domain": SQUARE, "structure": PrivTree(max_depth=3, threshold=5)},
    "shallow quarters": {
        "domain": SQUARE,
        "structure": PrivTree(max_depth=2, share="1/4", fan_out=4),
    },
    "blocks": {"domain": SQUARE, "counter": counters.Block(size=2)},
    "tree counters": {"domain": SQUARE, "counter": counters.BinaryTree()},
    "users": {"domain": SQUARE, "unit": User(column="id", events=2)},
    "rho": {"domain": SQUARE, "privacy": ZCDP(rho=2), "counter": counters.Simple()},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_plain_algorithm(case, seed):
    """The same noise on the same paths gives the same trees and the same counts, to the last
    bit.
    """
    mechanism = PrivTreeStream(**{"privacy": PURE, "unit": Event(), "horizon": 6, **CASES[case]})
    plain, state, noises = (
        Plain(mechanism),
        mechanism.init(),
        (Noise.insecure(seed), Noise.insecure(seed)),
    )
    sizes = set()
    for t, batch in enumerate(stream_of(mechanism.domain, seed=seed)):
        counts = mechanism.plan(state.public).counts(*batch)
        leaves, expected = plain.step(counts, noises[0].at(t))
        state = mechanism.measure(state, counts, noises[1].at(t)).state
        view = mechanism.view(state.public)
        each = mechanism.structure.fan_out.bit_length() - 1
        assert [
            (d // each, i) for d, i in zip(view.leaves.depth, view.leaves.index, strict=True)
        ] == leaves
        assert np.array_equal(view.leaves.count, expected)
        sizes.add(len(leaves))
    assert len(sizes) > 1, "the tree changes, or nothing was compared"


def test_the_first_batch_is_all_that_came_until_then():
    """Waiting until step 3 gives what a stream gives that gets everything at once, and nothing is
    drawn before.
    """
    batches, spy = stream_of(SQUARE), Spy(Noise.insecure(0))
    waiting = PrivTreeStream(domain=SQUARE, privacy=PURE, unit=Event(), horizon=6, begin=3)
    states = run(waiting, batches[:2], spy)
    assert not spy.record and waiting.view(states[-1].public) is None
    late = waiting.measure(
        states[-1], waiting.plan(states[-1].public).counts(*batches[2]), Noise.insecure(1).at(0)
    ).state
    at_once = PrivTreeStream(domain=SQUARE, privacy=PURE, unit=Event(), horizon=4)
    together = tuple(pl.concat([batch[part] for batch in batches[:3]]) for part in (0, 1))
    early = run(at_once, [together], Noise.insecure(1))[-1]
    assert waiting.counting == at_once.counting
    assert np.array_equal(
        waiting.view(late.public).leaves.count, at_once.view(early.public).leaves.count
    )
    assert not len(late.private.places), "what was held back is forgotten"
    assert (
        waiting.sample(
            None,
            Table.of(np.array([3]), {"x": np.ones(1), "y": np.ones(1)}),
            np.random.default_rng(),
        ).table.cells.size
        == 0
    )


@UNITS_AND_LOSSES
def test_conformance(privacy, unit):
    batches = [
        tuple(rows.with_columns(id=pl.int_range(pl.len()) % 7) for rows in batch)
        for batch in stream_of(SQUARE)
    ]
    check_mechanism(PrivTreeStream(domain=SQUARE, privacy=privacy, unit=unit, horizon=12), batches)
    check_mechanism(
        papers.privstream(domain=SQUARE, privacy=privacy, unit=unit, horizon=None, deletes=False),
        batches,
    )


def test_the_guarantee_is_the_sum_of_what_draws():
    made = functools.partial(papers.privstream, domain=SQUARE, privacy=PureDP(epsilon=1), horizon=9)
    event = made(unit=Event(), share="1/4")
    assert event.splitting.loss(1) == PureDP(epsilon="1/4") and event.counting.privacy == PureDP(
        epsilon="3/4"
    )
    assert event.guarantee.loss == PureDP(epsilon=1)
    assert event.guarantee.of_life() == PureDP(epsilon="7/4"), (
        "an insertion costs both, its deletion the counter's part"
    )
    user = made(unit=User(column="id", events=3))
    assert user.splitting.scale == 3 * kappa(2) / Fraction(1, 2), "three insertions"
    assert user.counting.privacy == PureDP(epsilon=Fraction(1, 12)), (
        "three insertions and three deletions"
    )
    assert made(unit=User(column="id", events=3), deletes=False).counting.privacy == PureDP(
        epsilon=Fraction(1, 6)
    )
    rho = made(unit=User(column="id", events=3), privacy=ZCDP(rho="0.1"))
    assert float(rho.guarantee.loss.rho) == pytest.approx(
        0.1
    ) and rho.guarantee.loss.rho <= Fraction(1, 10)
    assert float(rho.splitting.scale) == pytest.approx(3 * (2.60669515 + 1) / np.sqrt(8 * 0.05))


def test_constants_are_rational_and_on_the_safe_side():
    for fan_out in (2, 4, 8, 16):
        exactly = 2 + sum(1 / (2 * fan_out**j - 1) for j in range(1, 200))
        assert 0 <= float(kappa(fan_out)) - exactly < 2e-9
        coin = SplitCoin(fan_out, 0, PureDP(epsilon="0.3"), 1)
        penalty = Fraction(coin.penalty, GRID)
        assert 0 <= float(penalty) - float(coin.scale) * np.log(fan_out) <= 1 / GRID


@pytest.mark.slow
def test_counts_of_rectangles_have_the_spread_that_is_stated():
    """300 streams over the same data: estimates are unbiased, and their spread is the standard
    error's.
    """
    batches = stream_of(SQUARE, steps=4)
    mechanism = PrivTreeStream(domain=SQUARE, privacy=PureDP(epsilon=1), unit=Event(), horizon=4)
    truth = sum(
        mechanism.plan(mechanism.init().public).counts(*batch).net for batch in batches
    ).sum()
    scores, whole = [], []
    for seed in range(300):
        view = mechanism.view(run(mechanism, batches, Noise.insecure(seed))[-1].public)
        everything = view.count(low=(0, 0), high=(1, 1))
        scores.append((everything.value - truth) / everything.error)
        whole.append(everything.value - view.leaves.count.sum())
        part = view.count(low=tuple(view.leaves.low[0]), high=tuple(view.leaves.high[0]))
        assert part.value == pytest.approx(view.leaves.count[0]) and part.error == pytest.approx(
            view.leaves.error[0]
        )
    assert abs(np.mean(scores)) < 0.2 and np.std(scores) == pytest.approx(1, abs=0.15)
    assert np.allclose(whole, 0)
    assert view.count(low=(-2, 0.5), high=(2, 0.5)).value == 0
    with pytest.raises(ConfigError, match="low not above high"):
        view.count(low=(1, 0), high=(0, 1))


def test_points_lie_in_their_leaves_and_stay():
    batches = stream_of(SQUARE)
    for rounding in ("up", "unbiased"):
        mechanism = PrivTreeStream(
            domain=SQUARE, privacy=PURE, unit=Event(), horizon=6, rounding=rounding
        )
        rng, table = (
            np.random.default_rng(0),
            Table.of(np.zeros(0, np.int64), {"x": np.zeros(0), "y": np.zeros(0)}),
        )
        for state in run(mechanism, batches, Noise.insecure(0))[1:]:
            view = mechanism.view(state.public)
            sample = mechanism.sample(view, table, rng)
            before = np.stack([table.columns[name] for name in ("x", "y")], axis=1)
            table = sample.table
            found = np.stack([table.columns["x"], table.columns["y"]], axis=1)
            inside = (found[:, None] >= view.leaves.low) & (found[:, None] < view.leaves.high)
            assert np.array_equal(inside.all(axis=2).sum(axis=0), view.points)
            held = (
                ((before[:, None] >= view.leaves.low) & (before[:, None] < view.leaves.high))
                .all(axis=2)
                .sum(axis=0)
            )
            assert len(before) - len(sample.removed) == np.minimum(held, view.points).sum(), (
                "no more rows change than must"
            )
            if rounding == "up":
                assert np.array_equal(view.points, np.ceil(np.maximum(view.leaves.count, 0)))
            else:
                total = max(view.leaves.count.sum(), 0)
                assert abs(view.points.sum() - total) < 1
                ends = np.cumsum(view.points) - np.cumsum(state.public.nonnegative)
                assert np.abs(ends).max() < 1 and (state.public.nonnegative >= 0).all()


def test_cells_that_miss_the_geometry_get_neither_counts_nor_points(monkeypatch):
    """An L: the quarter of large x and y is no place."""
    x, y = np.unravel_index(np.arange(SQUARE.size), SQUARE.shape)
    weights = np.where((x >= 4) & (y >= 4), 0.0, 1.0 + x)
    monkeypatch.setattr(privtree, "weights_of", lambda domain: weights)
    for structure in (PrivTree(), PrivTree(fan_out=4), PrivTree(max_depth=3)):
        mechanism = PrivTreeStream(
            domain=SQUARE, privacy=PURE, unit=Event(), horizon=6, structure=structure
        )
        corner = pl.DataFrame({"x": [0.9] * 50, "y": [0.9] * 50})
        assert not mechanism.plan(mechanism.init().public).count(corner).any()
        for state in run(mechanism, [*stream_of(SQUARE), (corner, None)][1:], Noise.insecure(0))[
            1:
        ]:
            view = mechanism.view(state.public)
            assert not ((view.leaves.low[:, 0] >= 0.5) & (view.leaves.low[:, 1] >= 0.5)).any()
            sample = mechanism.sample(
                view,
                Table.of(np.zeros(0, np.int64), {"x": np.zeros(0), "y": np.zeros(0)}),
                np.random.default_rng(0),
            )
            assert (weights[sample.table.cells] > 0).all()
            nodes = state.public.nodes
            split = nodes.first >= 0
            children = nodes.first[split][:, None] + np.arange(structure.fan_out)
            both = nodes.own + nodes.below
            assert np.allclose(both[children].sum(axis=1), nodes.below[split]), "consistent"


def test_points_of_a_region_lie_on_it():
    shapely = pytest.importorskip("shapely")
    from tailrace.domain.geometry import Region

    triangle = Region(shapely.Polygon([(0, 0), (1, 0), (0, 1)]), columns=("x", "y"), cells=16)
    for structure in (PrivTree(), PrivTree(fan_out=4, max_depth=2)):
        mechanism = PrivTreeStream(
            domain=triangle, privacy=PURE, unit=Event(), horizon=6, structure=structure
        )
        check_mechanism(mechanism, stream_of(triangle))
        state = run(mechanism, stream_of(triangle), Noise.insecure(0))[-1]
        empty = Table.of(np.zeros(0, np.int64), {"x": np.zeros(0), "y": np.zeros(0)})
        table = mechanism.sample(
            mechanism.view(state.public), empty, np.random.default_rng(0)
        ).table
        assert len(table.cells) > 20 and (table.columns["x"] + table.columns["y"] <= 1 + 1e-9).all()


def test_state_grows_with_the_tree_and_not_with_events():
    sizes = []
    for many in (50, 5000):
        rng = np.random.default_rng(0)
        batches = [(points(rng, SQUARE, many), None) for _ in range(6)]
        mechanism = PrivTreeStream(domain=SQUARE, privacy=PURE, unit=Event(), horizon=6)
        state = run(mechanism, batches, Noise.insecure(0))[-1]
        sizes.append(len(state.public.nodes.depth))
        assert len(state.private.places) == 0 and len(state.private.counters.clock) <= sizes[-1]
    assert max(sizes) < 2 * SQUARE.size


def test_it_runs_as_a_stream():
    mechanism = papers.privstream(
        domain=SQUARE, privacy=PURE, unit=User(column="id", events=2), horizon=4, begin=2
    )
    with Stream(mechanism, noise=Noise.insecure(1)) as stream:
        for t, (adds, deletes) in enumerate(stream_of(SQUARE, steps=4)):
            ids = [f"{t}-{i}" for i in range(len(adds))]
            release = stream.push(
                adds.with_columns(pl.Series("id", ids)),
                deletes=deletes.with_columns(pl.lit("x").alias("id")),
            )
            assert (release.view is None) == (t == 0)
    assert release.table.columns == ["x", "y"] and len(release.table) == release.view.points.sum()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"domain": Box(low=(0,), high=(1,), columns=("x",), cells=10)}, "power of two"),
        ({"privacy": 1}, "privacy must be"),
        ({"structure": "privtree"}, "structure must be"),
        ({"structure": PrivTree(fan_out=8)}, "fan_out must be 2"),
        ({"begin": 11}, "must not lie beyond the horizon"),
        ({"begin": 0}, "begin must be"),
        ({"rounding": "down"}, "rounding must be"),
        ({"counter": "simple"}, "counter must be"),
        ({"counter": counters.SqrtToeplitz()}, "cannot give PureDP"),
        ({"unit": User(column="id")}, "protects Event"),
        ({"privacy": PureDP(epsilon="1e-8")}, "beyond the sampler's range|sampler's range"),
    ],
)
def test_configurations_that_cannot_work_are_refused_at_once(change, message):
    sound = {"domain": SQUARE, "privacy": PureDP(epsilon=1), "unit": Event(), "horizon": 10}
    with pytest.raises(ConfigError, match=message):
        PrivTreeStream(**{**sound, **change})


@pytest.mark.parametrize(
    "change",
    [{"share": 1}, {"threshold": -1}, {"fan_out": 3}, {"max_depth": 0}, {"threshold": 10**13}],
)
def test_structures_that_cannot_work_are_refused(change):
    with pytest.raises(ConfigError):
        PrivTree(**change)
    assert dataclasses.replace(PrivTree(), share="1/3").share == Fraction(1, 3)
