"""Policies: when a snapshot is measured, and with how much of the budget. One file each."""

from tailrace.mechanisms.policies.budget_absorption import BudgetAbsorption
from tailrace.mechanisms.policies.budget_distribution import BudgetDistribution
from tailrace.mechanisms.policies.dsat import DSAT
from tailrace.mechanisms.policies.dsft import DSFT
from tailrace.mechanisms.policies.every_step import EveryStep
from tailrace.mechanisms.policies.fixed_sampling import FixedSampling
from tailrace.mechanisms.policies.tracking import Tracking

__all__ = [
    "DSAT",
    "DSFT",
    "BudgetAbsorption",
    "BudgetDistribution",
    "EveryStep",
    "FixedSampling",
    "Tracking",
]
