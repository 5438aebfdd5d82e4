"""Parts by name: ours, and those of other distributions.

A stored stream and a `stream.toml` name their parts: mechanisms, counters, policies, models,
losses, units, domains, sources and sinks. Another distribution adds its own through entry points of
the group `tailrace.parts`, for example in its `pyproject.toml`

    [project.entry-points."tailrace.parts"]
    Median = "median_stream:Median"

`tailrace.papers` is registered in this way, as the first plug-in. No name is imported that no
installed distribution has declared.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import tailrace
from tailrace.errors import ConfigError

GROUP = "tailrace.parts"
# Names that parts had before, for streams and configurations that were written then.
FORMER = {"Clock": "DayClock"}
_OURS = ("counters", "models", "snapshots", "trajectories")


@functools.cache
def parts() -> dict[str, Callable[..., Any]]:
    """Every part by its name, ours first.

    >>> parts()["HistogramStream"].__module__
    'tailrace.mechanisms.histogram'
    """
    modules = [getattr(tailrace, name) for name in _OURS]
    known = {name: getattr(module, name) for module in modules for name in module.__all__}
    known |= {name: part for name in tailrace.HOMES if (part := _mechanism(name)) is not None}
    known |= {former: known[name] for former, name in FORMER.items()}
    return with_plugged({**known, **_common()})


class Named(Mapping[str, Callable[..., Any]]):
    """Every part by its name, as `parts`, but imported when asked for.

    >>> Named()["HistogramStream"] is parts()["HistogramStream"]
    True
    """

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return _common().get(name) or _mechanism(name) or parts()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(parts())

    def __len__(self) -> int:
        return len(parts())


def _common() -> dict[str, Callable[..., Any]]:
    """The parts that all mechanisms are made of."""
    from tailrace.counting.memory import Missing
    from tailrace.domain import geometry
    from tailrace.privacy.guarantee import KINDS

    domains = dict.fromkeys(("Schema", "Box", "Region", "Roads", "Places"), geometry.from_dict)
    missing = {policy.name: lambda policy=policy: policy for policy in Missing}
    return {**KINDS, **domains, **missing}


def _mechanism(name: str) -> type | None:
    """A public class from the mechanisms, or None."""
    home, _ = tailrace.HOMES.get(name, ("", ""))
    found = getattr(tailrace, name) if home.startswith("tailrace.mechanisms.") else None
    return found if inspect.isclass(found) else None


def with_plugged(
    ours: Mapping[str, Callable[..., Any]], fits: Callable[[Any], bool] = callable
) -> dict[str, Any]:
    """Parts of one sort: those plugged in that fit, and ours, whose names cannot be taken."""
    found = {}
    for point in entry_points(group=GROUP):
        if point.name in ours or point.name in found:
            raise ConfigError(
                f"The part {point.name} of {point.value} has the name of another: rename it there."
            )
        found[point.name] = _loaded(point)
    return {**{name: part for name, part in found.items() if fits(part)}, **ours}


def _loaded(point: EntryPoint) -> Any:
    try:
        return point.load()
    except (ImportError, AttributeError):
        raise ConfigError(
            f"The part {point.name} cannot be loaded from {point.value}: mend its package."
        ) from None
