"""Noise for complete panels: shorter windows measured beside the whole.

The count of a window goes on in later releases only through sums over its oldest values: noise on
the newest value, summed over all older ones, lives for k releases, noise on a whole window for one,
and the number of people for ever. So each release measures tables of all lengths, summed over the
oldest values, and noise is least where it lasts longest.

A table of level L has one number for each choice of the newest L values. The first release measures
counts (L = 0, the number of people, to k), each later one the differences of all pairs of newest
values by the L values before (L = 0 to k-1), for q values.

Privacy: rho is the sum of all levels' parts.
1. First release: a person is in one cell of each level: s_L = 1 in squares, or 2 if replaced.
2. Later: level L is the later releases of a panel of windows of L+1 steps, which lose at most d_L /
   (2 v_L), d_L = (q-1) n or 2 (q-1) n + 2 ceil(n/(L+1)) for n releases (`window.py`, steps 2 to 4).
   Noise of variance d_L / (2 rho_L) makes that rho_L.
3. Losses of zCDP add up, also where inputs depend on past releases. Parts are public.

Accuracy: write a table as the sum of parts, part i constant in all but the newest i values and of
sum 0 over the i-th. Part i of level M has noise of variance q^(M-i) v_M per sum, so levels combine
by their precisions, part by part: exact least squares. A part that lives for T_i releases adds
T_i / precision_i to the sum of all variances, which is least, for a given budget, at precisions
proportional to sqrt(T_i): those are the parts of the levels here. For two values under AddRemove
this is within 1 % of the least error of any unbiased linear method (the singular value bound of Li
and Miklau; `benchmarks/panels.py`, `panel_ratios.csv`).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tailrace.noise.atoms import Atoms
from tailrace.privacy.loss import ZCDP

Tables = dict[int, np.ndarray]  # by level


@dataclass(frozen=True)
class Nested:
    """The noise of all levels of a complete panel.

    rho: the budget of all.
    values: of the domain.
    window: the steps of a window.
    releases: how many there are.
    replaced: whether a person may be replaced by another.
    known: whether the number of people is public.
    first: the first release's budget, as a multiple of a later one's; None: the best.
    """

    rho: Fraction
    values: int
    window: int
    releases: int
    replaced: bool
    known: bool
    first: Fraction | None

    def _lives(self, level: int, *, later: bool) -> float:
        """T: for how many releases a level's own part lives, on average."""
        k, many = self.window, self.releases
        if not later:
            return many if level == 0 else min(k - level + 1, many)
        return sum(min(k - level, left) for left in range(1, many)) / (many - 1)

    def _moved(self, level: int) -> int:
        """d_L: the largest squared move of one person's later differences."""
        many, apart = self.releases - 1, self.values - 1
        if not self.replaced:
            return apart * many
        return 2 * apart * many + 2 * -(-many // (level + 1))

    def _parts(self, *, later: bool) -> dict[int, Fraction]:
        """The part of each level in its budget; levels that would not help are left out."""
        top, finer, found = self.window - later, 0.0, {}
        for level in range(top, -1, -1):
            if level == 0 and self.known and not later:
                break
            root = self._lives(level, later=later) ** 0.5
            moved = self._moved(level) if later else 1
            share = (root - finer) * moved / self._moved(top) if later else root - finer
            found[level] = Fraction(round(share / self.values ** (top - level) * 2**20), 2**20)
            finer = root
        whole = sum(found.values())
        return {level: share / whole for level, share in found.items() if share}

    def _cost(self, *, later: bool) -> float:
        """The sum of all variances of a window at a budget of 1."""
        q, top, parts = self.values, self.window - later, self._parts(later=later)
        variances = {}
        for level, part in parts.items():
            moved = self._moved(level) / q if later else 1 + self.replaced
            variances[level] = moved / (2 * float(part))
        total, many = 0.0, self.releases - 1 if later else 1
        for level in range(self.known and not later, top + 1):
            parts_of = (q**level - (q ** (level - 1) if level else 0)) * (q - 1 if later else 1)
            lives = self._lives(level, later=later) * many
            total += parts_of * lives / self._precision(variances, level, top)
        return total

    def _precision(self, variances: dict[int, float], level: int, top: int) -> float:
        """Of a level's own part, where its numbers have these variances."""
        q = self.values
        return sum(q ** (top - at) / var for at, var in variances.items() if at >= level)

    @functools.cached_property
    def _rest(self) -> Fraction:
        """The budget of all later releases."""
        many = self.releases - 1
        if not many:
            return Fraction(0)
        if self.first is not None:
            return self.rho * many / (self.first + many)
        root = (self._cost(later=False) / self._cost(later=True)) ** 0.5
        return self.rho / (1 + Fraction(round(root * 2**20), 2**20))

    @functools.cached_property
    def start(self) -> dict[int, Atoms]:
        """The noise of the first release, by level."""
        moved, budget = 1 + self.replaced, self.rho - self._rest
        parts = self._parts(later=False)
        return {level: Atoms(ZCDP(rho=budget * part), moved) for level, part in parts.items()}

    @functools.cached_property
    def later(self) -> dict[int, Atoms]:
        """The noise of later releases, by level."""
        if not self._rest:
            return {}
        parts = self._parts(later=True)
        return {
            level: Atoms(ZCDP(rho=self._rest * part), self._moved(level))
            for level, part in parts.items()
        }

    @functools.cached_property
    def variances(self) -> tuple[dict[int, float], dict[int, float]]:
        """Of counts by level: first, and in later releases."""
        first = {level: atoms.variance() for level, atoms in self.start.items()}
        return first, {level: a.variance() / self.values for level, a in self.later.items()}

    def counts(self, table: np.ndarray, level: int) -> np.ndarray:
        """A table summed over all but its newest `level` values."""
        return table.reshape(-1, self.values**level, *table.shape[1:]).sum(axis=0)

    def combined(self, tables: Tables, *, later: bool) -> np.ndarray:
        """The finest table by least squares from those of all levels."""
        q, variances, found = self.values, self.variances[later], np.zeros(0)
        for level in range(max(tables) + 1):
            weights = {at: q ** (level - at) / variances[at] for at in tables if at >= level}
            sums = sum(weights[at] * self.counts(tables[at], level) for at in weights)
            mean = np.asarray(sums / sum(weights.values()))
            if not level:
                found = mean
                continue
            split = mean.reshape(q, -1, *mean.shape[1:])
            found = (split - split.mean(axis=0) + found / q).reshape(mean.shape)
        return found

    def variance(self, weights: np.ndarray, *, later: bool, measured: bool = False) -> float:
        """The variance of the sum of weights times the finest table.

        `measured`: with the number of people as measured, though it is public.
        """
        top, variances, total, coarser = self.window - later, self.variances[later], 0.0, 0.0
        for level in range(top + 1):
            size = self.values ** (top - level)
            square = float((self.counts(weights, level) ** 2).sum()) / size
            if level or later or measured or not self.known:
                total += (square - coarser) / self._precision(variances, level, top)
            coarser = square
        return max(total, 0.0)
