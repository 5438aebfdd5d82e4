"""Take up values that nobody declared, once enough rows have them.

A row with an unknown value counts as `other`, and its text is remembered privately with the number
of its rows so far. At every step each remembered text is compared: rows + q >= threshold + k, with
noise q drawn anew and noise k kept from when the text first came. A text that passes is taken up
from the next step on, and is compared no more.

Privacy (epsilon, delta), for a unit that moves counts by m in all, over T steps:

1. What one unit can change. Rows of its own texts, of which there are at most m: the number of rows
   of a text from some step on, by at most m over all texts, and when a text first comes. Texts that
   are not its own are the same with and without it, and their noise is independent.
2. Imagine that a text of the unit is compared at all T steps, also while it has no rows. Nothing
   is deleted, so it has at least as many rows with the unit as without, by j at most. Fix all
   answers. From the world with the unit to the one without: negative answers stay negative; raise
   the q of the one positive answer by j. From the one without: raise k by as many rows as the unit
   has when the text passes (by j, if it never does). It had no more before, so negative answers
   stay negative, and the positive one stays positive. Either costs j / b, where b is the scale of
   q and of k, and m / b = epsilon in all over the texts of the unit (the sparse vector technique;
   counts that move one way pay once).
3. We compare only texts with rows. The two differ only where a text without rows would pass: with
   probability at most d = P(some q_t - k >= threshold, t <= T) for each of the m texts. Let P be
   ours and P' that of 2, and S any outcomes. Then P(S) <= P'(S) + m d <= e^epsilon P'(S; the other
   world) + m d <= e^epsilon P(S; the other world) + (1 + e^epsilon) m d. The threshold is the least
   with (1 + e^epsilon) m d <= delta. So a value that one unit alone has is ever released with
   probability at most e^epsilon m d, which is below delta.
4. d is at most the sum over T steps, in closed form. With p = e^(-1 / b) and x > 0, P(q >= x) =
   P(k <= -x) = p^x / (1 + p) and P(k = j) = p^|j| (1 - p) / (1 + p). With threshold h, sum over k:
   d <= p^h / (1 + p) + T p^h (1 - p) / (1 + p)^2 (1 / (1 - p^2) + h - 1).
5. Order. Texts that pass at one step are taken up in alphabetical order; codes follow. So both are
   functions of the answers. Beyond the public room nothing is compared or taken up.
6. Under `User` a unit's rows are bounded first, by its own rows alone; there a row is known by a
   keyed hash of its cell and text. The probability that a text of the unit has the hash of another
   one, of 4 million at most, is part of delta.
7. A row lies in one bin, whichever values are taken up: which one is fixed by earlier releases. So
   the histogram's loss is what it was, and adds up with this one (concurrent composition: Vadhan
   and Zhang 2023).

Source: Korolova, Kenthapadi, Mishra, Ntoulas 2009 (thresholds); Dwork, Roth 2014 (sparse vector).
Departs: one comparison per step instead of one release; integers, so that ties are exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tailrace.counting.plan import packed_texts, read_texts
from tailrace.errors import ConfigError
from tailrace.noise import Draws, check_drawable
from tailrace.privacy.loss import ApproxDP

# That a text of a unit has the hash of another, among 2^22 of them. Hashes have 62 bits, but for
# the numbers of cells.
_COLLISION = 2.0**-39
# The formula is evaluated in doubles.
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True)
class Candidates:
    """Private: unknown texts, their rows so far, and their kept noise."""

    texts: np.ndarray  # uint8, packed
    many: np.ndarray  # (texts,) int64
    kept: np.ndarray  # (texts,) int64


@dataclass(frozen=True)
class TakenUp:
    """Public: values taken up, and at which steps."""

    texts: np.ndarray  # uint8, packed
    steps: np.ndarray  # (values,) int64

    @property
    def values(self) -> list[str]:
        return read_texts(self.texts)


@dataclass(frozen=True)
class Growth:
    """The comparisons of unknown texts, and their loss.

    privacy: of all of them.
    moved: how far a unit moves counts in all.
    horizon: steps.
    room: values that may be taken up.
    """

    privacy: ApproxDP
    moved: int
    horizon: int
    room: int
    hashed: bool = False  # whether rows of a unit are known by a hash of their text

    @property
    def scale(self) -> Fraction:
        """Of noise that is kept and of noise drawn anew."""
        return self.moved / self.privacy.epsilon

    def check(self) -> None:
        """Refuse a budget whose noise cannot be drawn."""
        check_drawable(self.scale)
        if self.threshold >= 1 << 60:
            raise ConfigError("privacy= is too small for values that grow: no count would do.")

    @property
    def loss(self) -> ApproxDP:
        """The loss that scales and threshold prove."""
        epsilon = self.moved / self.scale
        return ApproxDP(epsilon=epsilon, delta=Fraction(self.delta(self.threshold)))

    def delta(self, threshold: int) -> float:
        """The delta of a threshold, by the closed form, rounded up."""
        scale = float(self.scale)
        p, rest = math.exp(-1 / scale), -math.expm1(-1 / scale)
        steps = self.horizon * rest / (1 + p) * (threshold - 1 - 1 / math.expm1(-2 / scale))
        passing = math.exp(-threshold / scale) / (1 + p) * (1 + steps)
        proved = (1 + math.exp(float(self.privacy.epsilon))) * self.moved * passing * _ROUNDING
        return proved + self.moved * _COLLISION * self.hashed

    @property
    def threshold(self) -> int:
        """The least threshold within delta."""
        wanted, high = float(self.privacy.delta) / _ROUNDING, 1
        while self.delta(high) > wanted and high < 1 << 60:
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.delta(middle) <= wanted else (middle, high)
        return high

    def init(self) -> tuple[TakenUp, Candidates]:
        none, nothing = packed_texts([]), np.zeros(0, np.int64)
        return TakenUp(none, nothing), Candidates(none, nothing, nothing)

    def step(
        self,
        public: TakenUp,
        private: Candidates,
        rows: dict[str, int],
        declared: Sequence[str],
        step: int,
        noise: Draws,
    ) -> tuple[TakenUp, Candidates]:
        """Compare all unknown texts, of which `rows` came at this step."""
        values = public.values
        if len(values) >= self.room:
            return public, self.init()[1]
        before = read_texts(private.texts)
        fresh = sorted(rows.keys() - {*before, *values, *declared})
        texts = [*before, *fresh]
        order = np.argsort(np.array(texts, object), kind="stable").astype(np.int64)
        first = noise.at("kept").laplace_by(self.scale, fresh, kept=True)
        kept = np.concatenate([private.kept, first])[order]
        texts = [texts[place] for place in order]
        many = np.concatenate([private.many, np.zeros(len(fresh), np.int64)])[order]
        many = many + np.array([rows.get(text, 0) for text in texts], np.int64)
        drawn = noise.at("fresh").laplace_by(self.scale, texts)
        passing = np.asarray(drawn - kept >= self.threshold - many)
        passed = [texts[place] for place in np.flatnonzero(passing)][: self.room - len(values)]
        left = np.flatnonzero(~passing)
        return (
            TakenUp(
                packed_texts([*values, *passed]),
                np.concatenate([public.steps, np.full(len(passed), step)]),
            ),
            Candidates(packed_texts([texts[place] for place in left]), many[left], kept[left]),
        )
