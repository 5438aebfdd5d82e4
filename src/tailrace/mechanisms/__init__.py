"""Mechanisms: one file, one family of algorithms."""

from tailrace.mechanisms.histogram import HistogramStream
from tailrace.mechanisms.panel_cumulative import PanelCumulative
from tailrace.mechanisms.panel_window import PanelWindow
from tailrace.mechanisms.privtree import PrivTreeStream
from tailrace.mechanisms.privtree_splits import PrivTree
from tailrace.mechanisms.snapshot import SnapshotHistogram
from tailrace.mechanisms.spatial import SpatialStream
from tailrace.mechanisms.spatial_epochs import AdaTree

__all__ = [
    "AdaTree",
    "HistogramStream",
    "PanelCumulative",
    "PanelWindow",
    "PrivTree",
    "PrivTreeStream",
    "SnapshotHistogram",
    "SpatialStream",
]
