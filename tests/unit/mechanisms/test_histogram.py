import numpy as np
import polars as pl
import pytest

from samples import LOSSES
from tailrace import (
    ZCDP,
    Categorical,
    ConfigError,
    Event,
    HistogramStream,
    Integer,
    Noise,
    PureDP,
    Real,
    Schema,
    Stream,
    User,
    Window,
    counters,
)
from tailrace.models.postprocess import on_simplex, rounded

WARD = Schema(sex=Categorical(["f", "m"]), age=Integer(0, 3), weight=Real(edges=[0, 50, 100]))
FRAME = pl.DataFrame(
    {"sex": ["f"] * 60 + ["m"] * 40, "age": [0, 1, 2, 3] * 25, "weight": [10.0, 90.0] * 50}
)


def exact_view():
    """A view with hardly any noise."""
    stream = Stream(
        HistogramStream(domain=WARD, privacy=PureDP(epsilon=900), unit=Event(), horizon=1)
    )
    return stream.push(FRAME).view


def test_counts_of_any_part_come_with_standard_errors():
    view = exact_view()
    assert round(view.count().value) == 100
    assert round(view.count(sex="f").value) == 60
    assert round(view.count(sex=["f", "m"], age=(1, 2)).value) == 50
    assert round(view.count(weight=(0, 50)).value) == 50
    assert view.count(weight=(0, 25)).value == pytest.approx(25, abs=0.1), "half a bin counts half"
    noisy = (
        Stream(HistogramStream(domain=WARD, privacy=PureDP(epsilon=1), unit=Event(), horizon=1))
        .push(FRAME)
        .view
    )
    assert noisy.count(sex="f").error == pytest.approx(np.sqrt(8 * noisy.variance))
    assert str(noisy.count()).count("+-") == 1


def test_marginals_keep_the_order_of_columns():
    view = exact_view()
    by_age_and_sex, error = view.marginal("age", "sex")
    assert by_age_and_sex.shape == (4, 2)
    assert round(by_age_and_sex[:, 0].sum()) == 60
    assert error == pytest.approx(np.sqrt(2 * view.variance))


@pytest.mark.parametrize("question", [{"height": 1}, {"sex": "x"}, {"weight": 3}, {"age": 9}])
def test_questions_outside_the_domain_are_refused(question):
    with pytest.raises(ConfigError):
        exact_view().count(**question)


def test_intervals_cover_the_truth():
    """95 % intervals over many streams and steps cover 93 to 97 % of the truth."""
    mechanism = HistogramStream(domain=WARD, privacy=PureDP(epsilon=1), unit=Event(), horizon=16)
    noise, hits, total = Noise.insecure(1), 0, 0
    cells = mechanism.plan(None).count(FRAME)
    from tailrace.counting.plan import Counts

    for run in range(150):
        state = mechanism.init()
        for t in range(1, 9):
            state = mechanism.measure(state, Counts(cells, 0 * cells), noise.at(run, t)).state
            view = mechanism.view(state.public)
            answer = view.count(sex="f", age=(0, 1))
            truth = t * cells.reshape(WARD.shape)[0, :2].sum()
            hits, total = hits + (abs(answer.value - truth) < 1.96 * answer.error), total + 1
    assert 0.93 < hits / total < 0.975


@pytest.mark.parametrize("privacy", LOSSES)
@pytest.mark.parametrize(
    "unit", [Event(), User(column="id", events=1), User(column="id", events=5)]
)
@pytest.mark.parametrize("deletes", [True, False])
def test_the_guarantee_is_the_declared_loss_of_the_declared_unit(privacy, unit, deletes):
    mechanism = HistogramStream(
        domain=WARD, privacy=privacy, unit=unit, horizon=100, deletes=deletes
    )
    loss = mechanism.guarantee.loss
    asked = float(privacy.rho if isinstance(privacy, ZCDP) else privacy.epsilon)
    if isinstance(loss, ZCDP):
        assert float(loss.rho) == pytest.approx(asked)
    elif isinstance(privacy, ZCDP):
        assert float(loss.as_zcdp().rho) == pytest.approx(asked)
    else:
        assert float(loss.epsilon) == pytest.approx(asked, rel=1e-6)
        assert loss.epsilon <= privacy.epsilon


def test_a_user_without_deletes_pays_half():
    with_deletes, without = (
        HistogramStream(
            domain=WARD,
            privacy=PureDP(epsilon=1),
            unit=User(column="id", events=2),
            horizon=9,
            deletes=deletes,
        )
        for deletes in (True, False)
    )
    assert with_deletes.counting.privacy == PureDP(epsilon="1/4")
    assert without.counting.privacy == PureDP(epsilon="1/2")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"domain": "ward"}, "domain must be a Schema"),
        ({"domain": Schema(a=Integer(0, 9999), b=Integer(0, 9999))}, "more than 10,000,000 bins"),
        ({"privacy": 1.0}, "privacy must be"),
        ({"horizon": 0}, "horizon must be"),
        ({"unit": User(column="id")}, "protects Event"),
        ({"unit": User(column="id", records=1)}, "protects Event"),
        ({"unit": Window(steps=3, column="id", records=1)}, "protects Event"),
        ({"counter": counters.SqrtToeplitz()}, "cannot give PureDP"),
        ({"counter": counters.BinaryTree(), "horizon": None}, "needs horizon="),
    ],
)
def test_configurations_that_cannot_work_are_refused_at_once(change, message):
    sound = {"domain": WARD, "privacy": PureDP(epsilon=1), "unit": Event(), "horizon": 10}
    with pytest.raises(ConfigError, match=message):
        HistogramStream(**{**sound, **change})


def test_the_nearest_nonnegative_numbers_of_the_same_sum():
    rng = np.random.default_rng(0)
    for _ in range(50):
        values = rng.normal(1, 5, 30)
        total = max(values.sum(), 0.0)
        nearest = on_simplex(values, total)
        assert (nearest >= 0).all() and nearest.sum() == pytest.approx(total)
        for _ in range(20):  # no other point of the simplex is nearer
            other = rng.dirichlet(np.ones(30)) * total
            assert ((nearest - values) ** 2).sum() <= ((other - values) ** 2).sum() + 1e-9
    assert not on_simplex(np.array([-3.0, 1.0]), -2.0).any()
    assert on_simplex(np.zeros(0), 1.0).shape == (0,)
    # A total that is lost beside the values.
    assert not on_simplex(np.array([1e17, -1e17]), 1.0).any()


def test_rounding_keeps_the_sum_and_moves_nothing_by_more_than_one():
    values = np.random.default_rng(0).exponential(3, 1000)
    whole = rounded(values)
    assert whole.sum() == round(values.sum())
    assert np.abs(whole - values).max() < 1
