"""Arrays known as noise until they meet a count.

A tracked array knows for every element the draws it sums. Indexing, `sum(axis=0)`, sums and
differences of noise, `concatenate` and `stack` keep that knowledge. Adding integers makes a noisy
number and comparing makes an answer: the meter is told of both. Other functions see plain numbers.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

SHAPE = "noise is drawn in the shape of the counts that it meets"
# Each as noise >= bound: (whether equality answers no, whether yes means true)
COMPARISONS = {
    np.greater_equal: (False, True),
    np.greater: (True, True),
    np.less: (False, False),
    np.less_equal: (True, False),
}
_TURNED = {
    np.greater_equal: np.less_equal,
    np.greater: np.less,
    np.less: np.greater,
    np.less_equal: np.greater_equal,
}


class Watches(Protocol):
    """A meter that is told where noise goes."""

    def met(self, exact: np.ndarray, noise: np.ndarray, terms: np.ndarray) -> np.ndarray:
        """Add noise to exact numbers; returns the noisy ones."""
        ...

    def compared(self, comparison: Any, noise: Tracked, against: np.ndarray) -> np.ndarray:
        """Compare noise with exact numbers; returns the answers."""
        ...


class Tracked(np.ndarray):
    """Noise, and the draws it sums."""

    watch: Watches | None
    # (terms, *shape) numbers of draws, from 1; negative: subtracted, 0: none
    terms: Any

    @classmethod
    def of(cls, watch: Watches, values: Any, terms: np.ndarray) -> Tracked:
        found = np.asarray(values).view(cls)
        found.watch, found.terms = watch, terms
        return found

    def __array_finalize__(self, obj: Any) -> None:
        self.watch = self.terms = None

    def __getitem__(self, place: Any) -> Any:
        found = np.asarray(self)[place]
        if self.watch is None:
            return found
        places = place if isinstance(place, tuple) else (place,)
        return Tracked.of(self.watch, found, self.terms[:, *places])

    def sum(self, axis: Any = None, *others: Any, **options: Any) -> Any:
        values = np.asarray(self).sum(axis, *others, **options)
        if self.watch is None or axis != 0 or others or options:
            return values
        return Tracked.of(self.watch, values, self.terms.reshape(-1, *values.shape))

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any
    ) -> Any:
        found = None
        if method == "__call__" and not options and any(map(_known, inputs)):
            found = _combined(ufunc, inputs)
        if found is None:
            found = getattr(ufunc, method)(*map(_plain, inputs), **options)
        if out is None:
            return found
        _plain(out[0])[...] = found
        return found if isinstance(out[0], Tracked) else out[0]

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        found = func(*map(_plain, args), **{name: _plain(value) for name, value in kwargs.items()})
        watch = func in (np.concatenate, np.stack) and next(
            (part.watch for part in args[0] if _known(part)), None
        )
        if not watch:
            return found
        axis = kwargs.get("axis", args[1] if len(args) > 1 else 0)
        terms = [
            part.terms if _known(part) else np.zeros((0, *np.shape(part)), np.int64)
            for part in args[0]
        ]
        most = max(map(len, terms))
        even = [
            np.pad(part, [(0, most - len(part)), *[(0, 0)] * (part.ndim - 1)]) for part in terms
        ]
        return Tracked.of(watch, found, func(even, axis=axis + 1 if axis >= 0 else axis))


def _known(value: Any) -> bool:
    return isinstance(value, Tracked) and value.watch is not None


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    return np.asarray(value) if isinstance(value, Tracked) else value


def _combined(ufunc: Any, inputs: Any) -> Any:
    """Noise, noisy numbers or answers; None for other functions."""
    if ufunc is np.negative:
        return Tracked.of(inputs[0].watch, -np.asarray(inputs[0]), -inputs[0].terms)
    if ufunc not in (np.add, np.subtract, *COMPARISONS):
        return None
    one, other = (np.asarray(_plain(value)) for value in inputs)
    assert one.shape == other.shape, SHAPE
    sign = 1 if ufunc is np.add else -1
    if all(map(_known, inputs)):
        terms = np.concatenate([inputs[0].terms, sign * inputs[1].terms])
        both = Tracked.of(inputs[0].watch, one + sign * other, terms)
        return both if ufunc not in COMPARISONS else ufunc(both, np.zeros_like(one))
    first = _known(inputs[0])
    noise, exact = (inputs[0], other) if first else (inputs[1], one)
    if ufunc in COMPARISONS:
        return noise.watch.compared(ufunc if first else _TURNED[ufunc], noise, exact)
    if first:
        return noise.watch.met(sign * exact, one, noise.terms)
    return noise.watch.met(exact, sign * other, sign * noise.terms)
