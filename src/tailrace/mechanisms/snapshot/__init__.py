"""Histograms of a data set that changes, step by step."""

from tailrace.mechanisms.snapshot.adaptive import Adaptive
from tailrace.mechanisms.snapshot.levels import Quadtree
from tailrace.mechanisms.snapshot.tracking import Tracking

__all__ = ["Adaptive", "Quadtree", "Tracking"]
