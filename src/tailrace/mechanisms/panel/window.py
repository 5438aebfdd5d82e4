"""Panels by window: how often each window of values occurs.

Step k counts all windows of k steps and creates the people. Each later step measures, for every
prefix z of k-1 symbols, the differences D_z^ij = C_zi - C_zj over all pairs of symbols i < j, and
shares out the synthetic people that end in z.

**People come and go** (`Missing.Absent`, the default): absence is one more symbol, and births are
counted; `schedule.py` has the proof of privacy, `presence.py` the estimates, `births.py` the
synthetic people. `complete=True` is a public promise that all report at every step: `nested.py` has
its noise. All else here is about policies that give every person a value: the N_z synthetic people
that end in z take value c by p_zc = (N_z + sum_j D_z^cj) / q, moved to the nearest shares that are
not negative, and rounded.

Privacy: the declared rho-zCDP (or what it implies) for one person's whole history. There are R =
T-k+1 releases, and rho = rho_0 + rho_rest.
1. First release: a person is in one window, so the counts move by s = 1 in squares (AddRemove,
   Null), or by s = 2 if replaced. Noise of variance s / (2 rho_0).
2. Later: a person with prefix z and value c moves the q-1 differences of z that c is in, by 1 each:
   q-1 in squares per release.
3. A person replaced by another moves 2 (q-1) where the prefixes differ, and where they agree and
   the values differ 4 + 2 (q-2) = 2q: the pair of the two values moves by 2. Then the prefixes
   differ for the next k-1 releases: both windows hold the step at which the values differed, and
   the windows of a counted person follow one another (`counting/memory/recall.py`). So that happens
   once in k releases at most.
4. Over all later releases the squares sum to at most d = (q-1)(R-1), or under Replace to d =
   2 (q-1)(R-1) + 2 ceil((R-1)/k). Noise of variance d / (2 rho_rest) on every difference.
5. The Gaussian mechanism composes, also where inputs depend on past releases: each measurement uses
   the past only. Clipping, rounding and the people are made of released numbers. Before step k
   nothing is drawn, nothing is shown.

Accuracy: with v = d / (2 rho_rest q), the count of a window has variance V_t = V_{t-1} / q + v (1 -
1/q), and the default `first` makes the first one v too. `complete=True` measures shorter windows
beside the whole, for less noise. Absence costs noise: for two values the variance of a window is
about twice that of a complete panel. `estimate` is unbiased; the people are biased where counts lie
within a few standard deviations of 0 or of N_z and are clipped.
Source: Bun, Gaboardi, Neunhoeffer, Zhang, "Continual Release of Differentially Private Synthetic
Data from Longitudinal Data Collections", Algorithm 1.
Departs: all pairs of differences in place of raw bins (for q values the error of isotropic noise on
the centred counts, with exact integer noise); no padding, the nearest nonnegative counts instead; a
weight for the first release; sensitivity by relation: the published noise is right under AddRemove
and loses 2 rho where a person is replaced; index sets range over synthetic people (printed without
their hats they copy real histories); people may join and leave. `papers.panel_window` is the
published method with these corrections.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from tailrace.calls import told
from tailrace.counting.memory import LastValues, Missing
from tailrace.counting.plan import Counts, Plan
from tailrace.domain import Categorical, Schema
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Nothing, State, Step
from tailrace.mechanisms.panel import closed
from tailrace.mechanisms.panel.births import created, extended
from tailrace.mechanisms.panel.nested import Nested, Tables
from tailrace.mechanisms.panel.people import MOST_VALUES, Panel, seed, spread
from tailrace.mechanisms.panel.presence import Presence, made
from tailrace.mechanisms.panel.schedule import Schedule
from tailrace.mechanisms.panel.view import ClosedView, OpenView, WindowView
from tailrace.noise import Draws
from tailrace.noise.atoms import Atoms
from tailrace.privacy.guarantee import Guarantee
from tailrace.privacy.loss import ZCDP, Loss, Number, exact, real, whole
from tailrace.privacy.unit import Neighbours, Replace, Unit

# Windows: each release stores a count and an estimate of every one, 16 MB.
LARGEST = 1 << 20


@dataclass(frozen=True)
class WindowPublic:
    """Everything a panel by window has released so far."""

    step: np.ndarray  # ()
    seed: np.ndarray  # () of the synthetic people
    histograms: np.ndarray  # (releases, windows) how many of them have each window
    # (releases, windows) the measurements, combined without clipping or rounding.
    estimates: np.ndarray


@told
@dataclass(frozen=True, kw_only=True)
class PanelWindow(Panel):
    """A panel that keeps windows of `window` steps.

    Parameters
    domain: one attribute, the value that a person reports per step.
    unit: User(column=...), a whole history.
    window: the steps of a window.
    horizon: the number of steps; None: no end, where people may be absent.
    privacy: the loss of one person.
    neighbours: AddRemove, Replace or Null.
    people: how many there are, where the relation makes that public (Replace, Null).
    missing: what becomes of a person who does not report.
    complete: a public promise that all people report at every step, for less noise; who breaks it
        has its last value.
    first: the budget of the first release, as a multiple of a later one's; None: chosen for least
        error.
    raw_bins: measure each window's count, not differences (the published method, not better).
    padding: people added to each window (likewise).

    >>> from tailrace import ZCDP, AddRemove, Integer, Schema, User
    >>> PanelWindow(
    ...     domain=Schema(poor=Integer(0, 1)), unit=User(column="id"), window=3, horizon=12,
    ...     privacy=ZCDP(rho=0.005), neighbours=AddRemove,
    ... ).guarantee.short
    "rho = 0.005 for one person (column 'id') over 12 steps"
    """

    domain: Schema
    unit: Unit
    window: int
    horizon: int | None
    privacy: Loss
    neighbours: Neighbours
    people: int | None = None
    missing: Missing = Missing.Absent
    complete: bool = False
    first: Number | None = None
    raw_bins: bool = False
    padding: int = 0

    def __post_init__(self) -> None:
        self._check()
        for name, least in (("window", 1), ("padding", 0)):
            object.__setattr__(self, name, whole(name, getattr(self, name), least=least))
        if self.horizon is not None:
            object.__setattr__(self, "horizon", whole("horizon", self.horizon))
            if self.window > self.horizon:
                raise ConfigError(
                    "window must not be longer than the horizon: no window would ever be full."
                )
        if self.policy is not Missing.Absent and self.horizon is None:
            raise ConfigError(
                "horizon must be a number of steps: only a panel that people join and leave "
                "(Missing.Absent) can go on without end."
            )
        if self.policy is Missing.Absent and (self.raw_bins or self.padding):
            raise ConfigError(
                "raw_bins and padding belong to the published method, for complete panels: add "
                "complete=True."
            )
        if self.window * math.log2(self.symbols) > math.log2(LARGEST):
            raise ConfigError(
                f"There are more than {LARGEST:,} windows: use a shorter window or fewer values."
            )
        if self.symbols > MOST_VALUES:
            raise ConfigError(
                f"The attribute of a panel has at most {MOST_VALUES - 1} values, with absence."
            )
        attribute = self.domain.attributes[0]
        if self.missing is Missing.Category and attribute.outside != "other":
            kind = (
                "Categorical([...]" if isinstance(attribute, Categorical) else "Integer(low, high"
            )
            raise ConfigError(
                f"Missing.Category needs a value for missing ones in the domain: {kind}, "
                f"outside='other')."
            )
        if self.first is not None:
            object.__setattr__(self, "first", exact("first", self.first))
            real("first", float(self.first), least=1e-9, most=1e9)  # pyright: ignore[reportArgumentType]
        for atoms in self._atoms:
            atoms.check()

    @property
    def symbols(self) -> int:
        """The values of the domain, and absence where that is one."""
        return self.domain.size + (self.policy is Missing.Absent)

    @property
    def releases(self) -> int | None:
        """The number of releases; None: no end."""
        return None if self.horizon is None else self.horizon - self.window + 1

    @functools.cached_property
    def schedule(self) -> Schedule:
        """The noise of a panel that people join and leave."""
        return Schedule(
            rho=self.privacy.zcdp_within().rho,
            values=self.domain.size,
            window=self.window,
            replaced=self.neighbours is Replace,
            releases=self.releases,
            first=None if self.first is None else Fraction(self.first),
        )

    def presence(self, later: int) -> Presence:
        """How windows are estimated, `later` releases after the first."""
        many = later if self.releases is None else self.releases - 1
        first, rest = self.schedule.start.variance(), self.schedule.spreads(many)
        return made(self.domain.size, self.window, first, rest)

    @functools.cached_property
    def nested(self) -> Nested | None:
        """The noise of a complete panel; None: that of other ones."""
        if not self.complete or self.raw_bins or self.padding:
            return None
        assert self.releases is not None
        return Nested(
            rho=self.privacy.zcdp_within().rho,
            values=self.domain.size,
            window=self.window,
            releases=self.releases,
            replaced=self.neighbours is Replace,
            known=self.people is not None,
            first=None if self.first is None else Fraction(self.first),
        )

    @property
    def _moves(self) -> tuple[int, int]:
        """One person's largest squared move: first release, all later ones."""
        assert self.releases is not None
        later, size = self.releases - 1, self.domain.size
        replaced = self.neighbours is Replace
        if self.raw_bins:
            return (2, 2 * later) if replaced else (1, later)
        if replaced:
            return 2, 2 * (size - 1) * later + 2 * -(-later // self.window)
        return 1, (size - 1) * later

    @functools.cached_property
    def _atoms(self) -> tuple[Atoms, ...]:
        """The noise of the first release, and of later ones."""
        if self.policy is Missing.Absent:
            return (self.schedule.start, *(() if self.releases == 1 else self.schedule.epoch(0)))
        if self.nested is not None:
            return (*self.nested.start.values(), *self.nested.later.values())
        assert self.releases is not None
        rho, (start, later) = self.privacy.zcdp_within().rho, self._moves
        if self.releases == 1:
            return (Atoms(ZCDP(rho=rho), start),)
        width = 1 if self.raw_bins else self.domain.size
        even = Fraction(start * (self.releases - 1) * width, later)
        first = even if self.first is None else Fraction(self.first)
        rest = rho * (self.releases - 1) / (first + self.releases - 1)
        return Atoms(ZCDP(rho=rho - rest), start), Atoms(ZCDP(rho=rest), later)

    @property
    def guarantee(self) -> Guarantee:
        if self.policy is Missing.Absent:
            return self._guaranteed(self.schedule.losses())
        return self._guaranteed(atoms.loss(1, 0) for atoms in self._atoms)

    @property
    def variances(self) -> tuple[float, float]:
        """Variances of a window's count: at first, and v."""
        assert self.policy is not Missing.Absent and self.nested is None
        first, *later = (atoms.variance() for atoms in self._atoms)
        return first, later[0] / (1 if self.raw_bins else self.domain.size) if later else 0.0

    def init(self) -> State[WindowPublic, Nothing]:
        none = np.zeros((0, self.symbols**self.window), np.int64)
        return State(
            WindowPublic(np.zeros((), np.int64), np.zeros((), np.int64), none, none.astype(float)),
            Nothing(),
        )

    def plan(self, public: WindowPublic) -> Plan:
        recall = LastValues(
            window=self.window,
            values=self.symbols,
            missing=self.policy,
            first=int(public.step) == 0,
        )
        return Plan(codes=self.domain, key=self._column, memory=recall)

    def measure(
        self, state: State[WindowPublic, Nothing], counts: Counts, noise: Draws
    ) -> Step[WindowPublic, Nothing]:
        before = state.public
        step, number = int(before.step) + 1, before.seed
        if step < self.window:
            return Step(State(replace(before, step=np.asarray(step)), state.private))
        if step == self.window:
            number = seed(noise.at("people"))
        by = self._open if self.policy is Missing.Absent else self._closed
        found = by if self.nested is None else self._nested
        histogram, estimate = found(before, counts.adds, step, int(number), noise)
        public = WindowPublic(
            np.asarray(step),
            number,
            np.vstack([before.histograms, histogram.reshape(1, -1)]),
            np.vstack([before.estimates, estimate.reshape(1, -1)]),
        )
        return Step(State(public, state.private))

    def _closed(
        self, before: WindowPublic, counts: np.ndarray, step: int, number: int, noise: Draws
    ) -> tuple[np.ndarray, np.ndarray]:
        """Measure people who neither come nor go."""
        if step == self.window:
            drawn = self._atoms[0].draw(noise.at("windows"), len(counts))
            noisy = counts + self.padding + drawn
            return closed.created(noisy, people=self.people, padding=self.padding)
        asked = self.questions(counts)
        noisy = asked + self._atoms[1].draw(noise.at("questions"), asked.shape)
        people, estimate = (
            closed.together(part[-1], noisy, self.domain.size, raw_bins=self.raw_bins)
            for part in (before.histograms, closed.known(before.estimates, self.people))
        )
        start = spread(number, step, len(noisy))
        return closed.shared(people, start), estimate / self.domain.size

    def _nested(
        self, before: WindowPublic, counts: np.ndarray, step: int, number: int, noise: Draws
    ) -> tuple[np.ndarray, np.ndarray]:
        """Measure people who all report at every step."""
        nested, size = self.nested, self.domain.size
        assert nested is not None
        tables: Tables = {}
        if step == self.window:
            for level, atoms in nested.start.items():
                exact = nested.counts(counts, level)
                tables[level] = exact + atoms.draw(noise.at("windows", level), exact.shape)
            estimate = nested.combined(tables, later=False)
            total = float(np.rint(estimate.sum()) if self.people is None else self.people)
            return closed.rounded(closed.on_simplex(estimate, total)), estimate
        for level, atoms in nested.later.items():
            asked = self.questions(nested.counts(counts.reshape(-1, size), level))
            noisy = asked + atoms.draw(noise.at("questions", level), asked.shape)
            tables[level] = closed.centred(noisy, size)
        fresh = nested.combined(tables, later=True)
        known = closed.known(before.estimates, self.people)
        people, ending = (
            part[-1].reshape(size, -1).sum(axis=0) for part in (before.histograms, known)
        )
        start = spread(number, step, len(people))
        histogram = closed.divided(people[:, None] / size + fresh, people, start)
        return histogram, ending[:, None] / size + fresh

    def _open(
        self, before: WindowPublic, counts: np.ndarray, step: int, number: int, noise: Draws
    ) -> tuple[np.ndarray, np.ndarray]:
        """Measure people who join, pause and leave."""
        release, size = len(before.histograms), self.symbols
        presence = self.presence(release)
        if not release:
            noisy = counts[:-1] + self.schedule.start.draw(noise.at("windows"), len(counts) - 1)
            estimate = np.append(noisy, 0)
            return created(estimate, presence), estimate.astype(float)
        epoch, rows = self.schedule.later(release), counts.reshape(-1, size)
        one, other = np.triu_indices(size, 1)
        asked = rows[:-1, one] - rows[:-1, other]
        differences = asked + epoch.windows.draw(noise.at("questions"), asked.shape)
        births = rows[-1, :-1] + epoch.births.draw(noise.at("births"), size - 1)
        values = rows[:, :-1].sum(axis=0)
        marginals = values + epoch.marginals.draw(noise.at("values"), size - 1)
        predicted = presence.predicted(before.estimates[-1], differences, births)
        estimate = presence.corrected(predicted, marginals, release)
        estimates = np.vstack([before.estimates, estimate])
        start = spread(number, step, len(rows))
        return extended(before.histograms, estimates, presence, start), estimate

    def questions(self, counts: np.ndarray) -> np.ndarray:
        """(prefixes, questions) asked of windows after the first release."""
        rows = counts.reshape(-1, self.domain.size)
        if self.raw_bins:
            return rows + self.padding
        one, other = np.triu_indices(self.domain.size, 1)
        return rows[:, one] - rows[:, other]

    def view(self, public: WindowPublic) -> WindowView | None:
        if not len(public.histograms):
            return None
        common = {
            "domain": self.domain,
            "id": self.rows.id,
            "step": int(public.step),
            "seed": int(public.seed),
            "window": self.window,
            "histograms": public.histograms,
            "people": self.people,
        }
        if self.policy is Missing.Absent:
            presence = self.presence(len(public.histograms) - 1)
            return OpenView(estimates=public.estimates, presence=presence, **common)
        return ClosedView(
            estimates=closed.known(public.estimates, self.people),
            measured=float(public.estimates[0].sum()),
            variances=self.variances if self.nested is None else (0.0, 0.0),
            nested=self.nested,
            padding=self.padding,
            **common,
        )
