"""Continual counters: private running sums; `best` picks one."""

from tailrace.counters.base import Counter
from tailrace.counters.binary_tree import BinaryTree
from tailrace.counters.block import Block
from tailrace.counters.choice import best
from tailrace.counters.hybrid import Hybrid
from tailrace.counters.kary_tree import KaryTree
from tailrace.counters.matrix import SqrtEven, SqrtToeplitz
from tailrace.counters.simple import Simple
from tailrace.counters.unbounded import Unbounded
from tailrace.counters.unbounded_block import UnboundedBlock

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
