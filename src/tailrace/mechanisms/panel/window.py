"""Panels by window: how often each window of values occurs.

Step k counts all q^k windows (q values, k steps) and creates the people. Each later step measures,
for every prefix z of k-1 values, the differences D_z^ij = C_zi - C_zj over all pairs of values i <
j, and shares out the N_z synthetic people that end in z: p_zc = (N_z + sum_j D_z^cj) / q, moved to
the nearest shares that are not negative, and rounded. For q = 2 that is one number D_z per prefix
and p_z1 = clip((N_z + D_z) / 2, 0, N_z).

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
1/q). The default `first` makes the first one v too, so that all releases are equally good. As R
grows, v tends to (q-1)/q of the published method's R / (2 rho) under AddRemove and Null (1/2 for
two values), and to (q - 1 + 1/k)/q of its R / rho under Replace. `estimate` is unbiased; the people
are biased where counts lie within a few standard deviations of 0 or of N_z and are clipped.
Source: Bun, Gaboardi, Neunhoeffer, Zhang, "Continual Release of Differentially Private Synthetic
Data from Longitudinal Data Collections", Algorithm 1.
Departs: all pairs of differences in place of raw bins (for q values the error of isotropic noise on
the centred counts, with exact integer noise); no padding, the nearest nonnegative counts instead; a
weight for the first release; sensitivity by relation: the published noise is right under AddRemove
and loses 2 rho where a person is replaced; index sets range over synthetic people (printed without
their hats they copy real histories). `papers.panel_window` is the published method with these
corrections.
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
from tailrace.mechanisms.panel.people import Panel, seed, spread
from tailrace.mechanisms.panel.view import WindowView
from tailrace.models.postprocess import on_simplex, rounded
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
    horizon: the number of steps.
    privacy: the loss of one person.
    neighbours: AddRemove, Replace or Null.
    people: how many there are, where the relation makes that public (Replace, Null).
    missing: the value of a person who does not report.
    first: the budget of the first release, as a multiple of a later one's; None: equal errors.
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
    horizon: int
    privacy: Loss
    neighbours: Neighbours
    people: int | None = None
    missing: Missing = Missing.Carry
    first: Number | None = None
    raw_bins: bool = False
    padding: int = 0

    def __post_init__(self) -> None:
        self._check()
        for name, least in (("window", 1), ("horizon", 1), ("padding", 0)):
            object.__setattr__(self, name, whole(name, getattr(self, name), least=least))
        if self.window > self.horizon:
            raise ConfigError(
                "window must not be longer than the horizon: no window would ever be full."
            )
        if self.window * math.log2(self.domain.size) > math.log2(LARGEST):
            raise ConfigError(
                f"There are more than {LARGEST:,} windows: use a shorter window or fewer values."
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
    def releases(self) -> int:
        return self.horizon - self.window + 1

    @property
    def _moves(self) -> tuple[int, int]:
        """One person's largest squared move: first release, all later ones."""
        later, size = self.releases - 1, self.domain.size
        replaced = self.neighbours is Replace
        if self.raw_bins:
            return (2, 2 * later) if replaced else (1, later)
        return (
            (2, 2 * (size - 1) * later + 2 * -(-later // self.window))
            if replaced
            else (1, (size - 1) * later)
        )

    @functools.cached_property
    def _atoms(self) -> tuple[Atoms, ...]:
        """The noise of the first release, and of later ones."""
        rho, (start, later) = self.privacy.zcdp_within().rho, self._moves
        if self.releases == 1:
            return (Atoms(ZCDP(rho=rho), start),)
        even = Fraction(
            start * (self.releases - 1) * (1 if self.raw_bins else self.domain.size), later
        )
        first = even if self.first is None else Fraction(self.first)
        rest = rho * (self.releases - 1) / (first + self.releases - 1)
        return Atoms(ZCDP(rho=rho - rest), start), Atoms(ZCDP(rho=rest), later)

    @property
    def guarantee(self) -> Guarantee:
        return self._guaranteed(atoms.loss(1, 0) for atoms in self._atoms)

    @property
    def variances(self) -> tuple[float, float]:
        """Variances of a window's count: at first, and v."""
        first, *later = (atoms.variance() for atoms in self._atoms)
        return first, later[0] / (1 if self.raw_bins else self.domain.size) if later else 0.0

    def init(self) -> State[WindowPublic, Nothing]:
        none = np.zeros((0, self.domain.size**self.window), np.int64)
        return State(
            WindowPublic(np.zeros((), np.int64), np.zeros((), np.int64), none, none.astype(float)),
            Nothing(),
        )

    def plan(self, public: WindowPublic) -> Plan:
        recall = LastValues(
            window=self.window,
            values=self.domain.size,
            missing=self.missing,
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
            noisy = (
                counts.adds
                + self.padding
                + self._atoms[0].draw(noise.at("windows"), len(counts.adds))
            )
            histogram, estimate = self._created(noisy)
        else:
            asked = self.questions(counts.adds)
            noisy = asked + self._atoms[1].draw(noise.at("questions"), asked.shape)
            histogram = self._shared(
                before.histograms[-1], noisy, spread(int(number), step, len(noisy))
            )
            estimate = self._together(before.estimates[-1], noisy) / self.domain.size
        public = WindowPublic(
            np.asarray(step),
            number,
            np.vstack([before.histograms, histogram.reshape(1, -1)]),
            np.vstack([before.estimates, estimate.reshape(1, -1)]),
        )
        return Step(State(public, state.private))

    def questions(self, counts: np.ndarray) -> np.ndarray:
        """(prefixes, questions) asked of windows after the first release."""
        rows = counts.reshape(-1, self.domain.size)
        if self.raw_bins:
            return rows + self.padding
        one, other = np.triu_indices(self.domain.size, 1)
        return rows[:, one] - rows[:, other]

    def _created(self, noisy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first histogram of synthetic people, and the first estimates."""
        people = None if self.people is None else self.people + self.padding * len(noisy)
        estimate = (
            noisy - self.padding + (0.0 if people is None else (people - noisy.sum()) / len(noisy))
        )
        return rounded(
            on_simplex(noisy.astype(float), float(noisy.sum() if people is None else people))
        ), estimate

    def _together(self, before: np.ndarray, noisy: np.ndarray) -> np.ndarray:
        """q times the windows' counts, by the new answers."""
        size = self.domain.size
        # In each prefix.
        ending = before.reshape(size, -1).sum(axis=0)[:, None]
        if self.raw_bins:
            return ending + size * noisy - noisy.sum(axis=1, keepdims=True)
        one, other = np.triu_indices(size, 1)
        more = np.zeros((len(noisy), size), np.int64)
        for place, (i, j) in enumerate(zip(one, other, strict=True)):
            more[:, i] += noisy[:, place]
            more[:, j] -= noisy[:, place]
        return ending + more

    def _shared(self, before: np.ndarray, noisy: np.ndarray, start: np.ndarray) -> np.ndarray:
        """How many people of each prefix take each value.

        The nearest shares, rounded up or down at random, evenly.
        """
        size, shares = self.domain.size, self._together(before, noisy)
        wanted, totals = shares / size, shares.sum(axis=1) // size
        for row in np.flatnonzero((shares < 0).any(axis=1)):
            wanted[row] = on_simplex(wanted[row], float(totals[row]))
        edges = np.cumsum(wanted, axis=1)
        whole_edges = np.floor(edges + (np.floor(start * size) + 0.5)[:, None] / size).astype(
            np.int64
        )
        whole_edges = np.clip(whole_edges, 0, totals[:, None])
        whole_edges[:, -1] = totals
        return np.diff(whole_edges, axis=1, prepend=0)

    def view(self, public: WindowPublic) -> WindowView | None:
        if not len(public.histograms):
            return None
        return WindowView(
            domain=self.domain,
            id=self.rows.id,
            step=int(public.step),
            seed=int(public.seed),
            window=self.window,
            histograms=public.histograms,
            estimates=public.estimates,
            variances=self.variances,
            people=self.people,
            padding=self.padding,
        )
