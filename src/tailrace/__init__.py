"""Tailrace: a private stream in, a public synthetic stream out, one differential-privacy guarantee over all of it.

Names are imported when they are first asked for, so that `tailrace --help` answers at once.
"""

import importlib
from typing import TYPE_CHECKING, Any

from tailrace.errors import (
    BehindLedger,
    BudgetExceeded,
    ConfigError,
    Corrupt,
    DataError,
    Error,
    HorizonReached,
    Mismatch,
    NoiseReused,
    StateError,
    Uncapped,
)

if TYPE_CHECKING:
    from tailrace import counters, metrics, papers, sinks, sources
    from tailrace.calendar import Calendar
    from tailrace.domain import Box, Categorical, Integer, Real, Schema
    from tailrace.fit import PGM, JunctionTree, MultiplicativeWeights
    from tailrace.flow import run
    from tailrace.geometry import Region, Roads
    from tailrace.guarantee import AddRemove, Event, Guarantee, Neighbours, Null, Replace, User, Window
    from tailrace.ledger import Ledger
    from tailrace.loss import ZCDP, ApproxDP, PureDP
    from tailrace.mechanisms import (
        AdaTree,
        HistogramStream,
        PanelCumulative,
        PanelWindow,
        PrivTree,
        PrivTreeStream,
        Selection,
        SnapshotHistogram,
        SpatialStream,
        TabularSteps,
        TabularStream,
        Trajectories,
    )
    from tailrace.memory import Missing
    from tailrace.noise import Noise
    from tailrace.once import release_once
    from tailrace.release import Release
    from tailrace.stream import Stream

__version__ = "0.1.0"

__all__ = [
    "PGM",
    "ZCDP",
    "AdaTree",
    "AddRemove",
    "ApproxDP",
    "BehindLedger",
    "Box",
    "BudgetExceeded",
    "Calendar",
    "Categorical",
    "ConfigError",
    "Corrupt",
    "DataError",
    "Error",
    "Event",
    "Guarantee",
    "HistogramStream",
    "HorizonReached",
    "Integer",
    "JunctionTree",
    "Ledger",
    "Mismatch",
    "Missing",
    "MultiplicativeWeights",
    "Neighbours",
    "Noise",
    "NoiseReused",
    "Null",
    "PanelCumulative",
    "PanelWindow",
    "PrivTree",
    "PrivTreeStream",
    "PureDP",
    "Real",
    "Region",
    "Release",
    "Replace",
    "Roads",
    "Schema",
    "Selection",
    "SnapshotHistogram",
    "SpatialStream",
    "StateError",
    "Stream",
    "TabularSteps",
    "TabularStream",
    "Trajectories",
    "Uncapped",
    "User",
    "Window",
    "counters",
    "metrics",
    "papers",
    "release_once",
    "run",
    "sinks",
    "sources",
]

_HOMES = (
    "loss",
    "guarantee",
    "noise",
    "calendar",
    "domain",
    "geometry",
    "memory",
    "counters",
    "fit",
    "queries",
    "mechanisms",
    "papers",
    "ledger",
    "release",
    "stream",
    "once",
    "sources",
    "sinks",
    "flow",
    "metrics",
)

if not TYPE_CHECKING:  # a type checker knows the names from above, and should complain of others

    def __getattr__(name: str) -> Any:
        """A public name, found in the first module that has it, or one of these modules."""
        if name in _HOMES:
            return importlib.import_module(f"tailrace.{name}")
        for home in _HOMES if name in __all__ else ():
            module = importlib.import_module(f"tailrace.{home}")
            if hasattr(module, name):
                globals()[name] = getattr(module, name)
                return globals()[name]
        raise AttributeError(f"module 'tailrace' has no attribute '{name}'")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
