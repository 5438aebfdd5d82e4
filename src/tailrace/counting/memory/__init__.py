"""Unit memory: who has contributed how much, under keyed hashes."""

from tailrace.counting.memory.contributions import bound, counted
from tailrace.counting.memory.hashing import hash_units
from tailrace.counting.memory.levels import (
    POINTS,
    check,
    clean,
    discard,
    divisible,
    former,
)
from tailrace.counting.memory.panel import follow
from tailrace.counting.memory.recall import LastValues, Missing, Weight

__all__ = [
    "LastValues",
    "Missing",
    "POINTS",
    "Weight",
    "bound",
    "check",
    "clean",
    "counted",
    "discard",
    "divisible",
    "follow",
    "former",
    "hash_units",
]
