"""Methods that see a whole table once: MST and AIM, fitted by `mbi`.

Their loops are our own, after McKenna et al. (MST 2021, AIM 2022); noise is continuous. An event
moves one cell of each measured marginal by one. A loss of `privacy` is divided as published:

1. MST: a third for all columns, a third for a spanning tree of pairs (the exponential mechanism on
   the 1-norm from independent columns, as Kruskal's algorithm goes), a third for these pairs.
2. AIM: a tenth of each round for choosing, the rest for counts; noise is halved when a round taught
   less than noise would. Candidates are pairs whose model fits into the part of `limit` that the
   budget spent so far allows.

AIM's fits in between are ours (`JunctionTree`, 10 rounds), because mbi compiles anew for every set
of cliques; the last fit of both is mbi's (`PGM`).
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tailrace.counting.marginals import Marginals, all_ways
from tailrace.models import PGM, JunctionTree
from tailrace.models.tables import Measured, Model
from tailrace.models.tables.rows import Rows, resampled
from tailrace.privacy.loss import Loss, PureDP

Pair = tuple[int, ...]
LIMIT = 2**18


@dataclass
class Counted:
    """A table's exact counts, and what was measured of them."""

    digits: np.ndarray
    shape: tuple[int, ...]
    privacy: Loss
    rng: np.random.Generator
    measured: list[Measured] = field(default_factory=list)

    def __post_init__(self) -> None:
        pairs = all_ways(self.shape, 2)
        singles = tuple((column,) for column in range(len(self.shape)))
        self.marginals = Marginals(self.shape, (*singles, *pairs.cliques))
        self.counts = self.marginals.tally(self.digits)
        self.pure = isinstance(self.privacy, PureDP)
        self.budget = float(
            self.privacy.epsilon
            if isinstance(self.privacy, PureDP)
            else self.privacy.zcdp_within().rho
        )

    def exact(self, clique: Pair) -> np.ndarray:
        return self.marginals.part(self.counts, self.marginals.index(clique))

    def measure(self, cliques: list[Pair], budget: float) -> None:
        """Measure marginals that share a budget equally."""
        each = budget / len(cliques)
        deviation = math.sqrt(2) / each if self.pure else math.sqrt(1 / (2 * each))
        for clique in cliques:
            exact = self.exact(clique)
            noise = (
                self.rng.laplace(0, 1 / each, exact.shape)
                if self.pure
                else self.rng.normal(0, deviation, exact.shape)
            )
            self.measured.append(Measured(clique, exact + noise, deviation**2))

    def choose(self, scores: np.ndarray, budget: float, sensitivity: float = 1.0) -> int:
        """The exponential mechanism."""
        epsilon = budget if self.pure else math.sqrt(8 * budget)
        return int(
            np.argmax(epsilon / (2 * sensitivity) * scores + self.rng.gumbel(size=len(scores)))
        )

    def fitted(self, fit: PGM | JunctionTree, start: Model | None = None) -> Model:
        """A model of the measurements, of the total they say."""
        weights = np.array([1 / (one.counts.size * float(one.variance)) for one in self.measured])
        sums = np.array([one.counts.sum() for one in self.measured])
        total = max(float(weights @ sums / weights.sum()), 1.0)
        return fit.fit(self.shape, self.measured, total=total, start=start)


def mst(of: Counted) -> Model:
    third = of.budget / 3
    singles = [(column,) for column in range(len(of.shape))]
    of.measure(singles, third)
    model = of.fitted(JunctionTree())
    pairs = list(itertools.combinations(range(len(of.shape)), 2))
    away = [
        np.abs(of.exact(pair) - expected).sum()
        for pair, expected in zip(pairs, model.marginals(pairs), strict=True)
    ]
    part, tree = list(range(len(of.shape))), []
    while len(tree) < len(of.shape) - 1:
        left = [place for place, (a, b) in enumerate(pairs) if part[a] != part[b]]
        scores = np.array([away[place] for place in left])
        a, b = pairs[left[of.choose(scores, third / (len(of.shape) - 1))]]
        tree.append((a, b))
        part = [part[a] if one == part[b] else one for one in part]
    of.measure(tree, third)
    return of.fitted(PGM())


def aim(of: Counted) -> Model:
    columns, rho = len(of.shape), of.budget
    if of.pure:
        raise ValueError("AIM divides a zCDP budget.")
    singles = [(column,) for column in range(columns)]
    pairs = list(itertools.combinations(range(columns), 2))
    weight = {
        one: float(sum(len({*one} & {*pair}) for pair in pairs)) for one in (*singles, *pairs)
    }
    counting, choosing = 0.9 * rho / (16 * columns), 0.1 * rho / (16 * columns)
    of.measure(singles, counting * columns)
    spent = counting * columns
    model, fit = of.fitted(JunctionTree(rounds=10)), JunctionTree(limit=2**30, rounds=10)
    while spent < rho * (1 - 1e-9):
        if rho - spent < 2 * (counting + choosing):
            counting, choosing = 0.9 * (rho - spent), 0.1 * (rho - spent)
        spent += counting + choosing
        held = [one.clique for one in of.measured]
        fits = [
            pair
            for pair in (*singles, *pairs)
            if fit.cells(of.shape, [*held, pair]) <= max(LIMIT * spent / rho, 1)
            or any({*pair} <= {*one} for one in held)
        ]
        size = math.sqrt(2 / math.pi) * math.sqrt(1 / (2 * counting))
        scores = [
            weight[pair] * (np.abs(of.exact(pair) - expected).sum() - size * expected.size)
            for pair, expected in zip(fits, model.marginals(fits), strict=True)
        ]
        most = max(weight[pair] for pair in fits)
        chosen = fits[of.choose(np.array(scores), choosing, most)]
        of.measure([chosen], counting)
        before = model.marginals([chosen])[0]
        model = of.fitted(fit, model)
        if np.abs(model.marginals([chosen])[0] - before).sum() <= size * before.size:
            counting, choosing = 4 * counting, 4 * choosing
    return of.fitted(PGM(limit=2**30), model)


METHODS: dict[str, Callable[[Counted], Model]] = {"MST": mst, "AIM": aim}


def rows_of(method: str, digits: np.ndarray, shape: tuple[int, ...], privacy: Loss, seed: int):
    """Synthetic rows of one release of a whole table."""
    rng = np.random.default_rng(seed)
    model = METHODS[method](Counted(digits, shape, privacy, rng))
    none = Rows.of(np.zeros((0, len(shape)), np.int32))
    return resampled(model, none, round(model.total), rng)[1]
