"""Published policies and histograms for snapshots."""

from tailrace.papers.snapshot_policies.budget import BudgetAbsorption, BudgetDistribution
from tailrace.papers.snapshot_policies.sampling import DSAT, DSFT, EveryStep, FixedSampling

__all__ = [
    "DSAT",
    "DSFT",
    "BudgetAbsorption",
    "BudgetDistribution",
    "EveryStep",
    "FixedSampling",
]
