"""Other units, settings and mechanisms that would answer the same questions.

Each is worth knowing of where its error is smaller; most promise something else, which is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from tailrace.domain.growing import growing_column
from tailrace.errors import ConfigError
from tailrace.mechanisms.histogram import HistogramStream
from tailrace.mechanisms.panel.window import PanelWindow
from tailrace.mechanisms.snapshot.histogram import SnapshotHistogram
from tailrace.mechanisms.spatial.stream import SpatialStream
from tailrace.mechanisms.tabular.stream import TabularStream
from tailrace.planning.facts import Facts
from tailrace.privacy.loss import ApproxDP, PureDP
from tailrace.privacy.unit import Event, User, Window, plural

# A delta that nobody objects to: less than one in all people alive.
_DELTA = "1e-10"
# Bins of a histogram that a table may be compared with.
_BINS = 100_000
# Windows that a person is protected in, as a part of the horizon.
_PART = 12


def others_of(mechanism: Any, facts: Facts) -> Iterator[tuple[str, Any]]:
    """Other choices, each with its name, that can be made at all."""
    for name, changes in _changes(mechanism, facts):
        try:
            yield name, replace(mechanism, **changes)
        except (ConfigError, TypeError):
            continue
    yield from _mechanisms(mechanism)


def few_of(mechanism: Any, rows: int, steps: int) -> str:
    """Say where there are too few journeys to draw any, or until when."""
    needed = getattr(mechanism, "needed", 0)
    if rows >= needed:
        return ""
    if rows * steps < needed:
        return (
            f"No journeys will be drawn: {rows * steps:,} are too few for this epsilon, with which "
            f"about {needed:,.0f} are needed."
        )
    return f"No journeys are drawn for the first {math.ceil(needed / rows)} steps, until " + (
        f"about {needed:,.0f} have come."
    )


def _changes(mechanism: Any, facts: Facts) -> Iterator[tuple[str, dict[str, Any]]]:
    known = {field.name for field in fields(mechanism)} if hasattr(mechanism, "unit") else set()
    unit, horizon = mechanism.unit, mechanism.horizon
    if isinstance(mechanism.privacy, PureDP):
        loss = ApproxDP(epsilon=mechanism.privacy.epsilon, delta=_DELTA)
        yield f"with delta = {_DELTA}", {"privacy": loss}
    if "deletes" in known and mechanism.deletes and facts.stays is None:
        yield "if no row is ever deleted (deletes = false)", {"deletes": False}
    if isinstance(mechanism, SpatialStream) and mechanism.deletes and facts.stays is not None:
        rule = {"retention": facts.stays, "deletes": False}
        yield f"if rows leave by rule after {facts.stays} steps (retention)", rule
    if isinstance(unit, User | Window) and unit.events is not None:
        if unit.events > 1:
            half = replace(unit, events=unit.events // 2)
            yield f"with at most {plural(half.events or 1, 'row')} of a person", {"unit": half}
        yield "to protect one event, not a person", {"unit": Event()}
    if isinstance(unit, User) and unit.events is None and "trajectory" in known:
        yield "to protect one journey, not a person", {"unit": Event()}
    if isinstance(mechanism, SnapshotHistogram) and isinstance(unit, User) and horizon:
        steps = max(1, horizon // _PART)
        window = Window(steps=steps, column=unit.column, records=unit.records)
        yield f"to protect a person within any {plural(steps, 'step')}", {"unit": window}
    if isinstance(mechanism, PanelWindow):
        if not mechanism.complete and horizon is not None:
            yield "if everybody reports at every step (complete = true)", {"complete": True}
        if mechanism.window > 1:
            yield f"with a window of {mechanism.window - 1}", {"window": mechanism.window - 1}
    if getattr(mechanism, "counter", None) is not None:
        yield "with the counter that fits best (without counter)", {"counter": None}


def _mechanisms(mechanism: Any) -> Iterator[tuple[str, Any]]:
    """The same table by another mechanism."""
    names = ("domain", "privacy", "unit", "horizon", "deletes")
    # Amounts and growing lists are its alone.
    own = type(mechanism) is HistogramStream and (
        mechanism.domain.amounts or growing_column(mechanism.domain)
    )
    if type(mechanism) is HistogramStream and len(mechanism.domain.columns) > 1 and not own:
        yield "TabularStream", TabularStream(**{name: getattr(mechanism, name) for name in names})
    if type(mechanism) is TabularStream and mechanism.domain.size <= _BINS:
        yield "HistogramStream", HistogramStream(**{n: getattr(mechanism, n) for n in names})
