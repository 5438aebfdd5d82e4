"""What a budget buys, before a private row is read.

`plan` predicts the errors of a mechanism: exactly where its noise decides them alone, otherwise by
running it on stand-in data. It opens no source and no ledger.
"""

from tailrace.planning.facts import Facts
from tailrace.planning.making import plan
from tailrace.planning.outcome import Outcome, Plan

__all__ = ["Facts", "Outcome", "Plan", "plan"]
