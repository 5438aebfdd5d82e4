"""Models of a table, fitted to noisy marginals: post-processing."""

from tailrace.fit.base import Conditional, Fit, Measured, Model
from tailrace.fit.junction_tree import JunctionTree, TreeModel
from tailrace.fit.multiplicative_weights import MultiplicativeWeights, TableModel
from tailrace.fit.pgm import PGM

__all__ = [
    "PGM",
    "Conditional",
    "Fit",
    "JunctionTree",
    "Measured",
    "Model",
    "MultiplicativeWeights",
    "TableModel",
    "TreeModel",
]
