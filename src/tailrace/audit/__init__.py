"""Attacks on guarantees: published versions fail, ours pass.

`audit(case)` meters and attacks any mechanism, counter or policy; `part_of(name)` makes the case.
"""

from tailrace.audit.attack import Finding, attack
from tailrace.audit.linear import proved_loss, response
from tailrace.audit.parts import Case, built_in, case_of, part_of
from tailrace.audit.planting import Planted
from tailrace.audit.verdict import Attacked, Metered, Verdict, audit

__all__ = [
    "Attacked",
    "Case",
    "Finding",
    "Metered",
    "Planted",
    "Verdict",
    "attack",
    "audit",
    "built_in",
    "case_of",
    "part_of",
    "proved_loss",
    "response",
]
