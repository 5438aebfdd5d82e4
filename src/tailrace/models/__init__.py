"""Public side: pure functions of released numbers."""

from tailrace.models.tables import PGM, JunctionTree, MultiplicativeWeights

__all__ = ["PGM", "JunctionTree", "MultiplicativeWeights"]
