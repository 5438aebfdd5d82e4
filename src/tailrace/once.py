"""A release that is made once, of everything: no directory, no ledger, nothing kept."""

from __future__ import annotations

from typing import Any

from tailrace.calls import told
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Mechanism, Takes
from tailrace.noise import Noise
from tailrace.release import Release
from tailrace.stream import Stream


@told
def release_once(mechanism: Mechanism, frame: Any, *, noise: Noise | None = None) -> Release:
    """The one release of a mechanism that takes everything at once; `Stream.create` makes the same, kept and charged.

    >>> import polars as pl
    >>> from tailrace import Box, Event, PureDP, Trajectories
    >>> square = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=8)
    >>> walks = Trajectories(domain=square, privacy=PureDP(epsilon=1), unit=Event(), trajectory="walk", order="minute")
    >>> rows = pl.DataFrame({"walk": [1, 1], "minute": [0, 5], "x": [0.1, 0.3], "y": [0.1, 0.2]})
    >>> release_once(walks, rows).table.columns
    ['walk', 'minute', 'x', 'y']
    """
    if getattr(mechanism, "takes", None) is not Takes.Once:
        raise ConfigError(
            "release_once takes a mechanism that is fed everything at once, for example Trajectories(...); others have steps: use Stream."
        )
    with Stream(mechanism, noise=noise) as stream:
        return stream.push(frame)
