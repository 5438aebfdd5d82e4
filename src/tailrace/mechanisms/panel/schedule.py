"""Budgets of a panel that people join and leave, with proof.

**Privacy.** Q symbols, windows of k steps; rho = rho_0 + sum over epochs of (rho_w + rho_m). Later
releases lie in epochs of n releases each (a finite horizon is one epoch). Absence is a symbol, so
every person has one at every step, and nobody's depends on another's.

1. First release: a person is in one window, or in A^k, which is not counted: counts move by s = 1
   in squares (AddRemove, Null: the null person is absent throughout), or by s = 2 if replaced.
   Noise of variance s / (2 rho_0).
2. A later step, AddRemove and Null: a person with an inside prefix moves the Q-1 differences that
   its symbol is in, by 1 each: (Q-1) / v_d in units of noise. With the outside prefix, it moves one
   count of births: 1 / v_r, the same as v_r = v_d / (Q-1); or nothing, if it stays absent.
3. The same step, Replace. Different prefixes: the sum of both, at most 2 (Q-1) / v_d wherever they
   lie. The same outside prefix: 2 / v_r = 2 (Q-1) / v_d at most. The same inside prefix and
   different symbols: 2Q / v_d, as the pair of the two symbols moves by 2. The differing symbol then
   stays in both prefixes for k-1 steps, so this happens at most once in k steps.
4. An epoch's squares sum to d / v_d, d = (Q-1) n, or 2 (Q-1) n + 2 ceil(n/k) if replaced (without
   the last term for k = 1, where all prefixes are outside); v_d = d / (2 rho_w) makes that 2 rho_w.
   The counts of values at a step move by s: v_m = s n / (2 rho_m).
5. The Gaussian mechanism composes, also where inputs depend on past releases: each draw's scale is
   a public function of the release's number. The parts sum to rho.

v_r = n / rho_w under Replace would be too small for k > 1: a person in the outside prefix would
lose more than one inside, and the repeated prefix of step 3 comes on top.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from tailrace.mechanisms.panel.presence import Spread
from tailrace.noise.atoms import Atoms
from tailrace.privacy.loss import ZCDP, Loss

# The marginals' part of later budgets. A prototype chose it on generated panels: .3 lowers the
# standard error of a share at one step from 1.6 to 1.1 times that of `Missing.Carry` on a complete
# panel, .5 hardly more, with 10 % more noise on windows. Measured here: 1.17 times
# (`benchmarks/panel_joiners.py`).
MARGINALS = Fraction(3, 10)
# Releases of the first epoch of an endless panel; each epoch is twice as long as the one before.
# By reasoning: a year of months, with the first release.
_EPOCH = 12


class Epoch(NamedTuple):
    """The noise of later releases, alike within an epoch."""

    windows: Atoms
    births: Atoms
    marginals: Atoms


@dataclass(frozen=True)
class Schedule:
    """The noise of every release.

    rho: the budget of all.
    values: of the domain, without absence.
    window: the steps of a window.
    replaced: whether a person may be replaced by another.
    releases: how many there are; None: no end.
    first: the first release's budget, as a multiple of a later one's; None: equal errors.
    """

    rho: Fraction
    values: int
    window: int
    replaced: bool
    releases: int | None
    first: Fraction | None

    @property
    def _start(self) -> int:
        return 2 if self.replaced else 1

    def _length(self, epoch: int) -> int:
        """The number of later releases of an epoch."""
        return _EPOCH * 2**epoch if self.releases is None else self.releases - 1

    def _share(self, epoch: int) -> Fraction:
        """An epoch's part of later budgets: they sum to 1."""
        return Fraction(1, (epoch + 1) * (epoch + 2)) if self.releases is None else Fraction(1)

    def _moved(self, many: int) -> int:
        """d: the largest squared move of one person's windows."""
        again = 2 * -(-many // self.window) if self.replaced and self.window > 1 else 0
        return self._start * self.values * many + again

    @functools.cached_property
    def _rest(self) -> Fraction:
        """The budget of all later releases."""
        if self.releases == 1:
            return Fraction(0)
        many, share = self._length(0), self._share(0)
        if self.first is None:
            # The count of a window has the same variance in the first and in later releases.
            times = Fraction(self._start * (self.values + 1), self._moved(many)) * (1 - MARGINALS)
        else:
            times = self.first / many
        return self.rho / (1 + times * share)

    @functools.cached_property
    def start(self) -> Atoms:
        """The noise of the first release."""
        return Atoms(ZCDP(rho=self.rho - self._rest), self._start)

    def epoch(self, number: int) -> Epoch:
        """The noise of an epoch's releases."""
        budget, many = self._rest * self._share(number), self._length(number)
        windows, moved = ZCDP(rho=budget * (1 - MARGINALS)), self._moved(many)
        return Epoch(
            Atoms(windows, moved),
            # A person moves differences or births, never both at one step.
            Atoms(windows, Fraction(moved, self.values)),
            Atoms(ZCDP(rho=budget * MARGINALS), self._start * many),
        )

    def later(self, release: int) -> Epoch:
        """The noise of a release after the first."""
        number, ends = 0, self._length(0)
        while release > ends:
            number += 1
            ends += self._length(number)
        return self.epoch(number)

    def losses(self) -> Iterator[Loss]:
        """The loss of one person in each kind of draw, over all releases."""
        yield self.start.loss(1, 0)
        if self.releases != 1:
            windows, births, marginals = (atoms.loss(1, 0).as_zcdp() for atoms in self.epoch(0))
            yield ZCDP(rho=max(windows.rho, births.rho) / self._share(0))
            yield ZCDP(rho=marginals.rho / self._share(0))

    def spreads(self, many: int) -> tuple[Spread, ...]:
        """The variances of the first `many` later releases."""
        found, number = [], 0
        while len(found) < many:
            spread = Spread(*(atoms.variance() for atoms in self.epoch(number)))
            found += [spread] * self._length(number)
            number += 1
        return tuple(found[:many])
