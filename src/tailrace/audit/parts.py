"""Find a part by its name, and give it something to do.

A part is named as in a configuration, ours or plugged in, or as `module:name`. A mechanism that is
configured already is audited as it is. A class is made small: two values, four steps, an epsilon
of 2 or a rho of 1/2. The noise of a small part is spread over few numbers, so that an attack sees
most of its loss; the code that draws it is the same.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tailrace import registry
from tailrace.checks.neighbours import Batches
from tailrace.checks.rows import made_up
from tailrace.counters import BinaryTree
from tailrace.domain import Box, Integer, Schema
from tailrace.errors import ConfigError, Error
from tailrace.mechanisms.base import Takes
from tailrace.mechanisms.snapshot.histogram import SnapshotHistogram
from tailrace.noise import Noise
from tailrace.privacy.loss import ZCDP, PureDP
from tailrace.privacy.unit import AddRemove, Event, User

# Rows of a step, points of a journey, steps: few, so that one run takes a millisecond.
_ROWS, _POINTS, _STEPS = 30, 6, 4
_LOSSES = (PureDP(epsilon=2), ZCDP(rho="1/2"))
_DOMAINS = (
    Schema(a=Integer(0, 1), b=Integer(0, 1)),
    Schema(a=Integer(0, 1)),
    Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=4),
)
_UNITS = (Event(), User(column="person"), User(column="person", records=1))
_COMMON = {
    "counter": BinaryTree(),
    "horizon": _STEPS,
    "neighbours": AddRemove,
    "order": "minute",
    "threshold": 0.1,
    "trajectory": "trip",
    "window": 2,
}
# Filled in though they have a default: a counter's or policy's owner sets them.
_SET = {"privacy", "horizon"}
_UNKNOWN = (
    "{name} is no part that can be audited: name a stream.toml, a mechanism, counter or policy "
    "({some}), or your own as module:name."
)


@dataclass(frozen=True)
class Case:
    """A part that is configured, and its stream of made-up rows.

    counter: whether it is a counter; otherwise it is a mechanism.
    """

    name: str
    part: Any
    counter: bool
    batches: Batches


def part_of(name: str) -> list[Case]:
    """The part of a name, once for each kind of loss that it takes."""
    made = _found(name)
    if not inspect.isclass(made):
        made = made if hasattr(made, "measure") or hasattr(made, "step") else made()
        return [case_of(made, name)]
    cases = [case_of(part, f"{name} ({loss})") for part, loss in _small(made)]
    if not cases:
        raise ConfigError(
            f"{name} cannot be made of a small domain, a loss, a unit and a horizon alone: give "
            "module:name of one that is configured."
        )
    return cases


def case_of(part: Any, name: str) -> Case:
    """A configured mechanism or counter with made-up rows."""
    if not hasattr(part, "measure"):
        if not hasattr(part, "step"):
            raise ConfigError(_UNKNOWN.format(name=name, some=", ".join(built_in())))
        return Case(name, part, True, [])
    rng = Noise.insecure(0).at("rows").generator()
    steps = 1 if part.takes is Takes.Once else min(part.horizon or _STEPS, _STEPS)
    frames = [made_up(part, rng, rows=_ROWS, points=_POINTS) for _ in range(steps)]
    # At every second step all rows are in one place: what adapts has something to adapt to.
    places = [name for name in part.domain.columns if name in frames[0].columns]
    for t, frame in enumerate(frames):
        if t % 2:
            frames[t] = frame.with_columns(frame[:1][[0] * _ROWS][places])
    deletes = [frames[0].head(1) if part.deletes and t == 1 else None for t in range(steps)]
    return Case(name, part, False, list(zip(frames, deletes, strict=True)))


def built_in() -> list[str]:
    """All mechanisms, counters and policies of this package."""
    kinds = {name: part for name, part in registry.parts().items() if _audited(part)}
    ours = (name for name, part in kinds.items() if part.__module__.startswith("tailrace."))
    return sorted(set(ours) - set(registry.FORMER))


def _audited(part: Any) -> bool:
    """Whether it is a mechanism's, counter's or policy's class."""
    if not inspect.isclass(part) or inspect.isabstract(part) or getattr(part, "_is_protocol", 0):
        return False
    return any(all(hasattr(part, name) for name in names) for names in _SHAPES.values())


_SHAPES = {
    "mechanism": ("measure", "plan", "view"),
    "counter": ("step", "grow", "variance"),
    "policy": ("decide", "split", "begin"),
}


def _found(name: str) -> Any:
    known = registry.parts()
    if name in known and _audited(known[name]):
        return known[name]
    module, _, attribute = name.partition(":")
    if not attribute:
        raise ConfigError(_UNKNOWN.format(name=name, some=", ".join(built_in())))
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError):
        raise ConfigError(
            f"{attribute} cannot be imported from {module}: see that the module can be imported "
            "from here and has that name."
        ) from None


def _small(made: Callable[..., Any]) -> Iterator[tuple[Any, Any]]:
    """The part in its smallest form, for each loss it takes."""
    make = _snapshots(made) if hasattr(made, "decide") else made
    for loss in _LOSSES:
        for domain, unit in itertools.product(_DOMAINS, _UNITS):
            given = {**_COMMON, "privacy": loss, "domain": domain, "unit": unit}
            try:
                part = make(**_filled(make, given))
                # some settings are refused when they are first used
                claim = part.loss() if hasattr(part, "step") else part.guarantee
            except (Error, TypeError):
                continue
            assert claim is not None
            yield part, loss
            break


def _snapshots(policy: Callable[..., Any]) -> Callable[..., Any]:
    """A snapshot histogram under a policy."""
    own = _filled(policy, _COMMON)

    def make(*, domain: Any, privacy: Any, unit: Any, horizon: Any) -> SnapshotHistogram:
        given = {"domain": domain, "privacy": privacy, "unit": unit, "horizon": horizon}
        return SnapshotHistogram(policy=policy(**own), **given)

    return make


def _filled(make: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """What a signature asks for, of what is given."""
    parameters = inspect.signature(make).parameters.values()
    return {
        one.name: given[one.name]
        for one in parameters
        if one.name in given and (one.default is one.empty or one.name in _SET)
    }
