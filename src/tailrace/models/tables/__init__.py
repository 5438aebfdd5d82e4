"""Models of a table, fitted to noisy marginals: post-processing."""

from tailrace.models.tables.base import Conditional, Fit, HasMarginals, Measured, Model
from tailrace.models.tables.junction_tree import JunctionTree, TreeModel
from tailrace.models.tables.multiplicative_weights import MultiplicativeWeights, TableModel
from tailrace.models.tables.pgm import PGM

__all__ = [
    "PGM",
    "HasMarginals",
    "Conditional",
    "Fit",
    "JunctionTree",
    "Measured",
    "Model",
    "MultiplicativeWeights",
    "TableModel",
    "TreeModel",
]
