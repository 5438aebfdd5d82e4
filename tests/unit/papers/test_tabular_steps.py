"""The tabular stream step by step, and batches apart: the papers' algorithms, corrected."""

import itertools
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pytest

from samples import LOSSES, UNITS, UNITS_AND_LOSSES, changing, growing, states, truth
from tailrace import (
    ZCDP,
    Categorical,
    Event,
    Integer,
    Noise,
    PureDP,
    Schema,
    User,
    counters,
    papers,
)
from tailrace.checks import check_mechanism
from tailrace.checks.spy import Spy
from tailrace.errors import ConfigError
from tailrace.mechanisms.tabular.workloads import flat
from tailrace.models.tables import JunctionTree, MultiplicativeWeights
from tailrace.papers import TabularSteps
from tailrace.stream.state import no_rows

SHOP = Schema(
    kind=Categorical(["a", "b", "c"]),
    paid=Categorical([False, True]),
    country=Categorical(["only"]),  # one value: public, and in no workload
    size=Integer(0, 4, outside="clip"),
    price=Integer(0, 3, outside="other"),
)


def batch(seed, count=200):
    """Columns that depend on each other, with values outside the domain."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(["a", "b", "c", "?"], count, p=[0.5, 0.3, 0.15, 0.05])
    size = rng.binomial(5, np.where(kind == "a", 0.2, 0.7))
    paid, price = rng.random(count) < np.where(size > 2, 0.9, 0.3), rng.poisson(size / 2)
    columns = {
        "kind": kind,
        "paid": paid,
        "country": ["only"] * count,
        "size": size,
        "price": price,
    }
    return pl.DataFrame({**columns, "id": rng.integers(0, 60, count)})


BATCHES = changing(batch, 900)
ADDS = growing(BATCHES)


def steps(**changes):
    about = {
        "domain": SHOP,
        "privacy": PureDP(epsilon=1),
        "unit": Event(),
        "horizon": 12,
        "chosen": 2,
    }
    return TabularSteps(**{**about, **changes})


@UNITS_AND_LOSSES
@pytest.mark.parametrize(
    ("changes", "batches"),
    [
        ({}, BATCHES),
        pytest.param({"apart": True, "deletes": False}, ADDS, marks=pytest.mark.slow),
    ],
    ids=["together", "apart"],
)
def test_conformance(unit, privacy, changes, batches):
    check_mechanism(steps(unit=unit, privacy=privacy, **changes), batches)


@pytest.mark.parametrize(
    "counter",
    [
        counters.UnboundedBlock(),
        pytest.param(counters.UnboundedBlock(squares=True), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_any_counter_counts_on_also_without_a_horizon(counter):
    mechanism = steps(horizon=None, counter=counter)
    check_mechanism(mechanism, BATCHES)
    assert mechanism.guarantee.horizon is None and mechanism.guarantee.loss == PureDP(epsilon=1)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: type(unit).__name__)
@pytest.mark.parametrize("privacy", LOSSES, ids=lambda privacy: type(privacy).__name__)
@pytest.mark.parametrize("chosen", [1, 3, 100])
@pytest.mark.parametrize("counter", [None, counters.Simple(), counters.Block(size=3)], ids=str)
def test_the_guarantee_is_what_was_asked_for(unit, privacy, chosen, counter):
    loss = steps(unit=unit, privacy=privacy, chosen=chosen, counter=counter).guarantee.loss
    if isinstance(privacy, PureDP):
        assert loss == privacy
    elif isinstance(privacy, ZCDP):
        assert privacy.rho * (1 - 10**-9) < loss.as_zcdp().rho <= privacy.rho
    else:
        assert privacy.epsilon * (1 - 10**-6) < loss.epsilon <= privacy.epsilon


def test_the_parts_of_the_budget():
    mechanism = steps(
        privacy=PureDP(epsilon=2), chosen=3, total="1/4", selection="1/3", counter=counters.Simple()
    )
    assert mechanism.totals.loss() == PureDP(epsilon="1/2")
    assert mechanism.choice.loss(1, 0) == PureDP(epsilon="1/2")
    assert mechanism.counting.privacy == PureDP(epsilon="1/3")  # three of them: one
    user = steps(unit=User(column="id", events=2), chosen=3, counter=counters.Simple())
    assert (
        user.counting.privacy.epsilon * 4
        == steps(chosen=3, counter=counters.Simple()).counting.privacy.epsilon
    )


@pytest.mark.parametrize("apart", [False, True])
def test_each_step_draws_what_is_paid_for(apart):
    mechanism, spy = (
        steps(apart=apart, deletes=not apart, counter=counters.Simple()),
        Spy(Noise.insecure(1)),
    )
    states(mechanism, ADDS if apart else BATCHES, spy)
    for step in range(1, 7):
        drawn = [one for one in spy.record if one.path[1] == step and "total" not in one.path]
        assert [one.kind for one in drawn] == ["choose", "laplace"] * 2
        assert {one.parameter for one in drawn} == {
            mechanism.choice.rate,
            mechanism.counting.atoms.scale,
        }


@pytest.mark.parametrize("apart", [False, True])
def test_all_workloads_without_noise_are_exact(apart):
    """Where every workload is chosen and nothing is noisy, what is fitted are the true counts."""
    mechanism = steps(privacy=PureDP(epsilon=1000), chosen=100, apart=apart, deletes=not apart)
    batches = ADDS if apart else BATCHES
    for many, state in enumerate(states(mechanism, batches, Spy(None))[1:], start=1):
        true = truth(mechanism, batches[:many])
        assert np.allclose(state.public.counted, true)
        assert float(state.public.total) == mechanism.marginals.part(true, 0).sum()
        if not apart:
            assert np.allclose(state.public.shown, true)
            continue
        # a batch without rows still counts one: no table is empty
        assert np.abs(state.public.shown - true).sum() < 0.06 * true.sum() + 6 * many


def test_what_a_workload_missed_comes_from_the_table():
    """Alg. 3, lines 16, 17 and 21: m = C + r, and r changes where a workload is not chosen."""
    mechanism = steps(privacy=PureDP(epsilon=20))
    found = [state.public for state in states(mechanism, BATCHES)]
    for before, after in itertools.pairwise(found[1:]):
        says = flat(mechanism.marginals, mechanism._model(after))
        for j in range(len(mechanism.marginals.cliques)):
            part = [
                mechanism.marginals.part(values, j)
                for values in (before.shown, before.counted, after.shown)
            ]
            counted = mechanism.marginals.part(after.counted, j)
            if after.fed[j] == before.fed[j]:
                assert np.array_equal(counted, part[1])
                assert np.allclose(part[2], mechanism.marginals.part(says, j))
            else:
                assert np.allclose(part[2] - counted, part[0] - part[1], atol=1e-6), (
                    "r stays as it was"
                )


@dataclass(frozen=True)
class Watched(JunctionTree):
    """A junction tree that remembers what it was asked to fit, and what came of it."""

    seen: list = field(default_factory=list)

    def fit(self, shape, measured, *, total, start=None, keep=False, work=None):
        model = super().fit(shape, measured, total=total, start=start, keep=keep, work=work)
        self.seen.append((tuple(one.clique for one in measured), start, keep, model))
        return model


def test_a_step_fits_its_own_workloads_alone_and_moves_on_from_the_table_before():
    """Alg. 3, line 18: what is fitted is I_(t,l), and h_(t,l-1) is where it begins."""
    fit = Watched()
    mechanism = steps(fit=fit, chosen=2, privacy=PureDP(epsilon=20))
    found = [state.public for state in states(mechanism, BATCHES)]
    calls = iter([call for call in fit.seen if call[0]])
    for before, after in itertools.pairwise(found):
        chosen = {mechanism.marginals.cliques[j] for j in np.flatnonzero(after.fed - before.fed)}
        (one, start, keep, model), (two, middle, also, _) = next(calls), next(calls)
        assert set(two) == chosen and set(one) < chosen and keep and also and middle is model
        if int(before.step):
            assert np.array_equal(start.pack()[1], before.values), "it begins at the table before"
    assert next(calls, None) is None


@pytest.mark.parametrize(
    "fit", [JunctionTree(), MultiplicativeWeights()], ids=lambda fit: type(fit).__name__
)
def test_more_data_of_one_kind_teach_the_table(fit):
    """Where nothing moves, the error of all pairs falls as steps go by."""
    bits = Schema(**{name: Integer(0, 1) for name in "abcdef"})
    mechanism = papers.tabular_stream(
        domain=bits,
        privacy=PureDP(epsilon=2),
        unit=Event(),
        horizon=80,
        chosen=2,
        fit=fit,
        deletes=False,
    )

    def rows(seed):
        rng = np.random.default_rng(seed)
        first = rng.random(200) < 0.3
        columns = {"a": first} | {
            name: np.where(rng.random(200) < 0.85, first, rng.random(200) < 0.2) for name in "bcdef"
        }
        return pl.DataFrame({name: values.astype(int) for name, values in columns.items()})

    batches = [(rows(seed), None) for seed in range(80)]
    found, errors = states(mechanism, batches), []
    for many in (10, 80):
        true = truth(mechanism, batches[:many])
        says = flat(mechanism.marginals, mechanism._model(found[many].public))
        errors.append(np.abs(says - true).sum() / true.sum())
    assert errors[1] < errors[0] / 2, errors


def test_no_more_workloads_are_chosen_than_there_are():
    mechanism = steps(chosen=100)
    assert mechanism.choice is None
    last = states(mechanism, BATCHES)[-1].public
    assert last.fed.tolist() == [6] * 6


def test_a_workload_is_chosen_once_in_a_step():
    for state in states(steps(chosen=5), BATCHES)[1:]:
        assert state.public.fed.max() <= int(state.public.step)
        assert state.public.fed.sum() == 5 * int(state.public.step)


def test_the_total_comes_from_noise_alone():
    """The published step scales its table to the true size of the batch (privacy d3)."""
    mechanism = steps()
    totals = {
        float(states(mechanism, BATCHES[:1], Noise.insecure(seed))[-1].public.total)
        for seed in range(6)
    }
    assert len(totals) == 6
    empty = states(mechanism, [(None, None)] * 3)[-1].public
    assert np.isfinite(empty.shown).all() and float(empty.held) >= 1


@pytest.mark.parametrize("apart", [False, True])
def test_the_table_follows_the_data(apart):
    mechanism = steps(
        privacy=PureDP(epsilon=40), apart=apart, deletes=not apart, horizon=30, chosen=4
    )
    batches = [(batch(i, 400), None) for i in range(12)]
    view = mechanism.view(states(mechanism, batches)[-1].public)
    true = truth(mechanism, batches)
    for j, clique in enumerate(mechanism.marginals.cliques):
        found = view.marginal(*(SHOP.columns[axis] for axis in clique)).values
        assert np.abs(found - mechanism.marginals.part(true, j)).sum() < 0.25 * found.sum()


def test_batches_apart_are_added_up_row_by_row():
    mechanism, rng = (
        steps(apart=True, deletes=False, privacy=PureDP(epsilon=20)),
        np.random.default_rng(0),
    )
    table = no_rows(mechanism)
    for state in states(mechanism, ADDS)[1:]:
        view = mechanism.view(state.public)
        sample = mechanism.sample(view, table, rng)
        kept = 1 - len(sample.removed) / len(table) if len(table) else 1.0
        assert kept == 1.0 or len(sample.table.cells) < len(table.cells), (
            "rows leave only where the total falls"
        )
        table = sample.table
        assert len(table.cells) == round(view.total.value)
    assert view.marginal("kind").values.sum() == pytest.approx(view.total.value)
    assert view.marginal("country", "kind").values.shape == (1, 3)
    with pytest.raises(ConfigError, match="of their workloads only"):
        view.marginal("kind", "paid", "size")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"chosen": 0}, "chosen must be a whole number"),
        ({"total": 1}, "total"),
        ({"selection": 2}, "selection"),
        ({"counter": counters.Simple}, "counter must be a counter"),
        ({"unit": User(column="id")}, "bound on the events"),
        ({"fit": JunctionTree(limit=3)}, "fit may hold 3 cells"),
        ({"privacy": None}, "privacy must be"),
    ],
)
def test_what_cannot_work_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        steps(**changes)


def test_the_papers_configurations():
    bits = Schema(a=Integer(0, 1), b=Integer(0, 1), c=Integer(0, 1))
    common = {"domain": bits, "privacy": PureDP(epsilon=1), "unit": Event(), "horizon": 9}
    ours, mwem = papers.tabular_stream(**common), papers.streaming_mwem(**common)
    assert type(ours.counting) is type(mwem.counting) is counters.Simple
    assert (ours.apart, mwem.apart, mwem.deletes) == (False, True, False)
    fit = JunctionTree(limit=64)
    assert papers.tabular_stream(**common, fit=fit).fit is fit
    block = papers.tabular_stream(
        **{**common, "horizon": None}, counter=counters.UnboundedBlock(squares=True)
    )
    assert block.guarantee.loss == PureDP(epsilon=1)
