"""A verdict by the replay meter and an attack.

1. The meter (`checks/meter.py`) measures the exact loss of every pair of neighbours that
   `checks/neighbours.py` knows.
2. The attack runs the pair of the largest measured loss many times with true noise: the pair of all
   steps, one that differs in mid-stream, and an adaptive one (`runs.py`). An event found on one
   half of the runs bounds the loss from below on the other (`search.py`).
3. A loss above the claim refutes it. A loss below proves nothing (proofs are in the docstrings), so
   a verdict says its power: the smallest fault, noise too small by so much, that it would have
   found; and whether a planted one was found.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tailrace.audit.parts import Case
from tailrace.audit.planting import Planted
from tailrace.audit.runs import Worlds, counter_runs
from tailrace.audit.search import Shown, shown
from tailrace.checks.counter import metered_events
from tailrace.checks.mechanism import metered
from tailrace.checks.meter import Measured
from tailrace.checks.neighbours import neighbours
from tailrace.noise import Noise
from tailrace.privacy.loss import Loss, PureDP

# Runs of each world where the caller names none; the power of a verdict tells what they are worth.
COUNTER_RUNS, MECHANISM_RUNS = 200_000, 8_000
CONFIDENCE, FAULT = 0.999999, Fraction(1, 5)


def _fault_found(share: float, kind: str) -> float:
    """The fault at which a measured share of the claim would reach it.

    Noise at f times its size loses 1/f times as much epsilon, and 1/f^2 times as much rho.
    """
    return max(0.0, 1 - (share if kind == "epsilon" else math.sqrt(share)))


@dataclass(frozen=True)
class Metered:
    """The largest loss that the meter measured, as a part of the claim.

    broken: the promise that the part breaks, in a sentence, where the meter cannot even measure.
    """

    share: float
    pair: str
    kind: str = "epsilon"
    broken: str = ""

    @property
    def refuted(self) -> bool:
        """Whether the claim is exceeded, or another promise broken."""
        return bool(self.broken) or self.share > 1 + 1e-9

    @property
    def power(self) -> float:
        """The smallest fault that the meter would have found."""
        return _fault_found(self.share, self.kind)


@dataclass(frozen=True)
class Attacked:
    """What one attack showed, beside the claim."""

    pair: str
    claimed: float
    found: Shown
    runs: int

    @property
    def refuted(self) -> bool:
        """Whether the loss is above the claim."""
        return self.found.at_least > self.claimed

    @property
    def power(self) -> float:
        """The smallest fault that it would have found; 1: none."""
        return _fault_found(max(self.found.at_least, 0.0) / self.claimed, self.found.kind)


@dataclass(frozen=True)
class Verdict:
    """What an audit found, and how much it could have found.

    planted: whether meter and attack found a fault that was planted, of size `fault`.
    """

    name: str
    claim: Loss
    metered: Metered
    attacks: tuple[Attacked, ...]
    planted: tuple[bool, bool] | None
    fault: Fraction
    confidence: float

    @property
    def refuted(self) -> bool:
        """Whether the part loses more than it claims."""
        return self.metered.refuted or any(attack.refuted for attack in self.attacks)

    @property
    def best(self) -> Attacked | None:
        """The attack that came nearest to the claim."""
        return min(self.attacks, key=lambda attack: attack.power, default=None)

    def __str__(self) -> str:
        if self.metered.broken:
            return f"{self.name}: REFUTED. A promise is broken: {self.metered.broken}."
        said = [
            f"{self.name}: {'REFUTED' if self.refuted else 'not refuted'}; claimed {self.claim}."
        ]
        said.append(f"The meter measured {self.metered.share:.1%} of it ({self.metered.pair}).")
        if self.best is not None:
            best = self.best
            said.append(
                f"The attack shows {best.found.kind} >= {max(best.found.at_least, 0):.3f} of "
                f"{best.claimed:.3f}, confidence {self.confidence:g} ({best.pair}, {best.runs:,} "
                "runs of each world)."
            )
        said.append(f"Smallest fault that it would have found: {self._power()}.")
        return " ".join(said)

    def _power(self) -> str:
        of_attack = "none" if self.best is None else _percent(self.best.power)
        found = ""
        if self.planted is not None:
            by = [name for name, one in zip(("meter", "attack"), self.planted, strict=True) if one]
            found = (
                f"; a planted one of {float(self.fault):.0%}: by {' and '.join(by) or 'neither'}"
            )
        return f"meter {_percent(self.metered.power)}, attack {of_attack}{found}"


def _percent(power: float) -> str:
    return "none" if power >= 1 else "any" if power < 0.0005 else f"{power:.1%}"


def audit(
    case: Case,
    *,
    runs: int | None = None,
    confidence: float = CONFIDENCE,
    fault: Fraction | None = FAULT,
    seed: int | None = None,
    tell: Callable[[int], object] = lambda done: None,  # noqa: ARG005
) -> Verdict:
    """Meter and attack a part; returns the verdict.

    Parameters:
        case: the part with its inputs, from `part_of`.
        runs: of each world and attack; None: 200,000 of a counter, 8,000 of a mechanism; 0: the
            meter alone.
        confidence: the probability that no lower bound is wrong.
        fault: the planted fault; None: none.
        seed: for repeatable runs, in tests; None: fresh noise.
        tell: called with the number of runs done since the last call.
    """
    noise = Noise.fresh() if seed is None else Noise.insecure(seed)
    many = (COUNTER_RUNS if case.counter else MECHANISM_RUNS) if runs is None else runs
    audited = _Counter(case.part) if case.counter else _Mechanism(case.part, case.batches)
    measured = audited.metered()
    if measured.broken:
        return Verdict(case.name, audited.claim, measured, (), None, FAULT, confidence)
    alpha = (1 - confidence) / max(len(audited.plans), 1)
    attacks = tuple(
        audited.attacked(audited.part, plan, many, noise.at("attack", at), alpha, tell)
        for at, plan in enumerate(audited.plans if many else ())
    )
    planted = None
    if fault is not None:
        broken = Planted(case.part, fault)
        by_meter = (
            _Counter(broken) if case.counter else _Mechanism(broken, case.batches)
        ).metered()
        by_attack = False
        if attacks:
            best = min(range(len(attacks)), key=lambda at: attacks[at].power)
            where = noise.at("planted")
            again = audited.attacked(broken, audited.plans[best], many, where, alpha, tell)
            by_attack = again.refuted
        planted = by_meter.refuted, by_attack
    return Verdict(case.name, audited.claim, measured, attacks, planted, fault or FAULT, confidence)


@dataclass(frozen=True)
class _Plan:
    """One attack: its name, streams or event, and whether it is adaptive."""

    pair: str
    claim: Loss
    worlds: Any
    react: bool


def _kind(claim: Loss) -> tuple[str, float]:
    """What to bound, and the claimed amount.

    (epsilon, delta) is made of a rho, and that is what is spent.
    """
    if isinstance(claim, PureDP):
        return "epsilon", float(claim.epsilon)
    rho = claim.rho if claim.rho is not None else claim.zcdp_within().rho
    return "rho", float(rho)


class _Audited:
    """A part under audit: its claim, and the plans of attacks."""

    claim: Loss
    plans: list[_Plan]

    def __init__(self, part: Any) -> None:
        self.part = part
        self.plans = []

    def _largest(self, measured: list[tuple[Measured, _Plan]]) -> Metered:
        """The largest share of a claim."""
        shares = [(_share(found, plan.claim), plan.pair) for found, plan in measured]
        share, pair = max(shares, key=lambda one: one[0], default=(0.0, "no pair"))
        return Metered(share, pair, _kind(self.claim)[0])


def _share(found: Measured, claim: Loss) -> float:
    share = found.share(claim)
    return math.inf if share is None else float(share)


class _Counter(_Audited):
    """One event more, fed to a counter."""

    def __init__(self, part: Any) -> None:
        super().__init__(part)
        self.claim = part.loss()

    def metered(self) -> Metered:
        try:
            found = [
                (measured, _Plan(words, claim, None, False))
                for words, measured, claim in metered_events(self.part)
            ]
        except AssertionError as error:
            return Metered(math.inf, "", broken=str(error))
        steps = min(self.part.horizon or _STEPS, _STEPS)
        self.plans = [
            _Plan(f"an event at step {first + 1}", self.claim, (first, steps), False)
            for first in sorted({0, min(1, steps - 1), steps // 2})
            if first < steps
        ]
        if steps > 1:
            self.plans.append(_Plan("fed its own estimates", self.claim, (0, steps), True))
        return self._largest(found)

    def attacked(
        self, part: Any, plan: _Plan, runs: int, noise: Noise, alpha: float, tell: Callable
    ) -> Attacked:
        event, steps = plan.worlds
        about: dict[str, Any] = {"steps": steps, "copies": runs, "react": plan.react}
        worlds = []
        for name, at in (("a", event), ("b", None)):
            worlds.append(counter_runs(part, event=at, noise=noise.at(name), **about))
            tell(runs)
        kind, claimed = _kind(plan.claim)
        return Attacked(plan.pair, claimed, shown(*worlds, kind=kind, alpha=alpha), runs)


# Paths of noise to meter, where the first does not spend all of the claim.
_SEEDS = (12, 13, 14, 15)
# Steps of a counter's attack at most: an event's noise is spread over few of them.
_STEPS = 8


class _Mechanism(_Audited):
    """The neighbours of a stream of made-up rows."""

    def __init__(self, part: Any, batches: Any) -> None:
        super().__init__(part)
        self.claim, self.batches = part.guarantee.loss, batches

    def metered(self) -> Metered:
        found: list[tuple[Measured, _Plan]] = []
        loud: list[tuple[float, int, _Plan]] = []
        try:
            for seed, pair in itertools.product(_SEEDS, neighbours(self.part, self.batches)):
                if seed != _SEEDS[0] and (pair.quiet or max(one[0] for one in loud) >= 1):
                    continue
                losses = metered(self.part, pair, seed=seed)
                for (words, other, claim), measured in zip(pair.others, losses, strict=True):
                    plan = _Plan(words, claim, Worlds(other, pair.stream), False)
                    found.append((measured, plan))
                    loud.append((_share(measured, claim), plan.worlds.start, plan))
        except AssertionError as error:
            return Metered(math.inf, "", broken=str(error))
        self.plans = _chosen(loud)
        return self._largest(found)

    def attacked(
        self, part: Any, plan: _Plan, runs: int, noise: Noise, alpha: float, tell: Callable
    ) -> Attacked:
        about: dict[str, Any] = {"copies": runs, "noise": noise, "react": plan.react}
        worlds = plan.worlds.runs(part, **about, tell=lambda: tell(1))
        kind, claimed = _kind(plan.claim)
        return Attacked(plan.pair, claimed, shown(*worlds, kind=kind, alpha=alpha), runs)


def _chosen(loud: list[tuple[float, int, _Plan]]) -> list[_Plan]:
    """The loudest pair, the loudest of mid-stream, and an adaptive one."""
    if not loud:
        return []
    first = max(loud, key=lambda one: (round(one[0], 6), one[1]))
    plans = [first[2]]
    others = [one for one in loud if (one[1] > 0) != (first[1] > 0)]
    if others:
        plans.append(max(others, key=lambda one: (round(one[0], 6), one[1]))[2])
    early = min((one for one in loud), key=lambda one: (-round(one[0], 6), one[1]))[2]
    if len(early.worlds.world) - early.worlds.start > 1:
        adaptive = f"{early.pair}, others react to releases"
        plans.append(_Plan(adaptive, early.claim, early.worlds, True))
    return plans
