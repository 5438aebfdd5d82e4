"""Histograms of a data set as it stands, step after step."""

from tailrace.mechanisms.snapshot.levels import Quadtree
from tailrace.mechanisms.snapshot.tracking import Tracking

__all__ = ["Quadtree", "Tracking"]
