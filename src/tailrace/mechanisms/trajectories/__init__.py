"""Trajectories, released once: the parts of the mechanism."""

from tailrace.counting.journeys.moves import Ends, Even
from tailrace.mechanisms.trajectories.clock import DayClock
from tailrace.mechanisms.trajectories.counts import Bins, Grids, Octaves
from tailrace.mechanisms.trajectories.walks import TurningWalks

__all__ = ["Bins", "DayClock", "Ends", "Even", "Grids", "Octaves", "TurningWalks"]
