"""The parts of Trajectories: what is counted, what is made of noisy counts, and what synthetic
journeys are like.
"""

import itertools
import tarfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tailrace import (
    ZCDP,
    ApproxDP,
    Box,
    ConfigError,
    Event,
    JourneyStream,
    Noise,
    PureDP,
    Region,
    Roads,
    SpatialStream,
    Stream,
    Trajectories,
    User,
    Window,
    papers,
    release_once,
)
from tailrace.counting.journeys.masses import WHOLE
from tailrace.counting.journeys.moves import Routes, held
from tailrace.domain.geometry.partition import Partition
from tailrace.mechanisms.trajectories import Bins, DayClock, Grids, TurningWalks
from tailrace.mechanisms.trajectories.counts import paired, unpaired
from tailrace.mechanisms.trajectories.ends import fitted
from tailrace.mechanisms.trajectories.fit import (
    divided,
    order,
    posterior,
    pyramid,
    refined,
    smooth,
    summed,
)
from tailrace.mechanisms.trajectories.judging import worthy
from tailrace.mechanisms.trajectories.judging_kernel import within
from tailrace.mechanisms.trajectories.layout import even_layout
from tailrace.mechanisms.trajectories.setting import parts_for
from tailrace.mechanisms.trajectories.view import cuts_of
from tailrace.mechanisms.trajectories.walks import Model, Walks, hopped, moves_of

SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=32)


def made(domain=SQUARE, epsilon=1, unit=Event(), privacy=None, **options):
    loss = PureDP(epsilon=epsilon) if privacy is None else privacy
    return Trajectories(
        domain=domain, privacy=loss, unit=unit, trajectory="trip", order="at", **options
    )


def crossing(count=300, seed=0):
    """Journeys from the lower left to the upper right of the square, by one of two ways, and
    back.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for trip in range(count):
        corner = (0.15, 0.85) if trip % 2 else (0.85, 0.15)
        stops = np.array([(0.15, 0.15), corner, (0.85, 0.85)][:: 1 if trip % 3 else -1])
        steps = np.concatenate([np.linspace(a, b, 12) for a, b in itertools.pairwise(stops)])
        steps = np.clip(steps + rng.normal(0, 0.01, steps.shape), 0, 1)
        rows += [(trip, at, x, y, trip % 50) for at, (x, y) in enumerate(steps)]
    return pl.DataFrame(rows, schema=["trip", "at", "x", "y", "id"], orient="row")


def test_the_shares_add_up_to_the_budget_and_every_level_gets_its_part():
    mechanism = made(domain=Box(low=(0, 0), high=(1, 1), columns=("x", "y")))
    assert mechanism.guarantee.loss == PureDP(epsilon=1)
    assert sum(budget.epsilon for budget in mechanism.budgets.values()) == 1
    for signal in (0.0, *cuts_of(mechanism.domain)):
        setting = mechanism.setting(signal)
        others = sum(budget.epsilon for budget in setting.budgets.values())
        assert others + mechanism.budgets["number"].epsilon == 1, "whatever the number is"
        visits = next(count for count in setting.counts if count.name == "visits")
        scales = [atoms.scale for atoms in visits.noise(PureDP(epsilon=1))]
        weights = visits.part.weights or (1,) * len(scales)
        assert scales == [WHOLE * sum(weights) / weight for weight in weights]
    assert made(privacy=ZCDP(rho=0.5)).guarantee.loss == ZCDP(rho=0.5)
    approx = made(privacy=ApproxDP(epsilon=1, delta=1e-6))
    assert approx.guarantee.loss.epsilon <= 1


SMALL_TO_LARGE = [
    *(PureDP(epsilon=epsilon) for epsilon in ("0.001", "0.01", "0.03", "0.1", "0.3", 1, 5, 20)),
    *(ZCDP(rho=rho) for rho in ("0.000001", "0.00005", "0.005", 200)),
    *(ApproxDP(epsilon=epsilon, delta=1e-6) for epsilon in ("0.01", "0.1", 20)),
]


@pytest.mark.parametrize("unit", [Event(), User(column="id")])
@pytest.mark.parametrize("privacy", SMALL_TO_LARGE, ids=str)
def test_every_budget_is_met_by_noise_in_its_proportion(privacy, unit):
    """A small budget counts a unit in fewer parts; the noise stays what the budget says, in
    units.
    """
    mechanism = made(Box(low=(0, 0), high=(1, 1), columns=("x", "y")), unit=unit, privacy=privacy)
    loss = mechanism.guarantee.loss
    if isinstance(privacy, ApproxDP):
        assert isinstance(loss, PureDP | ApproxDP) and loss.epsilon <= privacy.epsilon
    else:
        assert loss == privacy
    setting, largest = mechanism.setting(0.0), 0.0
    whole = setting.counts[0].whole
    for count in setting.counts:
        assert count.whole == whole
        share = setting.budgets[count.name]
        levels = zip(count.budgets(share), count.squares, count.noise(share), strict=True)
        for budget, square, atoms in levels:
            pure = isinstance(budget, PureDP)
            gaussian = None if pure else square * whole**2 / (2 * budget.rho)
            assert atoms.scale == (whole / budget.epsilon if pure else gaussian)
            largest = max(largest, float(atoms.scale) if pure else float(atoms.scale) ** 0.5)
    assert largest <= 1e9 and (whole == WHOLE or 2 * largest > 1e9), "no fewer parts than it needs"


def test_gaussian_noise_is_made_for_what_one_journey_can_move():
    """Six cells of a sixth each: a squared length of a sixth, unless a coarse cell holds more."""
    square = Box(low=(0, 0), high=(1, 1), columns=("x", "y"))
    grids = Grids(share=1, sides=(4, 16, 64), most=6)
    mechanisms = (
        made(square, privacy=ZCDP(rho=1), visits=grids),
        made(square, privacy=ZCDP(rho=1)),
    )
    expected = ((1, 1, Fraction(1, 6)), (Fraction(4, 6), Fraction(1, 6)))
    for mechanism, squares in zip(mechanisms, expected, strict=True):
        visits = mechanism.setting(50_000.0).counts[0]
        assert visits.squares == squares
        pure, gaussian = (
            [float(one.variance()) for one in visits.noise(budget)]
            for budget in (PureDP(epsilon=1), ZCDP(rho=1))
        )
        assert gaussian[-1] / gaussian[0] < pure[-1] / pure[0]


@pytest.mark.parametrize("whole", [1, 5, 7, 29, 1000, 2**20])
@pytest.mark.parametrize("most", [1, 2, 6])
def test_no_remainder_of_a_division_lengthens_what_one_journey_moves(whole, most):
    """A person with very many journeys has few parts for each: 7 over 6 cells are not 2 and 1."""
    cells = np.arange(10)
    for many in range(1, 11):
        ones = np.ones(many, np.int64)
        route = Routes(np.array([0, many]), cells[:many], ones, np.ones(1, np.int64))
        parts = held(route, cells, most=most, whole=whole).dense(10)
        assert parts.max() * max(many, most) <= whole
        assert most * int((parts**2).sum()) <= whole**2


def test_journeys_are_released_at_a_small_epsilon():
    view = release_once(made(epsilon="0.02"), crossing(60), noise=Noise.insecure(3)).view
    assert view.total.error > 1_000, "noise for a fiftieth of a budget of one"
    with pytest.raises(ConfigError, match=r"privacy= is too small .* Use a larger epsilon or rho"):
        made(epsilon="0.00001")
    with pytest.raises(ConfigError, match=r"privacy= is too small .* Use a larger epsilon or rho"):
        papers.trajectories(
            domain=SQUARE,
            privacy=PureDP(epsilon="0.0001"),
            unit=Event(),
            trajectory="trip",
            order="at",
        )


def test_under_approx_the_parts_share_what_makes_less_noise():
    """A generous delta is worth a rho; a tiny one is not, and epsilon is shared."""
    kinds = {
        delta: type(next(iter(made(privacy=ApproxDP(epsilon=1, delta=delta)).budgets.values())))
        for delta in (0.1, 1e-30)
    }
    assert kinds == {0.1: ZCDP, 1e-30: PureDP}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"unit": User(column="id", events=3)}, "no bound"),
        ({"unit": Window(steps=1, column="id", records=1)}, "no bound"),
        ({"domain": Box(low=(0,), high=(1,), columns=("x",), cells=8)}, "two columns"),
        ({"domain": Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=10)}, "power of two"),
        ({"domain": Box(low=(0, 0), high=(1, 1), columns=("trip", "y"))}, "different columns"),
        ({"privacy": 1}, "privacy must be"),
        ({"visits": Bins(share=1)}, "visits must be Grids"),
        ({"turns": Grids(share=1, sides=(4,))}, "turns must be Bins"),
        ({"timing": Bins(share=1)}, "timing must be DayClock"),
        ({"walks": None}, "walks must be"),
        ({"epsilon": 1e-9}, "range"),
    ],
)
def test_what_cannot_be_is_refused(options, says):
    with pytest.raises(ConfigError, match=says):
        made(**options)


def test_parts_that_cannot_be_are_refused():
    for sides in ((), (3,), (16, 4), (4, 4)):
        with pytest.raises(ConfigError, match="sides"):
            Grids(share=1, sides=sides)
    with pytest.raises(ConfigError, match="weights"):
        Grids(share=1, sides=(4, 16), weights=(1,))
    with pytest.raises(ConfigError, match="before its end"):
        DayClock(start=5, end=5)
    with pytest.raises(ConfigError, match="both be"):
        DayClock(start=5, end="2026-01-01")
    with pytest.raises(ConfigError, match="must be numbers or times"):
        DayClock(start="soon", end="later")
    for wrong in ({"part": 0}, {"step": 1.5}, {"diagonal": 0}):
        with pytest.raises(ConfigError, match="TurningWalks"):
            TurningWalks(**wrong)


def test_grids_finer_than_the_domain_are_left_out():
    small = made(domain=Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=8))
    assert all(
        side <= 8
        for signal in (0.0, *cuts_of(small.domain))
        for count in small.setting(signal).counts
        if isinstance(count.part, Grids)
        for side in count.sides
    )
    assert small.guarantee.loss == PureDP(epsilon=1), "and the others share the budget"


def test_pairs_have_numbers():
    low, high = np.triu_indices(7)
    assert np.array_equal(paired(low, high, 7), np.arange(28))
    assert np.array_equal(np.stack(unpaired(np.arange(28), 7)), np.stack([low, high]))


def test_the_order_of_cells_is_that_of_the_partition():
    assert np.array_equal(order(32), Partition(SQUARE).places)


def test_divided_keeps_sums_and_smooth_has_no_steps():
    coarse = np.array([1.0, 0.0, 4.0, 2.0])
    assert np.allclose(summed(divided(coarse, np.arange(16.0)), 4), coarse)
    fine = smooth(np.array([1.0, 1.0, 9.0, 9.0]), 16)[order(16)].reshape(16, 16)
    assert np.allclose(summed(smooth(coarse, 16), 4), coarse)
    assert (np.diff(fine[:, 3]) >= -1e-12).all() and np.ptp(fine[3]) < 1e-12, (
        "from low to high in one direction alone"
    )


def test_a_count_is_drawn_towards_what_is_expected_as_far_as_its_noise_asks():
    rng = np.random.default_rng(0)
    true = rng.gamma(0.25, 4.0, 5000) * (rng.random(5000) < 0.5) * 10
    expected = np.full(5000, true.mean())
    for scale in (0.5, 20.0):
        noisy = true + rng.laplace(0, scale, 5000)
        mean, nearest, *_ = posterior(noisy, expected, scale, floor=1.0)
        errors = [
            np.mean((estimate - true) ** 2) for estimate in (mean, np.maximum(noisy, 0), expected)
        ]
        assert errors[0] < min(errors[1:]), "never worse than either alone"
        relative = [
            np.mean(np.abs(estimate - true) / np.maximum(true, 1)) for estimate in (nearest, mean)
        ]
        assert relative[0] < relative[1]


def test_a_density_on_nested_grids_is_found_again():
    rng = np.random.default_rng(1)
    fine = np.zeros(1024)
    fine[rng.integers(0, 1024, 30)] = rng.exponential(400, 30)
    levels = [summed(fine, size) for size in (16, 64, 1024)]
    exact, *_ = refined(levels, [1e-3] * 3, SQUARE)
    assert np.abs(exact - fine).sum() < 0.05 * fine.sum()
    noisy, *_ = refined(
        [level + rng.laplace(0, 20, len(level)) for level in levels], [20.0] * 3, SQUARE
    )
    assert np.abs(noisy - fine).sum() < 0.35 * fine.sum()


def test_coarser_grids_are_sums_of_finer_ones_weighed_with_what_was_measured():
    rng = np.random.default_rng(1)
    fine = rng.gamma(0.3, 10.0, 4096)
    levels, scales = [summed(fine, 256), fine], [1.0, 3.0]
    made = [[len(found) for found, _ in pyramid(levels[1:], scales[1:])]]
    made += [[len(found) for found, _ in pyramid(levels, scales)]]
    assert made == [[16, 256, 4096]] * 2
    errors = {size: [] for size in made[0]}
    for _ in range(300):
        noisy = [
            own + rng.laplace(0, one, len(own)) for own, one in zip(levels, scales, strict=True)
        ]
        for found, scale in pyramid(noisy, scales):
            error = found - summed(fine, len(found))
            errors[len(found)].append((error**2).mean() ** 0.5 / scale)
    for size, found in errors.items():
        # Scales are those of Laplace noise of the same variance.
        assert np.mean(found) == pytest.approx(2**0.5, rel=0.03), size
    # 16 cells of 3 would be 12 alone, 1 is measured.
    assert pyramid(levels, scales)[1][1] == pytest.approx(1 / (1 + 1 / 12**2) ** 0.5)


def test_a_street_stands_out_of_noise_by_the_cells_along_it():
    """Each cell of it alone is hidden: what its neighbours hold tells of it."""
    rng, town = np.random.default_rng(0), np.zeros((32, 32))
    town[12] = town[:, 20] = 12.0
    fine = np.empty(1024)
    fine[order(32)] = town.ravel()
    noisy, street = fine + rng.laplace(0, 4.0, 1024), fine > 0
    found = refined([noisy], [4.0], SQUARE)[1]
    alone = posterior(noisy, np.full(1024, fine.mean()), 4.0, floor=1.0)[1]
    assert alone[street].mean() < 0.1 and found[street].mean() > 3
    assert found[~street].mean() < 0.3


def test_a_guess_tells_of_hidden_cells_as_far_as_it_predicts_their_counts():
    rng = np.random.default_rng(0)
    fine = rng.gamma(0.3, 10.0, 1024)
    noisy = fine + rng.laplace(0, 6.0, 1024)
    errors = [
        ((refined([noisy], [6.0], SQUARE, guess=guess)[0] - fine) ** 2).mean()
        for guess in (None, 5 * fine * rng.uniform(0.7, 1.3, 1024), rng.permutation(fine))
    ]
    assert errors[1] < 0.6 * errors[0], "one of the same shape"
    assert errors[2] < 1.1 * errors[0], "one of another shape does no harm"


def test_noisy_bins_of_sizes_tell_their_mean():
    rng = np.random.default_rng(5)
    for points in (2, 30, 700):
        rows = crossing(400).group_by("trip", maintain_order=True).first()
        rows = rows.select(pl.exclude("at")).join(pl.DataFrame({"at": range(points)}), how="cross")
        own = {"domain": SQUARE, "epsilon": 20}
        view = release_once(made(**own), rows, noise=Noise.insecure(int(rng.integers(99)))).view
        cells, found, _ = view.sizes / view.units
        assert found == pytest.approx(points, rel=0.2) and cells == pytest.approx(1, rel=0.2)


def test_pairs_agree_with_ends_distances_and_coarse_pairs():
    """Two towns: everybody goes from one to the other. Ends alone would send half of them
    nowhere.
    """
    ends = np.zeros(SQUARE.size)
    towns = Partition(SQUARE).places[[5 * 32 + 5, 25 * 32 + 25]]
    ends[towns] = 500.0
    distances = np.zeros(14)
    distances[11] = 1000.0  # 23 to 32 cells
    rng = np.random.default_rng(2)
    drawn = fitted(SQUARE, ends, distances, [], 1000.0).draw(1000, rng)
    assert {tuple(pair) for pair in drawn.T} >= {(165, 825), (825, 165)}
    assert (drawn[0] != drawn[1]).mean() > 0.98, "every bin has a count of 1 at least"
    same = np.zeros(14)
    same[0] = 1000.0
    assert (
        np.diff(fitted(SQUARE, ends, same, [], 1000.0).draw(1000, rng), axis=0) == 0
    ).mean() > 0.98
    coarse = np.zeros(paired(np.array([15]), np.array([15]), 16)[0] + 1)
    nodes = towns >> 6
    coarse[paired(nodes.min(), nodes.max(), 16)] = 1000.0
    level = np.full(14, 1000 / 14)
    told = fitted(SQUARE, ends, level, [(coarse, 1e-3)], 1000.0).draw(1000, rng)
    assert (np.diff(told, axis=0) != 0).mean() > 0.99


def test_ends_without_chance_are_as_dense_as_drawn_ones():
    rng = np.random.default_rng(0)
    ends = rng.gamma(0.2, 1.0, SQUARE.size)
    pairs = fitted(SQUARE, ends, rng.uniform(20, 100, 14), [], 1000.0)
    drawn, even = pairs.draw(400_000, rng), pairs.even(4_000)
    assert np.array_equal(even, pairs.even(4_000))
    places = Partition(SQUARE).places
    for one, other in zip(drawn, even, strict=True):
        counts = [np.bincount(places[cells] >> 6, minlength=16) for cells in (one, other)]
        assert np.abs(counts[0] / 100 - counts[1]).max() < 25, "of up to a thousand in a sixteenth"


def test_the_number_of_moves_follows_the_counts():
    counts = np.zeros((8, 10))
    counts[0, 0], counts[3, 2] = 1000, 1000
    fewest = np.repeat([0, 3], 2000)
    drawn = moves_of(counts.reshape(-1), 1.0, fewest, np.random.default_rng(3))
    assert (drawn >= fewest).all()
    assert (drawn[:2000] == 0).mean() > 0.97 and (drawn[2000:] == 5).mean() > 0.97
    nothing = moves_of(np.full(80, -5.0), 1.0, fewest, np.random.default_rng(3))
    assert (nothing >= fewest).all()


def test_walks_pass_the_cells_and_turn_as_they_should():
    """On an empty square walks go anywhere; a model of two corridors sends them along these."""
    layout = even_layout(SQUARE, 16)
    x, y = (layout.middle // 2).astype(int).T
    corridor = (x == 2) | (y == 13)
    visits = np.where(corridor, 100.0, 0.0)
    first, last = np.flatnonzero((x == 2) & (y == 2)), np.flatnonzero((x == 13) & (y == 13))
    ends = np.repeat(np.stack([first, last]), 400, axis=1)
    turns = np.array([0.9, 0.03, 0.02, 0.0, 0.0, 0.0, 0.02, 0.03]) + 1e-3
    moves = np.full(400, 24)
    model = Model(layout, visits, turns / turns.sum(), 6, 0.0)
    walks = TurningWalks().draw(model, ends, moves, np.random.default_rng(4))
    assert corridor[walks.cells].mean() > 0.95
    starts, stops = walks.cells[walks.offsets[:-1]], walks.cells[walks.offsets[1:] - 1]
    assert (starts == first).all() and (stops == last).all() and walks.stops.all()


def test_walks_say_how_many_have_points_in_each_cell():
    walks = Walks(
        np.array([0, 3, 5]), np.array([7, 2, 7, 2, 1]), np.array([True, False, True, True, True])
    )
    assert walks.visits(8, most=2).tolist() == [0, 1, 1, 0, 0, 0, 0, 1]
    assert walks.visits(8, most=1).tolist() == [
        0,
        0.75,
        0.75,
        0,
        0,
        0,
        0,
        1.5,
    ]  # three in all; a walk of two counts half as much


def test_hops_go_back_and_forth_along_a_walk():
    rng = np.random.default_rng(1)
    offsets, cells = hopped(np.array([0, 2, 3]), np.array([5, 6, 7]), np.array([1, 4]), rng)
    assert offsets.tolist() == [0, 4, 5] and cells.tolist() == [5, 6, 5, 6, 7]
    offsets, cells = hopped(np.array([0, 4]), np.arange(4), np.array([50]), rng)
    assert (
        len(cells) == 104
        and cells[0] == 0
        and cells[-1] == 3
        and (np.abs(np.diff(cells)) == 1).all()
    )


@pytest.mark.parametrize("unit", [Event(), User(column="id")], ids=["trajectory", "person"])
def test_synthetic_journeys_are_like_the_real_ones(unit):
    """Two ways from corner to corner: synthetic journeys begin and end there, and keep off the
    middle.
    """
    rows = crossing()
    release = release_once(
        made(epsilon=400, unit=unit, number=Bins(share="0.1", most=6), between=True),
        rows,
        noise=Noise.insecure(6),
    )
    table = release.table
    many = table["trip"].n_unique()
    assert (
        100 < many < 330  # those that would pass where nobody did are left out
        and abs(release.view.total.value - 300) < 6 * release.view.total.error + 1
    )
    ends = table.group_by("trip").agg(first=pl.col("x").first(), last=pl.col("x").last())
    near = [
        ((ends[name] - corner).abs() < 0.1) for name in ("first", "last") for corner in (0.15, 0.85)
    ]
    assert (near[0] | near[1]).mean() > 0.9 and (near[2] | near[3]).mean() > 0.9
    assert ((ends["first"] - ends["last"]).abs() > 0.5).mean() > 0.9, "from one corner to the other"
    middle = table.filter(pl.col("x").is_between(0.35, 0.65) & pl.col("y").is_between(0.35, 0.65))
    assert len(middle) < 0.05 * len(table)
    assert abs(len(table) / many - 24) < 8, "as many points as the real ones have"


@pytest.mark.slow
def test_counts_of_ends_have_the_error_that_is_stated():
    mechanism, rows = made(epsilon=2), crossing()
    low, high, found = (0, 0), (0.5, 0.5), []
    for seed in range(60):
        view = release_once(mechanism, rows, noise=Noise.insecure(seed)).view
        estimate = view.count(low=low, high=high)
        found.append((estimate.value - 150) / estimate.error)
    assert abs(np.mean(found)) < 0.6 and 0.6 < np.std(found) < 1.5
    with pytest.raises(ConfigError, match="low not above high"):
        view.count(low=(1, 1), high=(0, 0))


def test_points_lie_on_the_geometry():
    shapely = pytest.importorskip("shapely")
    ring = shapely.LineString([(0.1, 0.1), (0.9, 0.1), (0.9, 0.9), (0.1, 0.9), (0.1, 0.1)])
    rows = crossing()
    for domain in (
        Roads(ring, columns=("x", "y"), cells=32, outside="nearest", reach=0.2),
        Region(ring.buffer(0.08), columns=("x", "y"), cells=32, outside="nearest"),
    ):
        for make in (Trajectories, papers.trajectories):
            mechanism = make(
                domain=domain,
                privacy=PureDP(epsilon=50),
                unit=Event(),
                trajectory="trip",
                order="at",
            )
            table = release_once(mechanism, rows, noise=Noise.insecure(6)).table
            places = shapely.points(table["x"].to_numpy(), table["y"].to_numpy())
            shape = ring if isinstance(domain, Roads) else ring.buffer(0.08)
            assert len(table) and shapely.distance(places, shape).max() < 1e-9


def test_points_near_roads_belong_to_them_and_farther_ones_are_left_out():
    """Streets one apart, journeys along one of them with a receiver that strays."""
    shapely = pytest.importorskip("shapely")
    lines = [[(i, 0), (i, 8)] for i in range(9)] + [[(0, i), (8, i)] for i in range(9)]
    roads = Roads(shapely.MultiLineString(lines), columns=("x", "y"), cells=256)
    common = {"privacy": PureDP(epsilon=100), "unit": Event()}
    own = {**common, "trajectory": "trip", "order": "at"}
    many = 300
    rng, trip = np.random.default_rng(1), np.repeat(np.arange(many), 6)
    at = np.tile(np.arange(6), many)
    strayed = pl.DataFrame(
        {"trip": trip, "at": at, "x": 1.5 + at, "y": 3 + rng.normal(0, 0.1, len(trip))}
    )
    # The first trip begins far away; of the second nothing else is left.
    far = (pl.col("trip") == 0) & (pl.col("at") == 0) | (pl.col("trip") == 1)
    strayed = strayed.with_columns(y=pl.when(far).then(50.0).otherwise("y"))
    for stream in (False, True):
        made = (
            JourneyStream(domain=roads, horizon=1, **own)
            if stream
            else Trajectories(domain=roads, **own)
        )
        assert made.domain.outside == "nearest" and made.domain.reach == made.domain.near().reach
        read = made.plan(made.init().public).read(strayed)
        assert len(read) == many - 1 and len(read.cells) == 6 * (many - 1) - 1
    dropped = Trajectories(domain=replace_outside(roads, "drop"), **own)
    assert dropped.domain.outside == "drop"
    read = dropped.plan(dropped.init().public).read(strayed)
    assert len(read.cells) < 0.3 * len(strayed)
    # Points that come and go are dropped beside the road, as ever, unless it is said.
    assert SpatialStream(domain=roads, horizon=4, **common).domain.outside == "drop"


def replace_outside(roads, outside):
    return Roads(roads.lines, columns=roads.columns, cells=roads.side, outside=outside)


@pytest.mark.parametrize(
    "clock",
    [DayClock(start=0, end=100, bins=10), DayClock(start="2026-01-01", end="2026-01-02", bins=24)],
)
def test_with_a_clock_points_have_times(clock):
    low, high = clock.limits
    rows = crossing().with_columns(at=low + (high - low) * (0.5 + pl.col("at") / 200))
    release = release_once(made(epsilon=500, timing=clock), rows, noise=Noise.insecure(7))
    times = release.table["at"]
    if times.dtype == pl.String:
        times = times.str.to_datetime().dt.timestamp("us").cast(pl.Float64)
    share = (times - low) / (high - low)
    first = share.to_numpy()[np.flatnonzero(np.diff(release.table["trip"], prepend=0))]
    assert ((first >= 0.5) & (first <= 0.65)).mean() > 0.95, "all begin in the middle of the clock"
    steps = np.diff(share)[np.diff(release.table["trip"]) == 0]
    assert 0.003 < np.median(steps) < 0.008, "a two-hundredth of it lies between two points"
    assert (steps >= 0).all()


def test_a_clock_takes_what_is_infinite():
    rows = crossing().with_columns(
        at=pl.when(pl.col("at") > 5).then(float("inf")).otherwise(float("-inf"))
    )
    assert len(
        release_once(
            made(epsilon=50, timing=DayClock(start=0, end=1)), rows, noise=Noise.insecure(8)
        ).table
    )


def test_without_pairs_the_gravity_model_stands_alone():
    everything = {**parts_for(0.0, SQUARE), "pairs": None}
    mechanism = made(epsilon=50, **everything)
    assert mechanism.rounds == 1, "nothing is left to follow from the number"
    assert "pairs" not in mechanism.budgets and mechanism.guarantee.loss == PureDP(epsilon=50)
    assert len(release_once(mechanism, crossing(), noise=Noise.insecure(9)).table)


KEPT = Path(__file__).parents[3] / "security" / "kept_journeys.tar.gz"


@pytest.mark.parametrize("name", ["new", "cut", "released"])
def test_a_stream_of_the_last_version_goes_on(tmp_path, name):
    """It counted everything in one round: see make_kept_journeys.py."""
    with tarfile.open(KEPT) as archive:
        archive.extractall(tmp_path, filter="tar")
    with Stream.open(tmp_path / f"{name}.tail") as stream:
        assert stream.mechanism.rounds == 1 and stream.step == (0 if name == "new" else 1)
        if name == "new":
            stream.push(crossing(200).select("trip", "at", "x", "y"))
        view, table = stream.release(1).view, stream.release(1).table
    assert view.total.value == pytest.approx(200, abs=20)
    assert table["trip"].n_unique() == pytest.approx(200, abs=20)


def test_too_few_journeys_are_not_drawn_and_the_view_says_so():
    """The decision is public: by the noisy number and epsilon alone."""
    few = release_once(made(epsilon=1), crossing(), noise=Noise.insecure(1))
    assert len(few.table) == 0 and not few.view.enough
    assert "No journeys are drawn" in few.view.advice and "times as many" in few.view.advice
    many = release_once(made(epsilon=100), crossing(), noise=Noise.insecure(1))
    assert many.view.enough and many.table["trip"].n_unique() > 100
    assert "Journeys are drawn" in many.view.advice
    assert many.view.seen["visits"] > 1 > few.view.seen["visits"]
    assert set(many.view.seen) == set(many.view.noisy)


def test_noise_alone_is_not_seen():
    hidden = [
        sum(
            not ratio
            for ratio in release_once(made(), None, noise=Noise.insecure(seed)).view.seen.values()
        )
        for seed in range(5)
    ]
    assert np.mean(hidden) > 6, "of nine kinds of counts, all of them noise"


def test_journeys_that_cost_more_than_they_are_worth_are_left_out():
    """Cells 0 to 2 are busy; hardly anybody passes 3, and nobody 4."""
    layout = even_layout(Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=4), 4)
    lines = [[0, 1, 2]] * 30 + [[0, 3, 4]] * 10 + [[0, 1, 2, 3]] * 10
    at = np.argsort(layout.index)
    walks = Walks(
        np.append(0, np.cumsum([len(line) for line in lines])),
        at[np.concatenate(lines)],
        np.ones(sum(map(len, lines)), bool),
    )
    nearest = np.zeros(16)
    nearest[:4] = 60, 50, 50, 8
    none = np.where(nearest > 0, 0.0, 0.9)
    weight = 1 / np.maximum(nearest, 1)
    judged = np.stack([nearest, nearest, none, weight])
    rng = np.random.default_rng(0)
    kept = worthy(walks, layout, judged, 3, 0.0, rng)
    assert set(range(30)) <= set(kept) and not set(kept) & set(range(30, 40))
    assert 2 <= sum(kept >= 40) <= 10, "about as many as pass there"
    picked = walks.pick(np.array([30]))
    assert picked.offsets.tolist() == [0, 3] and picked.cells.tolist() == at[[0, 3, 4]].tolist()
    hidden = np.stack([nearest, 0 * nearest, np.full(16, 0.6), np.ones(16)])
    assert not len(worthy(walks, layout, hidden, 3, 0.0, rng)), "nothing was seen"
    patient = worthy(walks, layout, judged, 3, 1.0, rng)
    assert len(patient) == 50, "whatever they cost"


def test_trips_pass_different_groups_of_cells():
    rng = np.random.default_rng(0)
    sizes, groups = rng.integers(0, 30, 200), rng.integers(0, 20, 50)
    offsets = np.append(0, np.cumsum(sizes))
    # Of 60 cells the last ten lie nowhere.
    cells = rng.integers(0, 60, offsets[-1])
    found, passed, inside = within(offsets, cells, 50, groups)
    for trip, (start, stop) in enumerate(itertools.pairwise(offsets)):
        own = np.unique(cells[start:stop])
        expected = np.unique(groups[own[own < 50]], return_counts=True)
        mine = slice(found[trip], found[trip + 1])
        by = np.argsort(passed[mine])
        assert np.array_equal(passed[mine][by], expected[0])
        assert np.array_equal(inside[mine][by], expected[1])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_papers_stays_do_not_explode_on_few_trajectories(seed):
    """As printed, cells whose moves are hidden by noise held a thousand points a visit."""
    rows = crossing(170)
    about = {"privacy": PureDP(epsilon=1), "unit": Event(), "trajectory": "trip", "order": "at"}
    mechanism = papers.trajectories(domain=SQUARE, **about)
    table = release_once(mechanism, rows, noise=Noise.insecure(seed)).table
    assert len(table) < 5 * len(rows)
