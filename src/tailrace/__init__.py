"""Tailrace: a private stream in, a public synthetic stream out.

One differential-privacy guarantee covers all of it. Names are imported when they are first asked
for, so that `tailrace --help` answers at once.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "AdaTree": "mechanisms.spatial.epochs",
    "AddRemove": "privacy.unit",
    "ApproxDP": "privacy.loss",
    "BehindLedger": "errors",
    "Box": "domain",
    "BudgetExceeded": "errors",
    "Calendar": "calendar",
    "Categorical": "domain",
    "ConfigError": "errors",
    "Corrupt": "errors",
    "DataError": "errors",
    "Error": "errors",
    "Event": "privacy.unit",
    "Guarantee": "privacy.guarantee",
    "HistogramStream": "mechanisms.histogram",
    "HorizonReached": "errors",
    "Integer": "domain",
    "Ledger": "ledger",
    "Mismatch": "errors",
    "Missing": "counting.memory",
    "Neighbours": "privacy.unit",
    "Noise": "noise",
    "NoiseReused": "errors",
    "Null": "privacy.unit",
    "PanelCumulative": "mechanisms.panel.cumulative",
    "PanelWindow": "mechanisms.panel.window",
    "PureDP": "privacy.loss",
    "Real": "domain",
    "Region": "domain.geometry",
    "Release": "stream.release",
    "Replace": "privacy.unit",
    "Roads": "domain.geometry",
    "Schema": "domain",
    "Selection": "mechanisms.tabular.epochs",
    "SnapshotHistogram": "mechanisms.snapshot.histogram",
    "SpatialStream": "mechanisms.spatial.stream",
    "StateError": "errors",
    "Stream": "stream.stream",
    "TabularStream": "mechanisms.tabular.stream",
    "Trajectories": "mechanisms.trajectories.mechanism",
    "Uncapped": "errors",
    "User": "privacy.unit",
    "Window": "privacy.unit",
    "ZCDP": "privacy.loss",
    "release_once": "pipeline",
    "run": "pipeline",
}
_MODULES = {
    "counters": "counters",
    "metrics": "metrics",
    "models": "models",
    "papers": "papers",
    "queries": "mechanisms.panel.queries",
    "sinks": "sinks",
    "snapshots": "mechanisms.snapshot",
    "sources": "sources",
    "trajectories": "mechanisms.trajectories",
}

__all__ = sorted([*_HOMES, *_MODULES])


def __getattr__(name: str) -> Any:
    """A public name, from the module that the table gives."""
    if name in _MODULES:
        found = importlib.import_module(f"tailrace.{_MODULES[name]}")
    elif name in _HOMES:
        found = getattr(importlib.import_module(f"tailrace.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module 'tailrace' has no attribute '{name}'")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
