"""Running sums without end, over trees of doubling size.

Privacy: the declared loss per event over the whole stream, neighbours add/remove of one insertion
or deletion. Epoch e is a fresh tree on the next 2^e elements; an element lies in one epoch and in
at most e + 1 of its atoms, each with noise Lap((e+1)/epsilon) or N(0, (e+1)/(2 rho)). Inputs may
depend on past outputs.
Accuracy: O(log^1.5 t) error; over the first 65,536 steps restarted blocks still beat it under pure
noise (benchmarks/results/counters_endless.csv).
Source: Chan-Shi-Song 2011, "Hybrid Mechanism"; named, not written out, in the papers.
Departs: finished epochs use the noise of their root, with the right number of levels; integer
noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tailrace.calls import told
from tailrace.counters.binary_tree import BinaryTree
from tailrace.counters.unbounded import Unbounded


@told
@dataclass(frozen=True, kw_only=True)
class Hybrid(Unbounded):
    """The unbounded binary tree: `Unbounded(counter=BinaryTree())` by its own name."""

    counter: Any = field(default_factory=BinaryTree)
