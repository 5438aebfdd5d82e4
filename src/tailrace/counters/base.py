"""The contract of a continual counter: private running sums.

A counter keeps n rows at once, each with a clock of its own. All that a counter is given is checked
here, before noise is drawn: a refusal tells shapes and settings, never a count.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from tailrace.errors import ConfigError, DataError, HorizonReached
from tailrace.noise import Draws
from tailrace.privacy.loss import Loss, check_privacy, whole

S = TypeVar("S")
Fed = slice | np.ndarray


class Counter(Protocol[S]):
    """Frozen public configuration, and pure functions of an explicit state.

    `init`, `grow` and `step` return new states and leave the old one as it was: the same state,
    input and noise path give the same result. A state is a frozen dataclass of arrays, and private:
    it holds exact sums. Deletions are negative inputs.
    """

    @property
    def privacy(self) -> Loss | None:
        """The loss of one event; a mechanism fills it in."""
        ...

    @property
    def horizon(self) -> int | None:
        """How many steps a row may take; None: no limit."""
        ...

    def init(self, rows: int) -> S:
        """`rows` running sums at time 0."""
        ...

    def grow(self, state: S, rows: int) -> S:
        """The same with `rows` further rows at time 0."""
        ...

    def step(
        self, state: S, x: np.ndarray, noise: Draws, rows: np.ndarray | None = None
    ) -> tuple[S, np.ndarray]:
        """Feed x[i] to row rows[i]; None: all rows in order.

        Returns the state and the fed rows' estimates of their sums.
        """
        ...

    def loss(self, events: int = 1, deletes: int = 0) -> Loss:
        """The loss of one unit's insertions and deletions together.

        It holds wherever they fall in time and rows.
        """
        ...

    def variance(self, t: ArrayLike, since: ArrayLike = 0) -> np.ndarray:
        """Exact variance of estimate(t) - estimate(since) of a row."""
        ...


def configured(counter: Any, *numbers: str) -> None:
    """Refuse unusable settings; keep whole numbers as ints."""
    if counter.privacy is not None:
        check_privacy(counter.privacy)
    for name in ("horizon", *numbers):
        value = getattr(counter, name)
        if value is not None:
            object.__setattr__(counter, name, whole(name, value))


def bounded(horizon: int | None, name: str) -> int:
    """The horizon of a counter that cannot do without one."""
    if horizon is None:
        raise ConfigError(
            f"{name} needs horizon=, the number of steps; for a stream without end use "
            f"counters.Unbounded(counter={name}())."
        )
    return horizon


def row_count(rows: int) -> int:
    """A number of rows, which may be 0."""
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 0:
        raise DataError("The number of rows must be a whole number of at least 0.")
    return int(rows)


def fed(
    clock: np.ndarray, x: np.ndarray, rows: np.ndarray | None, horizon: int | None
) -> tuple[Fed, np.ndarray]:
    """The rows fed now, and their inputs as int64."""
    values = _array(x)
    if values.dtype.kind not in "iu" or values.dtype == np.uint64:
        raise DataError(
            "A counter takes signed integer counts: round or rescale them first, on a public grid."
        )
    if rows is None:
        index, count = slice(None), len(clock)
    else:
        index = _array(rows)
        if index.ndim != 1 or (index.size and index.dtype.kind not in "iu"):
            raise DataError("rows must be a one-dimensional array of row numbers.")
        index, count = index.astype(np.int64, copy=False), len(index)
        if count and not (index.min() >= 0 and index.max() < len(clock)):
            raise DataError(
                f"rows must be row numbers from 0 to {len(clock) - 1}; use grow() to add rows."
            )
        seen = np.zeros(len(clock), np.bool_)
        seen[index] = True
        if int(seen.sum()) != count:
            raise DataError(
                "rows names a row twice: add its counts up first, a row takes one input per step."
            )
    if values.shape != (count,):
        raise DataError(
            f"x must hold one count for each of the {count} rows fed; its shape is {values.shape}."
        )
    if horizon is not None and count and int(clock[index].max()) >= horizon:
        raise HorizonReached(
            f"A row has taken all {horizon} steps of its horizon; start a new counter, which is a "
            f"new charge."
        )
    return index, values.astype(np.int64, copy=False)


def _array(values: ArrayLike) -> np.ndarray:
    try:
        return np.asarray(values)
    except ValueError:
        raise DataError(
            "Expected an array of whole numbers of one shape; this one is ragged."
        ) from None


def times(t: ArrayLike, since: ArrayLike, horizon: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays of times, broadcast together and checked."""
    try:
        late, early = np.broadcast_arrays(_array(t), _array(since))
    except ValueError:
        raise ConfigError("t and since must have shapes that go together.") from None
    for name, values in (("t", late), ("since", early)):
        if values.dtype.kind not in "iu" or (values.size and values.min() < 0):
            raise ConfigError(f"{name} must hold whole numbers of at least 0: steps taken.")
        if horizon is not None and values.size and int(values.max()) > horizon:
            raise ConfigError(f"{name} lies beyond the horizon of {horizon} steps.")
    return late.astype(np.int64), early.astype(np.int64)
