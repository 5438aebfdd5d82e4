"""Steps fixed beforehand, evenly spaced: what a public schedule shares among policies."""

from __future__ import annotations

from tailrace.mechanisms.policies.base import Series, bounded


def due(series: Series, step: int, releases: int, name: str) -> bool:
    """Whether a release is due: the first step, then evenly; no more than `releases` in any `steps` consecutive ones.

    Where a window slides the distance is a whole number of steps, at least steps / releases, so that no window holds one more.
    """
    steps = bounded(series, name)
    if series.sliding:
        return (step - 1) % -(-steps // releases) == 0
    return (step - 1) * releases // steps != (step - 2) * releases // steps
