import copy
import os
import pickle
import threading
from fractions import Fraction

import numba
import numpy as np
import pytest

import tailrace.noise.source as noise_module
from tailrace import ConfigError, DataError, Noise, NoiseReused, StateError
from tailrace.noise import kernel, tables, words

DRAWS = {
    "laplace": lambda noise: noise.laplace(3, 50),
    "gaussian": lambda noise: noise.gaussian(1000, 50),
    "survive": lambda noise: noise.survive(np.arange(50), 0.1),
    "coin": lambda noise: noise.coin(np.arange(-25, 25), 5),
    "choose": lambda noise: noise.choose(np.arange(50), 0.1),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_path_names_its_noise(draw):
    def at(seed, *path):
        return np.asarray(draw(Noise.insecure(seed).at(*path)))

    assert np.array_equal(at(1, "a", 2), at(1, "a", 2))
    others = [at(1, "a", 3), at(1, "a", "2"), at(2, "a", 2), at(1, "a2")]
    assert sum(np.array_equal(at(1, "a", 2), other) for other in others) <= (
        1 if draw is DRAWS["choose"] else 0
    )


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_second_draw_from_a_path_raises(draw):
    noise = Noise.fresh()
    draw(noise.at("a"))
    with pytest.raises(NoiseReused, match="drawn from before"):
        draw(noise.at("a"))
    draw(noise.at("b"))
    child = noise.at("c")
    draw(child.at(1))
    with pytest.raises(NoiseReused):
        draw(noise.at("c", 1))


@pytest.mark.parametrize("first", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("second", DRAWS.values(), ids=DRAWS)
def test_a_path_serves_one_draw_of_whatever_kind(first, second):
    noise = Noise.fresh()
    first(noise.at("a"))
    with pytest.raises(NoiseReused):
        second(noise.at("a"))
    second(noise.at("a", "tail"))


@pytest.mark.parametrize("shape", [-1, 1.5, None, "3", (2, -1), True])
def test_a_shape_is_made_of_whole_numbers(shape):
    for draw in (lambda n: n.laplace(1, shape), lambda n: n.gaussian(1, shape)):
        with pytest.raises(ConfigError, match="shape must be a whole number"):
            draw(Noise.fresh())


def test_only_one_of_many_threads_gets_a_path():
    noise, wins = Noise.fresh(), []

    def draw():
        try:
            noise.at("a").laplace(1, 10)
            wins.append(1)
        except NoiseReused:
            pass

    threads = [threading.Thread(target=draw) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wins) == 1


def test_fresh_noise_differs_and_says_what_it_is():
    assert not np.array_equal(Noise.fresh().laplace(10, 50), Noise.fresh().laplace(10, 50))
    assert (Noise.fresh().kind, Noise.insecure(1).at("a").kind) == ("fresh", "insecure")
    assert repr(Noise.fresh().at("a", 1)) == "<fresh noise at ('a', 1)>"


@pytest.mark.parametrize(
    "path", [(), (1.5,), (None,), (True,), ("a", b"b"), ("\ud800",), (10**5000,)], ids=range(7)
)
def test_a_path_is_made_of_texts_and_whole_numbers(path):
    with pytest.raises(ConfigError, match="texts and whole numbers"):
        Noise.fresh().at(*path)


def test_numpy_integers_name_the_same_path_as_ints():
    assert np.array_equal(
        Noise.insecure(1).at(np.int64(3)).laplace(9, 20), Noise.insecure(1).at(3).laplace(9, 20)
    )


@pytest.mark.parametrize("seed", [None, 1.0, True, "1"])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(ConfigError, match="whole number as its seed"):
        Noise.insecure(seed)


def test_noise_is_not_made_by_hand_and_never_copied():
    with pytest.raises(ConfigError, match=r"Noise\.fresh\(\)"):
        Noise(b"secret")  # type: ignore[arg-type]
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(StateError, match="cannot be copied or pickled"):
            attempt(Noise.fresh())


def in_child(draw):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, draw().tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    return np.frombuffer(os.read(read, 10**5), np.int64)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork_fresh_noise_goes_its_own_way():
    fresh, seeded = Noise.fresh(), Noise.insecure(1)
    theirs = [in_child(lambda: fresh.at("a").laplace(100, 50)) for _ in range(2)]
    mine = fresh.at("a").laplace(100, 50)
    assert not np.array_equal(theirs[0], mine) and not np.array_equal(theirs[0], theirs[1])
    assert np.array_equal(
        in_child(lambda: seeded.at("a").laplace(100, 50)), seeded.at("a").laplace(100, 50)
    )


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), "x", None])
def test_bad_parameters_are_refused_before_a_path_is_spent(bad):
    noise = Noise.fresh()
    for attempt in (
        lambda: noise.laplace(bad, 1),
        lambda: noise.gaussian(bad, 1),
        lambda: noise.survive(np.arange(3), bad),
        lambda: noise.coin(np.arange(3), bad),
        lambda: noise.choose(np.arange(3), bad),
    ):
        with pytest.raises(ConfigError, match="must be a finite number above 0"):
            attempt()
    noise.laplace(1, 1)


@pytest.mark.parametrize("scale", [Fraction(1, 1001), 10**9 + 1])
def test_scales_beyond_the_range_are_refused(scale):
    for attempt in (
        lambda n: n.laplace(scale, 1),
        lambda n: n.gaussian(Fraction(scale) ** 2, 1),
        lambda n: n.coin(np.arange(2), scale),
    ):
        with pytest.raises(ConfigError, match=r"must lie between .*1/1000 and 1,000,000,000"):
            attempt(Noise.fresh())


def test_floats_never_meet_noise():
    for attempt in (
        lambda n: n.survive(np.zeros(2), 1),
        lambda n: n.coin(np.zeros(2), 1),
        lambda n: n.choose(np.zeros(2), 1),
    ):
        with pytest.raises(DataError, match="must hold integers"):
            attempt(Noise.fresh())
    with pytest.raises(DataError, match="must not be negative"):
        Noise.fresh().survive(np.array([-1]), 1)
    for scores in (np.zeros((2, 2), int), np.zeros(0, int)):
        with pytest.raises(DataError, match="one-dimensional"):
            Noise.fresh().choose(scores, 1)


def test_no_compiled_draw_contains_a_float():
    for draw in DRAWS.values():
        draw(Noise.fresh())
    for function in (kernel.laplace, kernel.gaussian, kernel.survive, kernel.choose):
        again = numba.njit(function.py_func)  # code from the cache cannot be inspected
        for signature in function.signatures:
            again.compile(signature)
            assert "double" not in again.inspect_llvm(signature)


@pytest.mark.parametrize("shape", [0, 7, (3, 4), (0, 3), (2, 1, 5)])
def test_draws_have_the_shape_asked_for(shape):
    for draw in (Noise.fresh().laplace(2, shape), Noise.fresh().gaussian(2, shape)):
        assert draw.dtype == np.int64 and draw.shape == np.empty(shape).shape


@pytest.mark.parametrize("scale", [Fraction(1, 1000), Fraction(1, 3), 1, 20, 1000, 10**6, 10**9])
def test_where_a_buffer_ends_changes_nothing(scale, monkeypatch):
    def draws():
        noise = Noise.insecure(1)
        return [
            noise.at("l").laplace(scale, 3000),
            noise.at("g").gaussian(Fraction(scale) ** 2, 3000),
            noise.at("s").survive(np.arange(3000) * 977, 1 / Fraction(scale)),
            noise.at("c").choose(np.arange(300), 1 / Fraction(scale)),
        ]

    whole = draws()
    for chunk in (16, 17, 61):
        monkeypatch.setattr(noise_module, "_CHUNK", chunk)
        for a, b in zip(whole, draws(), strict=True):
            assert np.array_equal(a, b)


class Tied:
    """Words that begin with ties: `start`, then random words; what follows a tied word is the given
    continuation.
    """

    def __init__(self, start, continuation):
        self._start, self._rng, self._continuation = (
            list(start),
            np.random.default_rng(0),
            continuation,
        )

    def take(self, count):
        head, self._start = self._start[:count], self._start[count:]
        return np.array(
            [*head, *self._rng.integers(0, 2**64, count - len(head), dtype=np.uint64)],
            dtype=np.uint64,
        )

    def after(self, position):
        self.position = position
        return iter([self._continuation] * 20)


ZEROS, ONES = 0, 2**64 - 1


def first_draw(monkeypatch, words_start, continuation, draw):
    monkeypatch.setattr(Noise, "_words", lambda *_: Tied(words_start, continuation))
    return draw(Noise.insecure(0))[0]


def test_a_tied_word_is_resolved_by_what_follows_it(monkeypatch):
    table = tables.geometric_digits(Fraction(20))[0]
    entry, zero = (
        int(table.words[4]),
        ONES,
    )  # a word of ones is above every survival: the geometric variable is 0
    for continuation, expected in ((ZEROS, 5), (ONES, 4)):
        assert (
            first_draw(monkeypatch, [entry, zero], continuation, lambda n: n.laplace(20, 1))
            == expected
        )
        assert (
            first_draw(monkeypatch, [zero, entry], continuation, lambda n: n.laplace(20, 1))
            == -expected
        )
    both = [entry, entry]
    assert first_draw(monkeypatch, both, ZEROS, lambda n: n.laplace(20, 1)) == 0, (
        "two ties in one value"
    )


def test_ties_of_cells_and_coins_are_resolved_too(monkeypatch):
    cells = tables.gaussian_cells(Fraction(400))[1]
    for continuation, expected in ((ZEROS, 10), (ONES, 9)):
        assert (
            first_draw(
                monkeypatch, [int(cells.words[9]), 0], continuation, lambda n: n.gaussian(400, 1)
            )
            == expected
        )
    coins = tables.coin_words(Fraction(1, 7))
    for continuation, expected in ((ZEROS, True), (ONES, False)):
        assert (
            first_draw(
                monkeypatch,
                [int(coins[3])],
                continuation,
                lambda n: n.survive(np.array([3]), Fraction(1, 7)),
            )
            == expected
        )
    width_bits, wide = tables.gaussian_cells(Fraction(10**6))
    coins = tables.coin_words(Fraction(1, 2 * 10**6))
    low, edge = 5, 20 << width_bits
    n = low * (2 * edge + low)
    tied = int(coins[n & 255])
    start = [(int(wide.words[19]) + int(wide.words[20])) // 2, low, tied, *([0] * 4)]
    assert first_draw(monkeypatch, start, ZEROS, lambda x: x.gaussian(10**6, 1)) == edge + low


def test_uniform_proposals_skip_the_words_that_would_favour_some(monkeypatch):
    start = [0, 5]  # 2^64 mod 3 = 1: word 0 is one too many and is skipped; 5 mod 3 = 2
    monkeypatch.setattr(Noise, "_words", lambda *_: Tied(start, ZEROS))
    assert Noise.insecure(0).choose(np.zeros(3, int), 1) == 2


def test_extreme_scores_do_not_overflow():
    low, high = -(2**63), 2**63 - 1
    assert Noise.fresh().choose(np.array([low, high, low]), 1) == 1
    assert Noise.fresh().coin(np.array([low, low + 1, high]), 1).tolist() == [False, False, True]
    beyond = np.array([2**63 + 5, 1], np.uint64)
    for attempt in (lambda n: n.choose(beyond, 1), lambda n: n.coin(beyond, 1)):
        with pytest.raises(DataError, match="with a sign"):
            attempt(Noise.fresh())


def test_exact_variances():
    for scale in (Fraction(1, 3), Fraction(1), Fraction(50)):
        y = np.arange(-4000, 4001)
        weights = np.exp(-np.abs(y) / float(scale))
        assert noise_module.laplace_variance(scale) == pytest.approx(
            (y**2 * weights).sum() / weights.sum()
        )
    for variance in (Fraction(1, 10), Fraction(1), Fraction(49), Fraction(51)):
        weights = np.exp(-(y**2) / (2 * float(variance)))
        assert noise_module.gaussian_variance(variance) == pytest.approx(
            (y**2 * weights).sum() / weights.sum(), rel=1e-12
        )


def test_no_variance_is_zero():
    """Estimates divide by it."""
    assert noise_module.laplace_variance(Fraction(1, 1000)) > 0
    assert noise_module.gaussian_variance(Fraction(1, 10**6)) > 0


def test_known_answers_do_not_change():
    noise = Noise.insecure(2026)
    assert noise.at("laplace").laplace(20, 6).tolist() == LAPLACE
    assert noise.at("gaussian").gaussian(10**6, 6).tolist() == GAUSSIAN
    assert (
        words.encode(("a", 1, "")) == b"s\0\0\0\0\0\0\0\x01ai\0\0\0\0\0\0\0\x011s\0\0\0\0\0\0\0\0"
    )


LAPLACE = [29, 14, -26, 55, -20, 1]
GAUSSIAN = [672, -572, -1411, 528, -622, -27]
