"""Any bounded counter, restarted for epochs of doubling length.

Privacy: that of the bounded counter with the same budget, over the whole stream. Epochs are public
and disjoint: an element enters one instance, whose loss is the declared one over its own horizon; a
unit's m insertions and d deletions may fall into several epochs, each of which loses what its own
share proves, and the sum over epochs is at most that of all in one (m + d times epsilon; (m^2 +
d^2) rho). Inputs may depend on past outputs where the bounded counter allows it.
Accuracy: finished epochs keep the noise of their last estimate: the sum of the epochs' final
variances plus that of the running one.
Source: the doubling of Chan-Shi-Song 2011 ("Hybrid Mechanism"), for any counter, with frozen
totals.
Departs: none.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tailrace.calls import told
from tailrace.counters.base import Counter, configured, fed, row_count, times
from tailrace.counters.ladder import BinaryTree
from tailrace.errors import ConfigError
from tailrace.noise import Draws
from tailrace.privacy.loss import Loss


@dataclass(frozen=True)
class Epochs:
    """Rows, each in an epoch of its own."""

    clock: np.ndarray  # (rows,) steps taken
    finished: np.ndarray  # (rows,) sum of the final estimates of finished epochs
    oldest: np.ndarray  # () the epoch of running[0]; no row is in an earlier one
    running: tuple[Any, ...]  # the bounded counter's state for each epoch from `oldest` on


@told
@dataclass(frozen=True, kw_only=True)
class Unbounded:
    """`counter` restarted every `first`, 2 `first`, 4 `first`, ... steps.

    >>> from tailrace import PureDP
    >>> from tailrace.counters import BinaryTree
    >>> Unbounded(counter=BinaryTree(), first=4, privacy=PureDP(epsilon=1)).epoch(2)
    BinaryTree(privacy=PureDP(epsilon='1'), horizon=16)
    """

    counter: Any
    first: int = 1
    privacy: Loss | None = None
    horizon: int | None = None

    def __post_init__(self) -> None:
        configured(self, "first")
        if (
            isinstance(self.counter, type)
            or not (hasattr(self.counter, "privacy") and hasattr(self.counter, "horizon"))
            or self.counter.privacy is not None
            or self.counter.horizon is not None
        ):
            raise ConfigError(
                "Unbounded takes a counter without privacy= and horizon=, for example "
                "Unbounded(counter=Block(), privacy=...)."
            )
        self.epoch(0)  # a budget that the counter cannot use is refused now, not at the first step

    def epoch(self, number: int) -> Counter[Any]:
        """The bounded counter of one epoch."""
        return replace(self.counter, privacy=self.privacy, horizon=self.first << number)

    def init(self, rows: int) -> Epochs:
        count = row_count(rows)
        return Epochs(
            np.zeros(count, np.int64),
            np.zeros(count),
            np.zeros((), np.int64),
            (self.epoch(0).init(count),),
        )

    def grow(self, state: Epochs, rows: int) -> Epochs:
        count, oldest = row_count(rows), int(state.oldest)
        # new rows begin in epoch 0
        earlier = range(oldest if count else 0)
        missing = [self.epoch(number).init(len(state.clock)) for number in earlier]
        running = [*missing, *state.running]
        first = oldest - len(missing)
        return Epochs(
            np.pad(state.clock, (0, count)),
            np.pad(state.finished, (0, count)),
            np.array(first, np.int64),
            tuple(
                self.epoch(first + place).grow(inner, count) for place, inner in enumerate(running)
            ),
        )

    def step(
        self, state: Epochs, x: np.ndarray, noise: Draws, rows: np.ndarray | None = None
    ) -> tuple[Epochs, np.ndarray]:
        index, x = fed(state.clock, x, rows, self.horizon)
        clock, finished = state.clock.copy(), state.finished.copy()
        running, oldest = list(state.running), int(state.oldest)
        clock[index] += 1
        fed_rows = np.arange(len(clock))[index]
        epochs = self._epoch_of(clock[index])
        while oldest + len(running) <= epochs.max(initial=0):
            running.append(self.epoch(oldest + len(running)).init(len(clock)))
        estimates = finished[index].copy()
        # made, or refused, before a draw
        instances = {int(number): self.epoch(int(number)) for number in np.unique(epochs)}
        for number, instance in instances.items():
            here = np.flatnonzero(epochs == number)
            place = number - oldest
            running[place], inner = instance.step(
                running[place], x[here], noise.at("epoch", number), fed_rows[here]
            )
            estimates[here] += inner
            ending = clock[fed_rows[here]] == self._start(number + 1)
            finished[fed_rows[here][ending]] += inner[ending]
        leave = int(self._epoch_of(clock + 1).min()) - oldest if len(clock) else 0
        # every row has left: nothing of this epoch is needed again
        while leave > 0 and len(running) > 1:
            running.pop(0)
            oldest, leave = oldest + 1, leave - 1
        return Epochs(clock, finished, np.array(oldest, np.int64), tuple(running)), estimates

    def loss(self, events: int = 1, deletes: int = 0) -> Loss:
        return self.epoch(0).loss(events, deletes)

    def variance(self, t: ArrayLike, since: ArrayLike = 0) -> np.ndarray:
        late, early = times(t, since, self.horizon)
        late, early = np.maximum(late, early), np.minimum(late, early)
        result = np.zeros(late.shape)
        for number in range(int(self._epoch_of(late.max(initial=1))) + 1):
            start, length = self._start(number), self.first << number
            result += self.epoch(number).variance(
                np.clip(late - start, 0, length), np.clip(early - start, 0, length)
            )
        return result

    def _start(self, number: int) -> int:
        """The time before the epoch begins."""
        return self.first * (2**number - 1)

    def _epoch_of(self, t: np.ndarray) -> np.ndarray:
        """The epoch that holds step t >= 1."""
        return np.frexp((np.maximum(t, 1) - 1) // self.first + 1)[1].astype(np.int64) - 1


@told
@dataclass(frozen=True, kw_only=True)
class Hybrid(Unbounded):
    """The unbounded binary tree: `Unbounded(counter=BinaryTree())` by its own name.

    Privacy: that of `Unbounded`: an element of epoch e, which has 2^e elements, lies in at most
    e + 1 atoms of that epoch's tree, each with noise Lap((e+1)/epsilon) or N(0, (e+1)/(2 rho)).
    Accuracy: O(log^1.5 t) error; over the first 65,536 steps restarted blocks still beat it under
    pure noise (benchmarks/results/counters_endless.csv).
    Source: Chan-Shi-Song 2011, "Hybrid Mechanism"; named, not written out, in the papers.
    Departs: finished epochs use the noise of their root, with the right number of levels; integer
    noise.
    """

    counter: Any = field(default_factory=BinaryTree)
