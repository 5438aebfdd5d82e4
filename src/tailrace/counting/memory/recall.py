"""The memory of a panel's units, and missing reports.

A unit reports one value per step. It misses the step if it reports none, only values outside the
domain, or two different ones, which contradict each other. A policy then decides its value from
that unit's own rows alone. So a unit that comes, goes or is replaced changes no other unit's
counts, and every policy has the same guarantee. They differ in bias:

- `Absent`: it is absent at that step, and before it joined: a symbol beyond the domain's values.
  Nobody can tell a gap from a leave while it lasts. No bias.
- `Carry`: its last value stands. One that joins late counts once its window is full (a weight: at
  once, from 0). Changes are seen late, and newcomers are weighed as if they had always been there.
- `Category`: it has the value "missing", before it joined too. No bias, but the values that are
  known are a smaller part.
- `Drop`: it is not counted from then on, and one that joins late never is. The bias is towards
  those who always answer. Windows are also biased towards equal shares of the values, by the share
  of people who left: synthetic people are created once and cannot leave, so where people stop being
  counted, differences of counts shrink while the synthetic people stay.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Missing(enum.Enum):
    """What becomes of a unit that does not report.

    It is absent for now, its last value is carried on, it has a value of its own, or it is dropped.
    """

    Absent = "it is absent, and may come back"
    Carry = "its last value stands"
    Category = "it has the value that stands for missing ones"
    Drop = "it is not counted from then on"

    def __repr__(self) -> str:
        return f"Missing.{self.name}"


@dataclass(frozen=True, kw_only=True)
class LastValues:
    """Remember each unit's last values, as one integer.

    Counted is the window that they make with the value of this step.
    """

    window: int  # values that make a window
    # How many there are to choose from; the last is absence under `Missing.Absent`, or a missing
    # value under `Missing.Category`.
    values: int
    missing: Missing
    first: bool  # whether this is the first step

    @property
    def kept(self) -> int:
        """The number of values remembered.

        The window less this step's; at least one, which may be carried.
        """
        return max(self.window - 1, 1)

    @property
    def size(self) -> int:
        """One count per window, its last value changing fastest."""
        return self.values**self.window

    @property
    def name(self) -> str:
        return f"window={self.window} values={self.values} missing={self.missing.name}"


@dataclass(frozen=True, kw_only=True)
class Weight:
    """Remember how often each unit had a value.

    Counted are the units first seen, and those that now reach 1, 2, ... times.
    """

    value: int  # the code that is counted
    horizon: int
    missing: Missing
    first: bool  # whether this is the first step

    @property
    def size(self) -> int:
        """Units first seen, then those that reach 1 to `horizon`."""
        return self.horizon + 1

    @property
    def name(self) -> str:
        return f"weight of={self.value} missing={self.missing.name}"


Recall = LastValues | Weight
