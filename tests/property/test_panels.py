"""Panels on random streams: what was shown never changes, and people do what people can do."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samples import examples, released
from tailrace import (
    ZCDP,
    AddRemove,
    Integer,
    Noise,
    Null,
    PanelCumulative,
    PanelWindow,
    Replace,
    Schema,
    User,
)

RELATIONS = st.sampled_from([AddRemove, Replace, Null])
BUDGETS = st.sampled_from(["0.0005", "0.05", "5"])


def views(mechanism, counts, seed):
    """What is shown after each step."""
    return map(mechanism.view, released(mechanism, counts, Noise.insecure(seed)))


def common(draw, horizon, complete=True):
    neighbours = draw(RELATIONS)
    return {
        "unit": User(column="id"),
        "horizon": horizon,
        "privacy": ZCDP(rho=draw(BUDGETS)),
        "neighbours": neighbours,
        "people": None if neighbours is AddRemove else draw(st.integers(1, 60)),
        "complete": complete,
    }


@st.composite
def window_streams(draw):
    values, window, more = draw(st.integers(2, 4)), draw(st.integers(1, 3)), draw(st.integers(0, 5))
    mechanism = PanelWindow(
        domain=Schema(s=Integer(0, values - 1)),
        window=window,
        raw_bins=draw(st.booleans()),
        padding=draw(st.sampled_from([0, 0, 3])),
        **common(draw, window + more),
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    counts = rng.poisson(rng.choice([0.0, 1.0, 30.0], (window + more, values**window)))
    return mechanism, counts, draw(st.integers(0, 2**32))


@st.composite
def open_streams(draw):
    values, window, more = draw(st.integers(2, 3)), draw(st.integers(1, 3)), draw(st.integers(0, 5))
    mechanism = PanelWindow(
        domain=Schema(s=Integer(0, values - 1)),
        window=window,
        **common(draw, window + more, complete=False),
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    counts = rng.poisson(rng.choice([0.0, 1.0, 30.0], (window + more, (values + 1) ** window)))
    return mechanism, counts, draw(st.integers(0, 2**32))


@st.composite
def weight_streams(draw):
    horizon, complete = draw(st.integers(1, 7)), draw(st.booleans())
    domain = Schema(s=Integer(0, 1))
    mechanism = PanelCumulative(domain=domain, **common(draw, horizon, complete))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    counts = rng.poisson(rng.choice([0.0, 1.0, 30.0], (horizon, horizon + 1)))
    return mechanism, counts, draw(st.integers(0, 2**32))


@examples(1000)
@given(window_streams())
def test_the_columns_of_a_window_panel_never_change(stream):
    mechanism, counts, seed = stream
    size, window = mechanism.domain.size, mechanism.window
    shown = list(views(mechanism, counts, seed))
    assert all(view is None for view in shown[: window - 1])
    shown = shown[window - 1 :]
    for step, view in enumerate(shown, window):
        assert (
            view.codes.shape == (step, shown[0].histograms[0].sum()) and (view.codes < size).all()
        )
        ends = sum(
            view.codes[step - window + place].astype(int) * size ** (window - 1 - place)
            for place in range(window)
        )
        assert np.bincount(ends, minlength=size**window).tolist() == view.histograms[-1].tolist()
    for before, after in itertools.pairwise(shown):
        assert (after.codes[:-1] == before.codes).all()
        assert (after.histograms[:-1] == before.histograms).all() and (after.histograms >= 0).all()
        going = before.histograms[-1].reshape(size, -1).sum(axis=0)
        assert (after.histograms[-1].reshape(-1, size).sum(axis=1) == going).all(), (
            "people neither come nor go"
        )


@examples(1000)
@given(open_streams())
def test_people_who_are_born_and_gone_keep_their_columns(stream):
    mechanism, counts, seed = stream
    size, window = mechanism.symbols, mechanism.window
    shown = list(views(mechanism, counts, seed))[window - 1 :]
    for step, view in enumerate(shown, window):
        assert len(view.codes) == step and (view.codes < size).all()
        ends = sum(
            view.codes[step - window + place].astype(int) * size ** (window - 1 - place)
            for place in range(window)
        )
        counted = np.bincount(ends, minlength=size**window)[:-1]
        assert counted.tolist() == view.histograms[-1][:-1].tolist(), "all but those who are gone"
        assert view.histograms[-1][-1] == 0
    for before, after in itertools.pairwise(shown):
        known = before.codes.shape[1]
        assert (after.codes[:-1, :known] == before.codes).all()
        assert (after.codes[:-1, known:] == size - 1).all(), "absent before they are born"
        assert (after.codes[-1, :known][~before.alive] == size - 1).all(), "gone is gone"
        going = before.histograms[-1].reshape(size, -1).sum(axis=0)[:-1]
        assert (after.histograms[-1].reshape(-1, size).sum(axis=1)[:-1] == going).all()


@pytest.mark.slow
@examples(1000)
@given(weight_streams())
def test_weights_rise_by_at_most_one_and_columns_never_change(stream):
    mechanism, counts, seed = stream
    shown = list(views(mechanism, counts, seed))
    for step, view in enumerate(shown, 1):
        totals = view.totals
        assert view.codes.shape == (step, totals[-1, 0]) and (view.codes <= 2).all()
        weights = (view.codes == 1).sum(axis=0)
        assert [(weights >= b).sum() for b in range(mechanism.horizon + 1)] == totals[-1].tolist()
        assert (np.diff(totals, axis=0) >= 0).all()
        assert not mechanism.complete or (totals[:, 0] == totals[0, 0]).all()
        assert (totals[1:, 2:] <= totals[:-1, 1:-1]).all(), "nobody's weight rises by two"
        assert (totals[:, 1] <= totals[:, 0]).all()
        assert not totals[-1, step + 1 :].any()
    for before, after in itertools.pairwise(shown):
        known = before.codes.shape[1]
        assert (after.codes[:-1, :known] == before.codes).all()
        assert (after.codes[:-1, known:] == 2).all(), "absent before they join"
