import numpy as np
import pytest

from tailrace import (
    ZCDP,
    AddRemove,
    ConfigError,
    DataError,
    Integer,
    Noise,
    Replace,
    Schema,
    User,
    papers,
)
from tailrace.metrics.panels import (
    cumulative_bound,
    weight_counts,
    window_bound,
    window_counts,
)
from tailrace.report.runs import panel_report


def panel(seed, people=50, steps=6):
    return (np.random.default_rng(seed).random((steps, people)) < 0.3).astype(int)


def test_windows_and_weights_are_counted_as_they_are_defined():
    codes = panel(1)
    windows, weights = window_counts(codes, window=3), weight_counts(codes)
    for t in range(3, 7):
        for pattern in range(8):
            wanted = np.array([int(bit) for bit in f"{pattern:03b}"])
            assert windows[t - 3, pattern] == (wanted == codes[t - 3 : t].T).all(axis=1).sum()
    for t in range(1, 7):
        for b in range(1, 7):
            assert weights[t - 1, b - 1] == (codes[:t].sum(axis=0) >= b).sum()


def test_the_bounds_are_those_of_the_papers_own_method():
    common = {
        "domain": Schema(p=Integer(0, 1)),
        "unit": User(column="id"),
        "window": 3,
        "horizon": 12,
        "privacy": ZCDP(rho=0.005),
    }
    for neighbours in (AddRemove, Replace):
        bound = window_bound(
            people=1, horizon=12, window=3, rho=0.005, beta=0.05, replaced=neighbours is Replace
        )
        assert papers.panel_window(neighbours=neighbours, **common).padding == np.ceil(bound)
    assert cumulative_bound(people=100, horizon=1, rho=0.5, beta=0.5) == pytest.approx(
        np.sqrt(2 * np.log(2)) / 100
    )


def test_what_is_no_panel_is_refused():
    with pytest.raises(ConfigError):
        window_counts(panel(1), window=7)
    with pytest.raises(DataError):
        weight_counts(np.ones((3, 2)))


def test_the_report_shows_every_question_and_says_whether_it_is_private():
    codes = panel(3, people=200, steps=12)
    options = {"privacy": ZCDP(rho=1), "neighbours": AddRemove, "repetitions": 3}
    made = panel_report(codes, generated=True, noise=Noise.insecure(1), **options)
    assert made.count("<svg") == 5 and "PRIVATE" not in made and "nobody is in it" in made
    assert made.count("quarter 4</text>") == 4 and "month 12</text>" in made
    assert "PRIVATE" in panel_report(codes, generated=False, noise=Noise.insecure(1), **options)
