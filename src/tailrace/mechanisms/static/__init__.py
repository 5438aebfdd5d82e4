"""Histograms of one snapshot: which levels of the halving tree get noise, and how much of the budget each."""

from tailrace.mechanisms.static.hierarchy import Hierarchy
from tailrace.mechanisms.static.laplace_bins import LaplaceBins
from tailrace.mechanisms.static.quadtree import Quadtree

__all__ = ["Hierarchy", "LaplaceBins", "Quadtree"]
