"""Tailrace: a private stream in, a public synthetic stream out, one differential-privacy guarantee over all of it."""

from tailrace import counters
from tailrace.domain import Box, Categorical, Integer, Real, Schema
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
from tailrace.ledger import Ledger
from tailrace.loss import ZCDP, ApproxDP, PureDP
from tailrace.mechanisms import HistogramStream
from tailrace.noise import Noise
from tailrace.release import Release
from tailrace.stream import Stream

__version__ = "0.1.0"

__all__ = [
    "ZCDP",
    "AddRemove",
    "ApproxDP",
    "BehindLedger",
    "Box",
    "BudgetExceeded",
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
    "Ledger",
    "Mismatch",
    "Neighbours",
    "Noise",
    "NoiseReused",
    "Null",
    "PureDP",
    "Real",
    "Release",
    "Replace",
    "Schema",
    "StateError",
    "Stream",
    "User",
    "Window",
    "counters",
]
