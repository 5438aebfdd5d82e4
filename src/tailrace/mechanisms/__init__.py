"""Mechanisms: one file, one family of algorithms."""

from tailrace.journeys.moves import Ends, Even
from tailrace.mechanisms.histogram import HistogramStream
from tailrace.mechanisms.panel_cumulative import PanelCumulative
from tailrace.mechanisms.panel_window import PanelWindow
from tailrace.mechanisms.privtree import PrivTreeStream
from tailrace.mechanisms.privtree_cells import PrivTreeCells
from tailrace.mechanisms.privtree_journeys import PrivTreeTrajectories
from tailrace.mechanisms.privtree_lengths import ProbableLengths
from tailrace.mechanisms.privtree_splits import PrivTree
from tailrace.mechanisms.privtree_transitions import Transitions
from tailrace.mechanisms.privtree_trips import PrivTreeTrips
from tailrace.mechanisms.snapshot import SnapshotHistogram
from tailrace.mechanisms.spatial import SpatialStream
from tailrace.mechanisms.spatial_epochs import AdaTree
from tailrace.mechanisms.tabular import TabularStream
from tailrace.mechanisms.tabular_epochs import Selection
from tailrace.mechanisms.tabular_steps import TabularSteps
from tailrace.mechanisms.trajectories import Trajectories
from tailrace.mechanisms.trajectories_counts import Bins, Grids
from tailrace.mechanisms.trajectories_times import Clock
from tailrace.mechanisms.trajectories_walks import TurningWalks

__all__ = [
    "AdaTree",
    "Bins",
    "Clock",
    "Ends",
    "Even",
    "Grids",
    "HistogramStream",
    "PanelCumulative",
    "PanelWindow",
    "PrivTree",
    "PrivTreeCells",
    "PrivTreeStream",
    "PrivTreeTrajectories",
    "PrivTreeTrips",
    "ProbableLengths",
    "Selection",
    "SnapshotHistogram",
    "SpatialStream",
    "TabularSteps",
    "TabularStream",
    "Trajectories",
    "Transitions",
    "TurningWalks",
]
