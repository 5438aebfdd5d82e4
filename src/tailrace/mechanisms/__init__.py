"""Mechanisms: exact counts in, noisy measurements out, one family a folder."""

from tailrace.counting.journeys.moves import Ends, Even
from tailrace.mechanisms.histogram import HistogramStream
from tailrace.mechanisms.panel.cumulative import PanelCumulative
from tailrace.mechanisms.panel.window import PanelWindow
from tailrace.mechanisms.snapshot.histogram import SnapshotHistogram
from tailrace.mechanisms.snapshot.levels import Quadtree
from tailrace.mechanisms.snapshot.tracking import Tracking
from tailrace.mechanisms.spatial.epochs import AdaTree
from tailrace.mechanisms.spatial.stream import SpatialStream
from tailrace.mechanisms.tabular.epochs import Selection
from tailrace.mechanisms.tabular.stream import TabularStream
from tailrace.mechanisms.trajectories.clock import DayClock
from tailrace.mechanisms.trajectories.counts import Bins, Grids
from tailrace.mechanisms.trajectories.mechanism import Trajectories
from tailrace.mechanisms.trajectories.walks import TurningWalks

__all__ = [
    "AdaTree",
    "Bins",
    "DayClock",
    "Ends",
    "Even",
    "Grids",
    "HistogramStream",
    "PanelCumulative",
    "PanelWindow",
    "Quadtree",
    "Selection",
    "SnapshotHistogram",
    "SpatialStream",
    "TabularStream",
    "Tracking",
    "Trajectories",
    "TurningWalks",
]
