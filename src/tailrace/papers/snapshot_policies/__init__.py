"""Policies: when a snapshot is measured, and with how much of the budget. One file each."""

from tailrace.papers.snapshot_policies.budget_absorption import BudgetAbsorption
from tailrace.papers.snapshot_policies.budget_distribution import BudgetDistribution
from tailrace.papers.snapshot_policies.dsat import DSAT
from tailrace.papers.snapshot_policies.dsft import DSFT
from tailrace.papers.snapshot_policies.every_step import EveryStep
from tailrace.papers.snapshot_policies.fixed_sampling import FixedSampling

__all__ = [
    "DSAT",
    "DSFT",
    "BudgetAbsorption",
    "BudgetDistribution",
    "EveryStep",
    "FixedSampling",
]
