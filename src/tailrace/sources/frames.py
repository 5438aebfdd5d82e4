"""Any iterable of data frames: one for each step, from the first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tailrace.calls import told
from tailrace.errors import StateError
from tailrace.sources.base import Batch

_END = object()


@told
class Frames:
    """Frames of any engine, or pairs (inserted, deleted), or None for a step without rows.

    A stream that is opened again goes on where it stood: give it the same frames from the first,
    and those of the steps that are released already are passed over without being looked at.

    >>> source = Frames([None, None])
    >>> source.ready(2), source.ready(3)
    (True, False)
    """

    def __init__(self, frames: Iterable[Any]) -> None:
        self._frames, self._step, self._held = iter(frames), 0, None

    @property
    def over(self) -> bool:
        return self._held is _END

    def ready(self, step: int) -> bool:
        while self._step < step and not self.over:
            self._held = next(self._frames, _END)
            self._step += 1
        return not self.over

    def batch(self, step: int) -> Batch:
        if not self.ready(step) or self._step != step:
            raise StateError(
                f"The frame of step {step} is not to be had: frames come once, in their order."
            )
        held = self._held
        if isinstance(held, Batch):
            return held
        return Batch(*held) if isinstance(held, tuple) and len(held) == 2 else Batch(held)
