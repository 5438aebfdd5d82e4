"""`tailrace.audit`: bounds that hold, planted faults found, every part of ours not refuted."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from tailrace import ZCDP, ConfigError, Event, HistogramStream, Integer, PureDP, Schema, counters
from tailrace.audit import Planted, audit, built_in, case_of, part_of
from tailrace.audit.bounds import entropy_shown, epsilon_shown, limits, rho_shown
from tailrace.audit.runs import Worlds
from tailrace.audit.search import shown
from tailrace.noise import Noise

FAULT = Fraction(1, 5)
PURE, ZERO = PureDP(epsilon=2), ZCDP(rho="1/2")


# Bounds


@pytest.mark.parametrize(("hits", "trials"), [(0, 50), (1, 50), (17, 50), (50, 50), (3, 10**5)])
def test_limits_are_those_of_the_beta_distribution(hits, trials):
    lower, upper = limits(hits, trials, 1e-6)
    assert lower == pytest.approx(stats.beta.ppf(1e-6, hits, trials - hits + 1) if hits else 0)
    beta = stats.beta.ppf(1 - 1e-6, hits + 1, trials - hits) if hits < trials else 1
    assert upper == pytest.approx(beta)


@pytest.mark.parametrize("rho", [0.1, 0.5, 2.0])
def test_the_curve_of_a_gaussian_shows_at_most_its_rho(rho):
    """With exact probabilities: every threshold, and the best comes near."""
    move = math.sqrt(2 * rho)
    found = [rho_shown(stats.norm.sf(t - move), stats.norm.sf(t)) for t in np.linspace(-3, 6, 40)]
    assert 0.4 * rho < max(found) <= rho


def test_the_entropy_of_a_gaussian_is_bounded_from_below_by_its_rho():
    rng, move = np.random.default_rng(0), 1.0
    scores = [move * rng.normal(mean, 1, 200_000) - move**2 / 2 for mean in (move, 0)]
    found = entropy_shown(*scores, 4.0, 1e-6)
    assert 0.42 < found <= 0.5


def test_no_run_shows_nothing():
    assert epsilon_shown(0.0, 0.1) == -math.inf and rho_shown(0.0, 0.1) == 0.0
    same = np.zeros((400, 3))
    assert shown(same, same, kind="epsilon", alpha=1e-6).at_least <= 0
    assert shown(same, same, kind="rho", alpha=1e-6).at_least <= 0


def test_bounds_fail_no_more_often_than_they_say():
    """Many audits of one sound count, each wrong with probability 10 % at most: the search is paid
    for by the half of the runs that it does not see.
    """
    rng, wrong = np.random.default_rng(1), 0
    for _ in range(200):
        noise = rng.geometric(1 - math.exp(-1), (2, 2, 400))
        world, other = noise[0] - noise[1] + np.array([[1], [0]])
        found = shown(world[:, None] * 1.0, other[:, None] * 1.0, kind="epsilon", alpha=0.1)
        wrong += found.at_least > 1
    assert wrong < 45


# Counters: power, adaptivity


@pytest.mark.parametrize("privacy", [PURE, ZERO], ids=["pure", "zcdp"])
def test_a_counter_stands_and_its_planted_fault_falls(privacy):
    made = counters.BinaryTree(privacy=privacy, horizon=4)
    verdict = audit(case_of(made, "counter"), runs=40_000, seed=1)
    assert not verdict.refuted and verdict.metered.share == 1
    assert verdict.planted == (True, True), "20 % is found by the meter and by the attack"
    assert verdict.best.power < 0.18
    planted = audit(case_of(Planted(made, FAULT), "planted"), runs=0, fault=None)
    assert planted.refuted and planted.metered.share == pytest.approx(
        1.25 if privacy is PURE else 1.5625
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Password:
    """Says a number, and later whether there was an event to whoever says the number back."""

    privacy: PureDP = PURE
    horizon: int = 3

    def init(self, rows):
        return np.zeros((2, rows), np.int64)

    def step(self, state, x, noise, rows=None):
        hidden, clock = state
        if not clock.any():
            said = np.asarray(noise.laplace(10**6, len(x)))
            return np.stack([x + 2 * said, clock + 1]), said.astype(float)
        known = hidden // 2 == x
        return np.stack([hidden, clock + 1]), np.where(known, hidden % 2, 0).astype(float)

    def loss(self, events=1, deletes=0):
        return self.privacy


def test_a_counter_that_obeys_its_own_output_falls_to_the_adaptive_attack(monkeypatch):
    """On fixed streams nobody knows the number, and the attack finds nothing."""
    monkeypatch.setattr("tailrace.audit.verdict.metered_events", lambda part: iter(()))
    verdict = audit(case_of(Password(), "password"), runs=2000, seed=1, fault=None)
    *fixed, adaptive = verdict.attacks
    assert not any(attack.refuted for attack in fixed)
    assert adaptive.refuted and adaptive.found.at_least > 4


# Mechanisms


WARD = Schema(age=Integer(0, 1))


def ward(**options):
    return HistogramStream(
        **{"domain": WARD, "privacy": PURE, "unit": Event(), "horizon": 1, **options}
    )


def test_a_mechanism_stands_and_its_planted_fault_falls():
    verdict = audit(case_of(ward(), "ward"), runs=3600, seed=1)
    assert not verdict.refuted and verdict.metered.share == 1
    assert verdict.planted == (True, True)
    assert "not refuted" in str(verdict) and "by meter and attack" in str(verdict)


def test_mid_stream_and_adaptive_streams_are_attacked():
    case = case_of(ward(horizon=3, counter=counters.BinaryTree()), "ward")
    verdict = audit(case, runs=200, seed=1, fault=None)
    assert len(verdict.attacks) == 3
    assert any("react" in attack.pair for attack in verdict.attacks)
    first, second, third = case.batches[:3]
    less = [first, (second[0][1:], second[1]), third]
    worlds = Worlds(case.batches[:3], less)
    assert worlds.start == 1, "the step before is the same in both worlds, and played once"
    rows = [
        worlds.runs(
            case.part, copies=20, noise=Noise.insecure(seed), react=react, tell=lambda: None
        )
        for seed, react in ((1, False), (1, False), (1, True))
    ]
    assert np.array_equal(rows[0][0], rows[1][0]), "a seed repeats its runs"
    assert rows[2][0].shape[0] == 20


class Leaky:
    """A histogram that releases one exact count."""

    def __init__(self, part):
        self._part = part

    def __getattr__(self, name):
        return getattr(self._part, name)

    def measure(self, state, counts, noise):
        step = self._part.measure(state, counts, noise)
        public = dataclasses.replace(
            step.state.public, estimates=step.state.public.estimates + counts.adds[0] % 2
        )
        return dataclasses.replace(step, state=dataclasses.replace(step.state, public=public))


def test_a_broken_promise_is_told():
    verdict = audit(case_of(Leaky(ward()), "leaky"), runs=0)
    assert verdict.refuted and "same public state" in str(verdict)


# Names


def test_every_mechanism_counter_and_policy_can_be_named():
    names = built_in()
    assert {"HistogramStream", "BinaryTree", "DSAT", "Trajectories", "PrivTreeStream"} <= set(names)
    assert all(part_of(name) for name in names)


@pytest.mark.parametrize("name", ["Nothing", "JunctionTree", "samples:nothing", "nowhere:at_all"])
def test_other_names_are_refused_in_a_sentence(name):
    with pytest.raises(ConfigError):
        part_of(name)


def test_a_plug_in_is_named_by_its_module(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "median.py").write_text(
        "from tailrace import PureDP, counters\n"
        "Own = counters.Simple\n"
        "made = counters.Block(size=2, privacy=PureDP(epsilon=1), horizon=4)\n"
        "def make():\n    return made\n"
    )
    assert len(part_of("median:Own")) == 2, "once for each kind of loss"
    (case,) = part_of("median:made")
    assert case.counter and part_of("median:make")[0].part is case.part


# All of ours: every loss under the meter, one loss under attack


@pytest.mark.slow
@pytest.mark.parametrize("name", built_in())
def test_no_part_of_ours_is_refuted(name):
    """The planted fault of 20 % is found by the meter, and of counters by the attack too."""
    for at, case in enumerate(part_of(name)):
        many = 40_000 if case.counter else 0 if at else 160
        verdict = audit(case, runs=many, seed=2, fault=None if many == 160 else FAULT)
        assert not verdict.refuted, str(verdict)
        if verdict.planted is None:
            verdict = audit(case, runs=0, fault=FAULT)
        assert verdict.planted[0], str(verdict)
        assert verdict.planted[1] or not case.counter, str(verdict)
