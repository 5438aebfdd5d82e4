"""The tabular stream: its promises, its epochs, its model and its answers."""

import itertools
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from samples import LOSSES, UNITS, UNITS_AND_LOSSES, changing, growing, states, truth
from tailrace import (
    ZCDP,
    ApproxDP,
    Box,
    Categorical,
    Event,
    Integer,
    Noise,
    PureDP,
    Real,
    Schema,
    Selection,
    Stream,
    TabularStream,
    User,
    Window,
)
from tailrace.checks import check_mechanism
from tailrace.checks.spy import Spy
from tailrace.counting.plan import Counts
from tailrace.errors import ConfigError
from tailrace.mechanisms.tabular import epochs
from tailrace.models.tables import JunctionTree
from tailrace.storage.codec import pack
from tailrace.stream.state import no_rows

SHOP = Schema(
    kind=Categorical(["a", "b", "c"]),
    paid=Categorical([False, True]),
    country=Categorical(["only"]),  # one value: public, and in no workload
    size=Integer(0, 4, outside="clip"),
    price=Real(edges=[0, 1, 5, 20], outside="other"),
)
EVERY_STEP = Selection(
    churn=1e-6, chosen=100
)  # with hardly any noise on the clock, each step ends an epoch


def batch(seed, count=200):
    """Columns that depend on each other, with values outside the domain."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(["a", "b", "c", "?"], count, p=[0.5, 0.3, 0.15, 0.05])
    size = rng.binomial(5, np.where(kind == "a", 0.2, 0.7))
    return pl.DataFrame(
        {
            "kind": kind,
            "paid": rng.random(count) < np.where(size > 2, 0.9, 0.3),
            "country": ["only"] * count,
            "size": size,
            "price": rng.exponential(2 + size),
            "id": rng.integers(0, 60, count),
        }
    )


def stream(**changes):
    about = {"domain": SHOP, "privacy": PureDP(epsilon=1), "unit": Event(), "horizon": 12}
    return TabularStream(**{**about, **changes})


BATCHES = changing(batch, 900)
ADDS = growing(BATCHES)
SELECTIONS = (Selection(chosen=2), Selection(), Selection(chosen=100))


@UNITS_AND_LOSSES
@pytest.mark.parametrize(
    ("changes", "batches"),
    [
        ({"selection": Selection(chosen=2)}, BATCHES),
        pytest.param(
            {"horizon": None, "selection": Selection(chosen=1)}, BATCHES, marks=pytest.mark.slow
        ),
        ({"deletes": False, "workload": (("kind", "size", "paid"), ("price",))}, ADDS),
    ],
    ids=["horizon", "endless", "adds"],
)
def test_conformance(unit, privacy, changes, batches):
    check_mechanism(stream(unit=unit, privacy=privacy, **changes), batches)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: type(unit).__name__)
@pytest.mark.parametrize("privacy", LOSSES, ids=lambda privacy: type(privacy).__name__)
@pytest.mark.parametrize("selection", SELECTIONS, ids=lambda selection: str(selection.chosen))
@pytest.mark.parametrize("changes", [{}, {"horizon": None}, {"deletes": False}], ids=str)
def test_the_guarantee_is_what_was_asked_for(unit, privacy, selection, changes):
    guarantee = stream(unit=unit, privacy=privacy, selection=selection, **changes).guarantee
    if isinstance(privacy, PureDP):
        assert guarantee.loss == privacy
    elif isinstance(privacy, ZCDP):
        assert privacy.rho * (1 - 10**-9) < guarantee.loss.as_zcdp().rho <= privacy.rho
    else:
        assert privacy.epsilon * (1 - 10**-9) < guarantee.loss.epsilon <= privacy.epsilon


def test_the_loss_of_a_life_is_that_of_two_events():
    assert stream().guarantee.of_life() == PureDP(epsilon=2)
    assert stream(deletes=False).guarantee.of_life() == PureDP(epsilon=1)
    twice = stream(privacy=ZCDP(rho="1/10"), selection=Selection(chosen=100)).guarantee.of_life()
    assert twice == ZCDP(rho="1/5"), (
        "an insertion and a deletion move counters apart: their squares add up"
    )
    chosen = stream(privacy=ZCDP(rho="1/10"), selection=Selection(chosen=2)).guarantee.of_life().rho
    assert 0.2 < chosen < 0.4, (
        "but a choice sees both in one score: its part is four times as large"
    )


def test_a_gaussian_is_used_where_it_is_quieter():
    assert isinstance(stream(privacy=ZCDP(rho=0.5)).budget.whole, ZCDP)
    delta = ApproxDP(epsilon=1, delta=1e-9)
    wide = Schema(**{f"bit{i}": Integer(0, 1) for i in range(12)})
    assert isinstance(stream(privacy=delta, selection=Selection(chosen=1)).budget.whole, PureDP)
    assert isinstance(stream(domain=wide, privacy=delta).budget.whole, ZCDP)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"domain": Box(low=(0,), high=(1,), columns=("x",))}, "must be a Schema"),
        ({"domain": Schema(country=Categorical(["only"]))}, "nothing to count"),
        ({"workload": "all"}, "workload must be the number of columns"),
        ({"workload": True}, "workload must be the number of columns"),
        ({"workload": ("kind", "paid")}, "workload must be the number of columns"),
        ({"workload": 0}, "at least 1"),
        ({"workload": (("kind", "colour"),)}, "columns of the domain"),
        ({"privacy": 1.0}, "privacy must be"),
        ({"privacy": PureDP(epsilon="1e-12")}, "sampler's range"),
        ({"unit": User(column="id")}, "bound on the events"),
        ({"unit": Window(steps=3, column="id", records=1)}, "bound on the events"),
        ({"fit": JunctionTree}, "fit must be a way to fit tables"),
        ({"fit": JunctionTree(limit=10)}, "fit may hold 10 cells"),
        ({"selection": "AIM"}, "selection must be a Selection"),
        ({"horizon": 0}, "horizon must be a whole number"),
    ],
)
def test_what_cannot_work_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        stream(**changes)


def test_a_table_whose_rows_cannot_be_numbered_protects_events_only():
    wide = Schema(**{f"bit{i}": Integer(0, 1) for i in range(70)})
    few = (("bit0", "bit1"), ("bit68", "bit69"))
    assert stream(domain=wide, workload=few).guarantee.loss == PureDP(epsilon=1)
    with pytest.raises(ConfigError, match=r"2\*\*62 cells"):
        stream(domain=wide, workload=few, unit=User(column="id", events=1))


@pytest.mark.parametrize(
    "changes", [{"clock": 1}, {"churn": 0}, {"chosen": 0}, {"choice": -1}, {"chosen": 1.5}], ids=str
)
def test_constants_that_make_no_sense_are_refused(changes):
    with pytest.raises(ConfigError):
        Selection(**changes)


def test_without_noise_the_counts_of_every_workload_are_exact():
    mechanism = stream(privacy=PureDP(epsilon=1000), selection=EVERY_STEP, horizon=6)
    found = states(mechanism, BATCHES, Spy(None))
    for many, state in enumerate(found[1:], start=1):
        if int(state.public.closed) == many:
            assert np.allclose(
                state.public.track.count, truth(mechanism, BATCHES[:many]), atol=1e-3
            )
            assert float(state.public.total) == pytest.approx(
                mechanism.marginals.part(truth(mechanism, BATCHES[:many]), 0).sum()
            )
    assert int(found[-1].public.closed) == 6 and int(found[-1].public.epoch) >= 4


def test_without_noise_the_model_and_its_rows_are_close_to_the_table():
    mechanism = stream(privacy=PureDP(epsilon=1000), selection=EVERY_STEP, horizon=6)
    view = mechanism.view(states(mechanism, BATCHES, Spy(None))[-1].public)
    marginals, true = mechanism.marginals, truth(mechanism, BATCHES)
    total = marginals.part(true, 0).sum()
    rows = mechanism.sample(view, no_rows(mechanism), np.random.default_rng(0)).table
    assert len(rows.cells) == total
    sampled = marginals.tally(rows.cells)
    for j, clique in enumerate(marginals.cliques):
        columns = [SHOP.columns[axis] for axis in clique]
        assert (
            np.abs(view.marginal(*columns).values - marginals.part(true, j)).sum() < 0.04 * total
        ), columns
        assert np.abs(marginals.part(sampled, j) - marginals.part(true, j)).sum() < 0.06 * total, (
            columns
        )


def test_more_workloads_asked_for_than_there_are_is_all_of_them():
    for events in (0.0, 1e9):
        assert stream(selection=Selection(chosen=100)).budget.purse(events).everything
        few = stream(selection=Selection(chosen=3)).budget.purse(events)
        assert not few.everything and few.rounds == 3


def test_all_workloads_lose_choices_where_no_model_holds_all():
    """Choices of a unit that comes and goes lose 4 rho, its counts 2 rho."""
    held, chosen = (
        stream(privacy=ZCDP(rho=1), selection=Selection(chosen=100), fit=fit)
        for fit in (JunctionTree(), JunctionTree(limit=99))
    )
    several = chosen.budget.part(Fraction(19, 40)).rho
    assert (held.guarantee.loss, held._all_fit, chosen._all_fit) == (ZCDP(rho=1), True, False)
    assert chosen.guarantee.of_life().rho == held.guarantee.of_life().rho + 2 * several


def test_more_rounds_are_begun_with_where_noise_allows_it():
    for privacy in (PureDP(epsilon=1), ZCDP(rho=0.05)):
        purses = [stream(privacy=privacy).budget.purse(10.0**power) for power in range(2, 8)]
        rounds = [purse.rounds for purse in purses]
        assert rounds == sorted(rounds) and rounds[0] == 1 and rounds[-1] == 6
        assert purses[-1].everything and not purses[0].everything


def test_a_table_of_many_columns_begins_with_no_more_rounds_than_a_model_holds():
    wide = Schema(**{f"bit{i}": Integer(0, 1) for i in range(40)})  # 780 pairs
    assert stream(domain=wide).budget.purse(1e9).rounds == 256
    assert stream(domain=wide).guarantee.loss == PureDP(epsilon=1)


def test_wide_workloads_and_columns_get_more_of_the_budget():
    """As the root of their cells, or its power 4/3, within a step of 2^(1/2): the least noise."""
    for privacy, power in ((PureDP(epsilon=1), 1 / 2), (ZCDP(rho=0.05), 2 / 3)):
        mechanism = stream(privacy=privacy)
        cells = np.array([3, 2, 5, 4])
        scale = np.array([float(atoms.scale) for atoms in mechanism.budget.singles])
        assert np.allclose(scale * cells**power, scale[0] * 3**power, rtol=0.42)
        assert scale[1] > scale[2], "wider columns are quieter"
        _, amounts, _ = mechanism.budget.purse(300.0).round()
        pairs = mechanism.marginals.sizes[4:]
        _, amounts, _ = replace(mechanism.budget.purse(0.0), unit=1000).round()
        assert np.allclose(amounts / pairs**power, amounts[0] / pairs[0] ** power, rtol=0.42)
        assert amounts[pairs.argmin()] < amounts[pairs.argmax()]


def test_later_steps_go_on_with_a_fit_that_was_not_done(monkeypatch):
    """A round of descent at each, from released numbers."""
    monkeypatch.setattr(epochs, "_WORK", 1)
    mechanism = stream(privacy=PureDP(epsilon=20), fit=JunctionTree(tolerance=1e-4), horizon=None)
    quiet = [(batch(3, 5000), None)] + [(None, None)] * 14
    found = [state.public for state in states(mechanism, quiet)]
    went_on = 0
    for before, after in itertools.pairwise(found):
        if int(before.refits) and before.closed == after.closed:
            went_on += 1
            assert 0 <= int(after.refits) < int(before.refits)
            assert not np.array_equal(before.values, after.values)
            assert np.array_equal(before.track.count, after.track.count)
    assert went_on


def test_an_epoch_fits_few_models_of_bounded_work(monkeypatch):
    """Columns, and one for each eighth of the purse, however many rounds there are."""
    asked, fit = [], JunctionTree.fit

    def watched(self, shape, measured, **about):
        if measured:
            asked[-1].append(about["work"])
        return fit(self, shape, measured, **about)

    monkeypatch.setattr(JunctionTree, "fit", watched)
    bits = Schema(**{name: Integer(0, 2) for name in "abcdefghi"})
    rng = np.random.default_rng(0)
    rows = np.where(
        rng.random((6, 400, 9)) < 0.7, rng.integers(0, 3, (6, 400, 1)), rng.integers(0, 3, 9)
    )
    mechanism = stream(
        domain=bits,
        privacy=PureDP(epsilon=50),
        fit=JunctionTree(limit=99),
        selection=Selection(chosen=30),
    )
    state = mechanism.init()
    for step, each in enumerate(rows):
        asked.append([])
        counts = Counts(mechanism.marginals.tally(each), np.zeros(mechanism.marginals.size, int))
        state = mechanism.measure(state, counts, Noise.insecure(step)).state
    assert 7 <= max(map(len, asked)) <= 9
    assert all(0 < work <= 2 * epochs._WORK for each in asked for work in each)


@pytest.mark.parametrize("privacy", [PureDP(epsilon=1), ZCDP(rho=0.05)], ids=str)
def test_on_every_path_the_whole_purse_is_spent_and_no_more(privacy):
    """Whatever is chosen, and whenever units are doubled."""
    rng, start = np.random.default_rng(0), stream(privacy=privacy).budget
    for trial in range(200):
        purse, losses = start.purse(10.0 ** rng.uniform(0, 5)), []
        while purse.left:
            choice, amounts, purse = purse.round()
            atoms, purse = purse.counts(int(rng.choice(amounts)))
            losses += [choice.loss(1, 0), atoms.loss(1, 0)]
            purse = purse.doubled() if rng.random() < trial / 200 else purse
        spent = sum(loss.epsilon if isinstance(loss, PureDP) else loss.rho for loss in losses)
        whole = purse.whole.epsilon if isinstance(privacy, PureDP) else purse.whole.rho
        assert whole * (1 - Fraction(1, 10**9)) < spent <= whole
        with pytest.raises(AssertionError, match="no more is spent"):
            purse.counts(1)


def test_a_column_of_one_value_is_in_no_workload_and_in_every_row():
    mechanism = stream()
    assert all(
        SHOP.columns.index("country") not in clique for clique in mechanism.marginals.cliques
    )
    view = mechanism.view(states(mechanism, BATCHES * 2)[-1].public)
    rows = mechanism.sample(view, no_rows(mechanism), np.random.default_rng(0)).table
    assert len(rows.cells) and set(rows.columns["country"]) == {"only"}
    assert view.marginal("country", "paid").values.shape == (1, 2)


def test_one_column_is_counted_by_itself():
    mechanism = stream(domain=Schema(size=Integer(0, 4)), horizon=6)
    assert mechanism.marginals.cliques == ((0,),)
    assert mechanism.budget.loss(mechanism.clock, 1, 0, chosen=False) == PureDP(epsilon=1)
    view = mechanism.view(states(mechanism, BATCHES)[-1].public)
    assert view.marginal("size").values.shape == (5,)


@pytest.mark.parametrize("spy", [Noise.insecure(3), None], ids=["noise", "silent"])
def test_what_is_drawn_is_what_is_paid_for(spy):
    """An epoch draws each column once, and its choices and workloads cost the whole purse."""
    mechanism = stream(selection=Selection(chosen=2, churn=0.3), horizon=6)
    record, budget = Spy(spy), mechanism.budget
    found = states(mechanism, BATCHES, record)
    ends = {int(state.public.closed) for state in found[1:]}
    for step in range(1, 7):
        drawn = [
            one
            for one in record.record
            if one.path[:2] == ("step", step) and "clock" not in one.path
        ]
        columns, rounds = drawn[:4], drawn[4:]
        if step in ends:
            assert [one.parameter for one in columns] == [atoms.scale for atoms in budget.singles]
            assert [one.kind for one in rounds] == ["choose", "laplace"] * (len(rounds) // 2)
            spent = sum(
                2 * one.parameter if one.kind == "choose" else 1 / one.parameter for one in rounds
            )
            assert spent == budget.purse(0.0).whole.epsilon
        else:
            assert not drawn


def test_the_total_is_never_the_true_one_by_construction():
    """The noise of the clock and of the cells is all in it: with other noise, another total."""
    mechanism, totals = stream(horizon=6), set()
    for seed in range(8):
        public = states(mechanism, BATCHES, Noise.insecure(seed))[-1].public
        totals.add(round(mechanism.view(public).total.value, 6))
    assert len(totals) == 8


def test_empty_streams_end_few_epochs():
    mechanism = stream(horizon=365, selection=Selection(chosen=2))
    last = states(mechanism, [(None, None)] * 365)[-1].public
    assert int(last.epoch) <= 16, "8 by schedule, and few by chance"
    assert mechanism.view(last).total.value < 300


def test_all_is_measured_at_the_horizon():
    last = states(stream(horizon=6), BATCHES)[-1]
    assert int(last.public.closed) == 6 and not last.private.buffer.any()


def test_rows_stay_where_the_view_allows_it():
    mechanism, rng = stream(horizon=30), np.random.default_rng(0)
    table = no_rows(mechanism)
    for state in states(mechanism, [(batch(i, 500), None) for i in range(8)])[1:]:
        view = mechanism.view(state.public)
        if view is None:
            continue
        first = mechanism.sample(view, table, rng)
        again = mechanism.sample(view, first.table, rng)
        assert len(again.removed) < 0.03 * len(first.table)
        table = first.table
    assert len(table.cells) == round(view.total.value) > 0


def test_a_stream_that_moves_is_followed():
    mechanism = stream(privacy=PureDP(epsilon=4), horizon=10, selection=Selection(chosen=3))
    before, after = (batch(1, 1500).with_columns(kind=pl.lit(kind)) for kind in ("a", "c"))
    pairs = [(before, None)] * 5 + [(after, before)] * 5
    view = mechanism.view(states(mechanism, pairs)[-1].public)
    kinds = view.marginal("kind")
    total = view.total.value
    assert kinds.values[2] > 0.85 * total and kinds.values[0] < 0.1 * total


def test_the_view_answers_with_errors():
    mechanism = stream(horizon=6, privacy=PureDP(epsilon=5))
    view = mechanism.view(states(mechanism, BATCHES)[-1].public)
    pair = view.marginal("size", "kind")
    assert pair.columns == ("size", "kind") and pair.values.shape == pair.errors.shape == (5, 3)
    assert np.allclose(pair.values, view.marginal("kind", "size").values.T)
    assert (pair.values >= 0).all() and (pair.errors > 0).all()
    assert pair.values.sum() == pytest.approx(view.total.value)
    assert view.count() == view.total
    assert view.count(kind="a").value == pytest.approx(view.marginal("kind").values[0])
    assert view.count(kind=["a", "b"], size=(1, 2)).value == pytest.approx(
        pair.values[1:3, :2].sum()
    )
    assert view.count(price=(0, 3)).error > 0
    assert view.marginal("kind", "paid", "size", "price").values.sum() == pytest.approx(
        view.total.value
    )
    for wrong in ((), ("kind", "kind"), ("colour",)):
        with pytest.raises(ConfigError, match="different columns"):
            view.marginal(*wrong)
    with pytest.raises(ConfigError, match="no column 'colour'"):
        view.count(colour="red")
    with pytest.raises(ConfigError, match="no such value"):
        view.count(kind="z")


def test_a_marginal_that_is_too_large_is_refused():
    wide = Schema(**{f"n{i}": Integer(0, 99) for i in range(4)})
    mechanism = stream(domain=wide, workload=1, horizon=1)
    view = mechanism.view(states(mechanism, [(None, None)])[-1].public)
    with pytest.raises(ConfigError, match="more than 10,000,000 cells"):
        view.marginal("n0", "n1", "n2", "n3")


def test_the_public_state_is_small_and_does_not_grow():
    mechanism = stream(horizon=200)
    found = states(mechanism, [(batch(i % 7, 60), None) for i in range(200)])
    sizes = [len(pack(state.public)) for state in found[50::50]]
    assert max(sizes) < 2 * min(sizes) < 60_000


def test_what_goes_in_comes_out_in_the_same_types(tmp_path):
    mechanism = stream(horizon=4, privacy=PureDP(epsilon=20))
    with Stream.create(
        tmp_path / "shop.tail", mechanism, population="shop", noise=Noise.insecure(1)
    ) as run:
        releases = [run.push(rows, deletes=deletes) for rows, deletes in BATCHES[:4]]
        last = releases[-1]
        assert last.table.columns == list(SHOP.columns)
        assert [str(kind) for kind in last.table.dtypes] == [
            "String",
            "Boolean",
            "String",
            "Int64",
            "Float64",
        ]
        sums = last.view.marginal("size").values
    with Stream.open(tmp_path / "shop.tail") as run:
        again = run.release(4)
        assert again.table.equals(last.table) and again.changes.added.equals(last.changes.added)
        assert np.array_equal(again.view.marginal("size").values, sums)


def in_order(steps, many=400):
    """Rows whose kind changes with time, and whose size hangs on it."""
    for step in range(steps):
        rng = np.random.default_rng(step)
        kind = np.array(["a", "b", "c"])[3 * step // steps]
        share = 0.2 if kind == "a" else 0.7
        frame = batch(step, many).with_columns(
            kind=pl.lit(kind), size=pl.Series(rng.binomial(5, share, many))
        )
        yield frame, None


def test_columns_that_drift_are_measured_in_stretches():
    """What comes in order is known soon, and pairs with it though they are never measured."""
    mechanism = stream(privacy=PureDP(epsilon=20), horizon=30, deletes=False)
    batches = list(in_order(30))
    found = states(mechanism, batches)
    ends = [len(state.public.opening) > 0 for state in found[1:]]
    assert sum(ends) > 8, "most steps lie in an epoch with an earlier stretch"
    for step in (14, 28):
        view, true = mechanism.view(found[step].public), truth(mechanism, batches[:step])
        pair = mechanism.marginals.index((0, 3))
        shown, exact = view.marginal("kind", "size").values, mechanism.marginals.part(true, pair)
        assert np.abs(shown - exact).sum() < 0.12 * exact.sum()
    last = found[-1]
    assert not len(last.public.opening) and not len(last.public.track.gain)


def test_columns_that_stay_are_measured_once_an_epoch():
    mechanism = stream(privacy=PureDP(epsilon=4), horizon=30, deletes=False)
    found = states(mechanism, [(batch(step, 400), None) for step in range(30)])
    assert not any(len(state.public.opening) for state in found)


def test_where_nothing_happens_hardly_a_row_changes():
    """In nine of ten empty steps none does, and no epoch closes without events."""
    mechanism = stream(privacy=PureDP(epsilon=2), horizon=60)
    batches = [(batch(step, 500), None) for step in range(16)]
    noise, changed, closes = Noise.insecure(5), [], 0
    found = states(mechanism, [*batches, *[(None, None)] * 44], noise)
    table = mechanism.sample(
        mechanism.view(found[20].public), no_rows(mechanism), noise.at("first").generator()
    ).table
    for before, state in pairwise(found[20:]):
        rng = noise.at("sample", int(state.public.step)).generator()
        sample = mechanism.sample(mechanism.view(state.public), table, rng)
        born = len(sample.table) - len(table) + len(sample.removed)
        changed.append((len(sample.removed) + born) / len(table))
        closes += int(state.public.epoch) > int(before.public.epoch)
        table = sample.table
    assert np.mean(np.array(changed) == 0) >= 0.9 and np.mean(changed) <= 1e-3
    assert closes <= 1, "the last events of before"


def covered(view, mechanism, true):
    """The share of cells within 1.96 standard errors, of those above two: columns, pairs."""
    inside = {1: [], 2: []}
    for j, clique in enumerate(mechanism.marginals.cliques):
        shown = view.marginal(*(SHOP.columns[axis] for axis in clique))
        exact = mechanism.marginals.part(true, j)
        near = np.abs(shown.values - exact) <= 1.96 * shown.errors
        inside[len(clique)] += near[exact > 2 * shown.errors].tolist()
    return inside


def test_intervals_cover_what_they_should():
    """95 % of columns and of pairs, measured or not; neither none nor all of the errors are said."""
    mechanism, found = stream(horizon=12, deletes=False, privacy=PureDP(epsilon=2)), {1: [], 2: []}
    batches = [(batch(step, 500), None) for step in range(12)]
    for seed in range(6):
        seen = states(mechanism, batches, Noise.insecure(seed))
        for step in (6, 12):
            view, true = mechanism.view(seen[step].public), truth(mechanism, batches[:step])
            for ways, inside in covered(view, mechanism, true).items():
                found[ways] += inside
    assert all(0.88 < np.mean(inside) < 0.995 for inside in found.values()), {
        ways: np.mean(inside) for ways, inside in found.items()
    }
