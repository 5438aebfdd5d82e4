"""Tailrace: a private stream in, a public synthetic stream out, one differential-privacy guarantee over all of it."""

from tailrace import counters
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
)
from tailrace.guarantee import AddRemove, Event, Guarantee, Neighbours, Null, Replace, User, Window
from tailrace.loss import ZCDP, ApproxDP, PureDP
from tailrace.noise import Noise

__version__ = "0.1.0"

__all__ = [
    "ZCDP",
    "AddRemove",
    "ApproxDP",
    "BehindLedger",
    "BudgetExceeded",
    "ConfigError",
    "Corrupt",
    "DataError",
    "Error",
    "Event",
    "Guarantee",
    "HorizonReached",
    "Mismatch",
    "Neighbours",
    "Noise",
    "NoiseReused",
    "Null",
    "PureDP",
    "Replace",
    "StateError",
    "User",
    "Window",
    "counters",
]
