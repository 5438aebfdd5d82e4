"""Panels by weight: how often people had a value.

A counter for each b = 1..T counts who reaches b. It starts at step b, as nobody can before, so its
horizon is T-b+1. Its estimates S~_b^t are rounded and clamped, S_b^t = min(max(S~_b^t, S_b^{t-1}),
S_{b-1}^{t-1}) with S_0 = m synthetic people, so that weights rise by 0 or 1 per step; S_b^t -
S_b^{t-1} synthetic people of weight b-1 get the value at step t.

People may join (`Missing.Absent`, the default): one more counter, b = 0 with horizon T, counts who
is seen for the first time. S_0^t is its estimate, rounded and never falling; new people begin with
weight 0, and S_1^t may reach S_0^t, as who joins may have the value at once. Nobody leaves: who has
been seen is counted ever after.

Privacy: the declared rho-zCDP (or what it implies) for one person's whole history.
1. A person reaches b once, or never: one event in counter b, whatever happens at steps without a
   report (`counting/memory/recall.py`). It is seen for the first time once, or never: one event in
   counter 0.
2. *Null* (data that count nowhere): the event goes, and counter b loses the loss of one event.
   *AddRemove*: likewise. *Replace*: the event moves to another step, comes or goes;
   `counters/moves.py` has the distances. Where nobody joins, there is no counter 0: m = n is public
   under Null and Replace; under AddRemove m = max(0, n + noise) is measured at step 1 with a budget
   rho_n of its own.
3. Every counter has noise, also that of horizon 1. The loss is the sum of the rho_b (and rho_n);
   inputs may depend on past releases.
4. Clamping and the people are made of released numbers.

Accuracy: S~_b^t has the variance of its counter after t-b+1 steps. With e_b the sum of the
counter's variances at rho = 1 over its steps, the split rho_b proportional to sqrt(e_b) makes the
sum of all variances least (Cauchy-Schwarz). Clamping does not raise the largest error (Lemma 4.2
there). `estimate` answers from S~, unbiased; the people are biased only where clamping acts.
Source: Bun, Gaboardi, Neunhoeffer, Zhang, "Continual Release of Differentially Private Synthetic
Data from Longitudinal Data Collections", Algorithm 2 and Appendix B.
Departs: square-root counters in place of trees (`SqrtEven`, or `SqrtToeplitz` under Replace, where
its columns lie closer together), and the best split over b; `papers.panel_cumulative` has trees and
the published split. The published noise is too small wherever T-b+1 is a power of two (1.037 rho at
T = 12), loses up to 2.073 rho where a person is replaced, and n is printed exactly under any
relation. Here levels are bit_length(T-b+1), Replace pays for moves, and AddRemove gets a noisy m.
Index sets range over synthetic people.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from tailrace.calls import told
from tailrace.counters import SqrtEven, SqrtToeplitz
from tailrace.counters.choice import check_counter
from tailrace.counters.moves import allot_move, loss_of_a_move, squared_move
from tailrace.counting.memory import Missing, Weight
from tailrace.counting.plan import Counts, Plan
from tailrace.domain import Schema
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import State, Step
from tailrace.mechanisms.panel.cumulative_view import CumulativeView
from tailrace.mechanisms.panel.people import MOST_PEOPLE, Panel, seed
from tailrace.mechanisms.panel.queries import code_of
from tailrace.noise import Draws
from tailrace.noise.atoms import Atoms
from tailrace.privacy.guarantee import Guarantee
from tailrace.privacy.loss import ZCDP, Loss, Number, exact, whole
from tailrace.privacy.unit import AddRemove, Neighbours, Replace, Unit

# Steps: there are as many counters.
LARGEST = 1000


@dataclass(frozen=True)
class CumulativePublic:
    """Everything a panel by weight has released so far."""

    step: np.ndarray  # ()
    seed: np.ndarray  # () of the synthetic people
    totals: np.ndarray  # (steps, weights) synthetic people of at least 0, 1, ... ones
    estimates: np.ndarray  # (steps, weights) as measured, neither rounded nor clamped


@dataclass(frozen=True)
class CumulativePrivate:
    """Private state: the exact sums of the counters."""

    counters: tuple[Any, ...]


@told
@dataclass(frozen=True, kw_only=True)
class PanelCumulative(Panel):
    """A panel that keeps how often people had a value.

    Parameters
    domain: one attribute.
    value: the value that is counted; None: the second of two.
    unit: User(column=...), a whole history.
    horizon: the number of steps.
    privacy: the loss of one person.
    neighbours: AddRemove, Replace or Null.
    people: how many there are, where the relation makes that public (Replace, Null); needed there
        if nobody may join.
    missing: what becomes of a person who does not report.
    complete: a public promise that all people report at every step; who breaks it has its last
        value.
    counter: a counter without a budget; None: the best for the relation.
    shares: the budget of each counter, as a multiple of the others'; None: the best.

    >>> from tailrace import ZCDP, Integer, Null, Schema, User
    >>> PanelCumulative(
    ...     domain=Schema(poor=Integer(0, 1)), unit=User(column="id"), horizon=12,
    ...     privacy=ZCDP(rho=0.005), neighbours=Null, people=23_374,
    ... ).guarantee.short
    "rho = 0.005 for one person (column 'id') over 12 steps"
    """

    domain: Schema
    unit: Unit
    horizon: int
    privacy: Loss
    neighbours: Neighbours
    people: int | None = None
    missing: Missing = Missing.Absent
    complete: bool = False
    counter: Any = None
    shares: tuple[Number, ...] | None = None
    value: Any = None

    def __post_init__(self) -> None:
        self._check()
        object.__setattr__(self, "horizon", whole("horizon", self.horizon))
        # Refuses a value that the domain does not have.
        _ = self.counted
        if self.horizon > LARGEST:
            raise ConfigError(
                f"horizon of PanelCumulative must be at most {LARGEST:,} steps: it has a counter "
                f"for each."
            )
        if self.people is None and self.neighbours is not AddRemove and not self.joining:
            raise ConfigError(
                "Under Replace and Null the number of people is public: give it as people=."
            )
        check_counter(self.counter)
        if self.shares is not None:
            object.__setattr__(
                self, "shares", tuple(exact("shares", share) for share in self.shares)
            )
            if len(self.shares) != self.horizon + self.joining:
                least = 0 if self.joining else 1
                raise ConfigError(
                    f"shares needs one number for each weight from {least} to the horizon."
                )
        for counter in self.counting:
            # A counter that does not fit is refused now, not at the first step.
            counter.init(1)
        if self._number is not None:
            self._number.check()

    @property
    def _plain(self) -> Any:
        """The counter without a budget.

        Equally long columns are best where an event comes or goes, but lie far apart.
        """
        return self.counter or (SqrtToeplitz() if self.neighbours is Replace else SqrtEven())

    @property
    def joining(self) -> bool:
        """Whether people may join."""
        return self.policy is Missing.Absent

    @functools.cached_property
    def counted(self) -> int:
        """The code of the value that is counted."""
        attribute: Any = self.domain.attributes[0]
        known = attribute.decode(np.arange(attribute.size), None).tolist()
        return code_of(known, self.value)

    @property
    def _horizons(self) -> list[int]:
        """The steps of each counter."""
        reached = range(self.horizon, 0, -1)
        return [self.horizon, *reached] if self.joining else [*reached]

    @functools.cached_property
    def _split(self) -> tuple[Fraction, ...]:
        """Budgets of the number of people, then of each counter."""
        if self.shares is None:
            shares = [_weight(self._plain, steps, self.neighbours) for steps in self._horizons]
        else:
            shares = [Fraction(share) for share in self.shares]
        shares = [Fraction(self.neighbours is AddRemove and not self.joining), *shares]
        rho = self.privacy.zcdp_within().rho
        return tuple(rho * share / sum(shares) for share in shares)

    @functools.cached_property
    def counting(self) -> tuple[Any, ...]:
        """The counters with their budgets: of joining, of weight 1, 2, ..."""
        plain, made = self._plain, []
        for rho, horizon in zip(self._split[1:], self._horizons, strict=True):
            if self.neighbours is Replace:
                made.append(allot_move(plain, rho=rho, horizon=horizon))
            else:
                made.append(replace(plain, privacy=ZCDP(rho=rho), horizon=horizon))
        return tuple(made)

    @functools.cached_property
    def _number(self) -> Atoms | None:
        """The noise of the number of people; None: public, or counted."""
        return Atoms(ZCDP(rho=self._split[0]), 1) if self._split[0] else None

    @property
    def guarantee(self) -> Guarantee:
        losses = [
            loss_of_a_move(counter) if self.neighbours is Replace else counter.loss(1)
            for counter in self.counting
        ]
        if self._number is not None:
            losses.append(self._number.loss(1, 0))
        return self._guaranteed(losses)

    def init(self) -> State[CumulativePublic, CumulativePrivate]:
        none = np.zeros((0, self.horizon + 1), np.int64)
        public = CumulativePublic(
            np.zeros((), np.int64), np.zeros((), np.int64), none, none.astype(float)
        )
        return State(public, CumulativePrivate(tuple(counter.init(1) for counter in self.counting)))

    def plan(self, public: CumulativePublic) -> Plan:
        recall = Weight(
            value=self.counted,
            horizon=self.horizon,
            missing=self.policy,
            first=int(public.step) == 0,
        )
        return Plan(codes=self.domain, key=self._column, memory=recall)

    def measure(
        self, state: State[CumulativePublic, CumulativePrivate], counts: Counts, noise: Draws
    ) -> Step[CumulativePublic, CumulativePrivate]:
        before = state.public
        step, held = int(before.step) + 1, list(state.private.counters)
        number = seed(noise.at("people")) if step == 1 else before.seed
        last = np.zeros(self.horizon + 1, np.int64) if step == 1 else before.totals[-1]
        estimate, totals = np.zeros(self.horizon + 1), last.copy()
        if self.joining:
            pass
        elif step == 1:
            estimate[0] = self.people if self.people is not None else self._counted(counts, noise)
            totals[0] = np.clip(estimate[0], 0, MOST_PEOPLE)
        else:
            estimate[0] = before.estimates[0, 0]
        for place in range(step + self.joining):
            b = place if self.joining else place + 1
            held[place], now = self.counting[place].step(
                held[place], counts.adds[b : b + 1], noise.at("reached", b)
            )
            estimate[b] = now[0]
            # Who joins may have the value at once.
            most = MOST_PEOPLE if b == 0 else totals[0] if b == 1 else last[b - 1]
            totals[b] = min(max(int(np.rint(now[0])), last[b]), most)
        public = CumulativePublic(
            np.asarray(step),
            number,
            np.vstack([before.totals, totals]),
            np.vstack([before.estimates, estimate]),
        )
        return Step(State(public, CumulativePrivate(tuple(held))))

    def _counted(self, counts: Counts, noise: Draws) -> int:
        """The noisy number of people seen at the first step."""
        assert self._number is not None
        return int(counts.adds[0] + self._number.draw(noise.at("number"), 1)[0])

    def view(self, public: CumulativePublic) -> CumulativeView | None:
        if not int(public.step):
            return None
        return CumulativeView(
            domain=self.domain,
            id=self.rows.id,
            step=int(public.step),
            seed=int(public.seed),
            totals=public.totals,
            estimates=public.estimates,
            variances=self.variances[: int(public.step)],
            counted=self.counted,
            counters=self.counting[self.joining :],
            people=self.people,
        )

    @functools.cached_property
    def variances(self) -> np.ndarray:
        """(steps, weights) of the estimates; 0 where nothing is counted."""
        variances = np.zeros((self.horizon, self.horizon + 1))
        variances[:, 0] = 0.0 if self._number is None else self._number.variance()
        for b, counter in enumerate(self.counting, 1 - self.joining):
            variances[-counter.horizon :, b] = counter.variance(np.arange(1, counter.horizon + 1))
        return variances


@functools.lru_cache(maxsize=4096)
def _weight(plain: Any, horizon: int, neighbours: Neighbours) -> Fraction:
    """The root of a counter's summed variance.

    The budget is 1; the root is rounded to a public grid.
    """
    counter = replace(plain, privacy=ZCDP(rho=1), horizon=horizon)
    summed = float(counter.variance(np.arange(1, horizon + 1)).sum())
    if neighbours is Replace:
        summed *= squared_move(counter) / counter.atoms.weight
    return Fraction(round(summed**0.5 * 2**20), 2**20)
