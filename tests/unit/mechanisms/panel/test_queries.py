import itertools

import numpy as np
import pytest

from tailrace import ConfigError
from tailrace.mechanisms.panel.queries import AtLeast, Pattern, Spell, Weighted


def held(query, values):
    """The windows, as tuples of values, that a query holds for."""
    weights = query.weights(values)
    assert weights.shape == (len(values),) * query.length
    return {
        tuple(values[code] for code in codes) for codes in zip(*np.nonzero(weights), strict=True)
    }


def test_the_four_questions_of_a_quarter():
    every = set(itertools.product([0, 1], repeat=3))
    assert held(AtLeast(times=1, of=3), [0, 1]) == every - {(0, 0, 0)}
    assert held(AtLeast(times=2, of=3), [0, 1]) == {(0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 1, 1)}
    assert held(Spell(times=2, of=3), [0, 1]) == {(0, 1, 1), (1, 1, 0), (1, 1, 1)}
    assert held(AtLeast(times=3, of=3), [0, 1]) == {(1, 1, 1)}


def test_values_are_the_users_own():
    states = ["work", "school", "home", None]
    assert held(AtLeast(times=2, of=2, value="home"), states) == {("home", "home")}
    assert held(Pattern("school", ..., None), states) == {
        ("school", state, None) for state in states
    }
    assert held(Spell(times=1, of=1, value="work"), states) == {("work",)}
    assert held(AtLeast(times=1, of=1), [False, True]) == {(True,)}
    assert held(AtLeast(times=1, of=1), ["no", "yes", None]) == {("yes",)}, (
        "a missing value is no value"
    )


def test_any_weights_will_do():
    weights = np.array([[0.0, 1.0], [1.0, 2.0]])
    assert (Weighted(weights).weights([0, 1]) == weights).all() and Weighted(weights).length == 2


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: AtLeast(times=4, of=3), "must not be above"),
        (lambda: Spell(times=2, of=0), "of must be"),
        (lambda: Pattern(), "at least one value"),
        (lambda: AtLeast(times=1, of=2).weights(["a", "b", "c"]), "more than two values"),
        (lambda: Pattern("x").weights(["a", "b"]), "no such value"),
        (lambda: AtLeast(times=1, of=1, value=True).weights([0, 1]), "no such value"),
        (lambda: Weighted(np.ones((2, 3))).weights([0, 1]), "an axis per step"),
    ],
)
def test_what_cannot_be_asked_is_refused(ask, words):
    with pytest.raises(ConfigError, match=words):
        ask()
