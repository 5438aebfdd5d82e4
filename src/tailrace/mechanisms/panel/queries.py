"""Questions about short histories: windows of values.

A query is asked of a panel's view: `release.view.estimate(AtLeast(times=2, of=3))`. Its answer is
linear in the counts of windows: each window of `length` values has a weight, mostly 0 or 1.
"""

from __future__ import annotations

import abc
import functools
import itertools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tailrace.calls import told
from tailrace.domain.attributes import listed
from tailrace.errors import ConfigError
from tailrace.privacy.loss import whole

__all__ = ["AtLeast", "Between", "Pattern", "Query", "Spell", "Weighted"]


class Query(Protocol):
    """Any linear question about windows of `length` steps."""

    @property
    def length(self) -> int: ...
    def weights(self, values: Sequence[object]) -> np.ndarray:
        """The weight of each window, with an axis per step.

        `values` are those of the domain, in the order of their codes.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class _Times(abc.ABC):
    """A question about `times` of `of` steps with one value."""

    times: int
    of: int
    value: object = None

    def __post_init__(self) -> None:
        whole("of", self.of)
        if not 0 <= whole("times", self.times, least=0) <= self.of:
            raise ConfigError(
                "times must not be above of=: at least 2 of 3 steps is times=2, of=3."
            )

    @property
    def length(self) -> int:
        return self.of

    def weights(self, values: Sequence[object]) -> np.ndarray:
        code = code_of(values, self.value)
        return _where(len(values), self.of, lambda codes: self._most(codes, code) >= self.times)

    @staticmethod
    @abc.abstractmethod
    def _most(codes: tuple[int, ...], code: int) -> int:
        """How many steps of a window with the value count."""


@told
@dataclass(frozen=True, kw_only=True)
class AtLeast(_Times):
    """At least `times` of `of` steps with a value.

    Parameters
    times: how many steps.
    of: the length of the window.
    value: the value; None means the second one of two.

    >>> AtLeast(times=1, of=2).weights([0, 1])
    array([[0., 1.],
           [1., 1.]])
    """

    @staticmethod
    def _most(codes: tuple[int, ...], code: int) -> int:
        return codes.count(code)


@told
@dataclass(frozen=True, kw_only=True)
class Spell(_Times):
    """At least `times` steps in a row with a value.

    Parameters
    times: how many steps in a row.
    of: the length of the window.
    value: the value; None means the second one of two.

    >>> Spell(times=2, of=3).weights([0, 1])[1].tolist()
    [[0.0, 0.0], [1.0, 1.0]]
    """

    @staticmethod
    def _most(codes: tuple[int, ...], code: int) -> int:
        runs = itertools.groupby(codes)
        return max(len(list(run)) if same == code else 0 for same, run in runs)


@told
@dataclass(frozen=True)
class Pattern:
    """These values one after the other; `...` means any.

    >>> Pattern(0, ..., 1).length
    3
    """

    values: tuple[object, ...]

    def __init__(self, *values: object) -> None:
        if not values:
            raise ConfigError("A Pattern has at least one value, for example Pattern(0, 1, 1).")
        object.__setattr__(self, "values", values)

    @property
    def length(self) -> int:
        return len(self.values)

    def weights(self, values: Sequence[object]) -> np.ndarray:
        wanted = [
            None if value is ... else code_of(values, value, named=True) for value in self.values
        ]

        def holds(codes: tuple[int, ...]) -> bool:
            return all(want in (None, code) for want, code in zip(wanted, codes, strict=True))

        return _where(len(values), self.length, holds)


@told
@dataclass(frozen=True, kw_only=True)
class Between:
    """How often a value occurs from one step to another.

    The answer is a number of times: all people's together, or, as a proportion, the mean of a
    person. "At least b times" between two steps is another question: `AtLeast` at the second step,
    where windows are long enough.

    Parameters
    first: the first step.
    last: the last step.
    value: the value; None means the second one of two.

    >>> Between(first=2, last=3).weights([0, 1]).tolist()
    [[0.0, 1.0], [1.0, 2.0]]
    """

    first: int
    last: int
    value: object = None

    def __post_init__(self) -> None:
        if whole("last", self.last) < whole("first", self.first):
            raise ConfigError("last must not be before first: both are steps, and both count.")

    @property
    def length(self) -> int:
        return self.last - self.first + 1

    def weights(self, values: Sequence[object]) -> np.ndarray:
        one = np.zeros(len(values))
        one[code_of(values, self.value)] = 1.0
        return functools.reduce(np.add.outer, [one] * self.length)


@told
@dataclass(frozen=True, eq=False)
class Weighted:
    """Any weights of windows.

    `by_window` has an axis per step, and along it a weight for each value of the domain.
    """

    by_window: np.ndarray

    @property
    def length(self) -> int:
        return np.ndim(self.by_window)

    def weights(self, values: Sequence[object]) -> np.ndarray:
        weights = np.asarray(self.by_window, float)
        if weights.shape != (len(values),) * self.length or not self.length:
            raise ConfigError(
                f"Weighted takes an axis per step, each of the {len(values)} values of the domain."
            )
        return weights


def _where(values: int, length: int, holds: Callable[[tuple[int, ...]], bool]) -> np.ndarray:
    weights = np.zeros((values,) * length)
    for codes in np.ndindex(weights.shape):
        weights[codes] = holds(codes)
    return weights


def code_of(values: Sequence[object], value: object, *, named: bool = False) -> int:
    """The code of a value; None may be a value."""
    if value is None and not named:
        if len([known for known in values if known is not None]) != 2:
            raise ConfigError(
                f"The domain has more than two values: say with value= which one is counted, of "
                f"{listed(values)}."
            )
        return 1
    # Arrays and frames are no values, and compare cell by cell.
    for code, known in enumerate(values if isinstance(value, Hashable) else ()):
        if known == value and isinstance(known, bool) == isinstance(value, bool):
            return code
    raise ConfigError(f"The domain has no such value: ask for one of {listed(values)}.")
