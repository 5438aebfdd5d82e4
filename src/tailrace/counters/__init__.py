"""Continual counters: private running sums; `best` picks one."""

from tailrace.counters.base import Counter
from tailrace.counters.choice import best
from tailrace.counters.ladder import BinaryTree, Block, KaryTree, Simple, UnboundedBlock
from tailrace.counters.matrix import SqrtEven, SqrtToeplitz
from tailrace.counters.unbounded import Hybrid, Unbounded

__all__ = [
    "BinaryTree",
    "Block",
    "Counter",
    "Hybrid",
    "KaryTree",
    "Simple",
    "SqrtEven",
    "SqrtToeplitz",
    "Unbounded",
    "UnboundedBlock",
    "best",
]
