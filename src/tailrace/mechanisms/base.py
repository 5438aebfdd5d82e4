"""The contract of a mechanism: counts in, measurements out.

`State` has a public and a private part, and the barrier between them is structural: what may be
counted next (`plan`), what is shown (`view`) and what is sampled are functions of the public part
alone. Only `measure` sees counts, and it is the only call in which noise meets data.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import narwhals as nw
import numpy as np

from tailrace.counting.plan import Counts, Plan
from tailrace.domain import Codes
from tailrace.domain.columns import Frame
from tailrace.noise import Draws
from tailrace.privacy.guarantee import Guarantee
from tailrace.privacy.loss import Loss
from tailrace.privacy.unit import Neighbours, Unit

Public = TypeVar("Public")
Private = TypeVar("Private")


class Takes(enum.Enum):
    """What a mechanism is fed at each step."""

    Events = "the rows inserted, and the rows deleted, since the last step"
    Snapshots = "the whole data set as it is now"
    Panel = "one row for each person"
    Once = "everything, at a single step"


@dataclass(frozen=True)
class State(Generic[Public, Private]):
    """What a mechanism keeps: two frozen dataclasses of arrays."""

    public: Public
    private: Private


@dataclass(frozen=True)
class Nothing:
    """An empty private state: the unit memory holds everything private."""


@dataclass(frozen=True)
class Step(Generic[Public, Private]):
    """The state after `measure`.

    With `again`, the step needs another round of counting by the new plan.
    """

    state: State[Public, Private]
    again: bool = False


@dataclass(frozen=True)
class Estimate:
    """A released number with its standard error.

    It prints to two significant digits of the error, and to whole numbers where these say more.

    >>> print(Estimate(0.1234, 0.0056), Estimate(70123.4, 812.3), sep=", ")
    0.1234 +- 0.0056, 70123 +- 812
    """

    value: float
    error: float

    def __str__(self) -> str:
        if not (math.isfinite(self.error) and self.error > 0):
            return f"{self.value:.6g} +- {self.error:g}"
        places = 1 - int(f"{self.error:.1e}".partition("e")[2])  # rounded first: 0.0996 is 0.10
        if places > 12:
            return f"{self.value:.6g} +- {self.error:.1e}"
        return f"{self.value:.{max(places, 0)}f} +- {self.error:.{max(places, 0)}f}"


@dataclass(frozen=True)
class Table:
    """Synthetic rows in the order of their birth.

    A row is born once and dies once. Its number is how many rows were born before it.
    """

    cells: np.ndarray  # (rows,) int64, or (rows, attributes) int32 where rows are known by `Digits`
    columns: dict[str, np.ndarray]  # name -> (rows,)
    numbers: np.ndarray  # (rows,) int64, ascending
    born: int  # rows ever born

    @classmethod
    def of(cls, cells: np.ndarray, columns: dict[str, np.ndarray]) -> Table:
        """A table whose rows are the first ever."""
        return cls(cells, columns, np.arange(len(cells)), len(cells))

    def __len__(self) -> int:
        return len(self.cells)

    def at(self, keep: np.ndarray | slice) -> Table:
        """Some of the rows."""
        columns = {name: values[keep] for name, values in self.columns.items()}
        return Table(self.cells[keep], columns, self.numbers[keep], self.born)

    def after(self, gone: np.ndarray, cells: np.ndarray, columns: dict[str, np.ndarray]) -> Sample:
        """The next table: rows marked `gone` go, new ones follow."""
        new = self.born + np.arange(len(cells))
        stay = slice(None) if not gone.any() else ~gone
        joined = {
            name: np.concatenate([values[stay], columns[name]])
            for name, values in self.columns.items()
        }
        table = Table(
            np.concatenate([self.cells[stay], cells]),
            joined,
            np.concatenate([self.numbers[stay], new]),
            self.born + len(cells),
        )
        return Sample(table, np.flatnonzero(gone))


@dataclass(frozen=True)
class Sample:
    """The next table, and which rows of the previous one are gone."""

    table: Table
    removed: np.ndarray  # (rows removed,) places in the previous table, ascending


@dataclass(frozen=True)
class Wider:
    """Codes of a domain, for rows that have further columns."""

    domain: Codes

    @property
    def size(self) -> int:
        return self.domain.size

    def check(self, frame: Frame) -> None:
        self.domain.check(frame)

    def cell(self, frame: Frame) -> nw.Expr:
        return self.domain.cell(frame)

    def cells(self, frame: nw.DataFrame[Any]) -> np.ndarray:
        return self.domain.cells(frame)

    def settle(self, cells: np.ndarray) -> np.ndarray:
        return self.domain.settle(cells)


class OncePlan(Protocol):
    """The plan of a mechanism that takes everything at once.

    A frame is read first, so that every round looks at the same rows; counts are frozen dataclasses
    of arrays, and add up over parts of the rows that keep `key` together.
    """

    @property
    def key(self) -> str: ...
    def part(self, frame: Any, key: bytes) -> Any:
        """Read some rows into arrays, ids under hashes with this key.

        For `Stream.add`; a plan without it takes all rows in one push.
        """
        ...

    def read(self, frame: Any) -> Any:
        """Read any engine's frame, None, or a tuple of parts, into arrays."""
        ...

    def counts(self, batch: Any, deletes: None = None) -> Any:
        """Count a frame, None, or the result of `read`."""
        ...


class Mechanism(Protocol):
    """Frozen public configuration, and pure functions of explicit state."""

    @property
    def takes(self) -> Takes: ...
    @property
    def domain(self) -> Codes: ...
    @property
    def rows(self) -> Codes:
        """The columns of a synthetic row.

        Those of the domain, or more: a panel adds an id.
        """
        ...

    @property
    def privacy(self) -> Loss:
        """The declared loss of one unit over the horizon."""
        ...

    @property
    def unit(self) -> Unit: ...
    @property
    def neighbours(self) -> Neighbours: ...
    @property
    def horizon(self) -> int | None: ...
    @property
    def deletes(self) -> bool:
        """Whether rows may be deleted.

        If not, the guarantee does not pay for deletions and a push with deletes is refused.
        """
        ...

    @property
    def rounds(self) -> int:
        """The most rounds of counting in a step.

        Above one, the batch is sealed until the step is done.
        """
        ...

    @property
    def guarantee(self) -> Guarantee:
        """Derived from what draws the noise."""
        ...

    def init(self) -> State[Any, Any]:
        """Before the first step."""
        ...

    def plan(self, public: Any) -> Plan | OncePlan:
        """What to count next."""
        ...

    def measure(self, state: State[Any, Any], counts: Counts | Any, noise: Draws) -> Step[Any, Any]:
        """Meet the counts with noise."""
        ...

    def view(self, public: Any) -> Any:
        """Estimates with standard errors; None before the first measurement."""
        ...

    def sample(self, view: Any, previous: Table, rng: np.random.Generator) -> Sample:
        """Draw synthetic rows that change the previous ones least."""
        ...
