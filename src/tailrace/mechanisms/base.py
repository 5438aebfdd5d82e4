"""The contract of a mechanism: counts in, measurements out.

`State` has a public and a private part, and the barrier between them is structural: what may be
counted next (`plan`), what is shown (`view`) and what is sampled are functions of the public part
alone. Only `measure` sees counts, and it is the only call in which noise meets data.
"""

from __future__ import annotations

import abc
import enum
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
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
# Numbers of rows from their cells.
Coding = Callable[[np.ndarray], np.ndarray]
# When a living row died.
_NEVER = np.iinfo(np.int32).max
# Dead rows that are no reason to move the others.
_FEW = 1024


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


class Looks(abc.ABC):
    """What prints in one line, and in a notebook as a small table.

    `facts` names what a reader would ask for first.
    """

    @property
    @abc.abstractmethod
    def facts(self) -> dict[str, str]:
        """Names and values, in words."""

    def __repr__(self) -> str:
        return f"<view: {'; '.join(f'{name} {words}' for name, words in self.facts.items())}>"

    def _repr_html_(self) -> str:
        return facts(self.facts)


def facts(pairs: Mapping[str, str]) -> str:
    """Names and values as a small table of HTML, for notebooks."""
    rows = (
        f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in pairs.items()
    )
    return f"<table>{''.join(rows)}</table>"


class Table:
    """Synthetic rows in the order of their birth.

    A row is born once and dies once. Its number is how many rows were born before it.

    Tables of one stream share what they hold: `after` writes new rows behind the others, and when a
    row died beside it. So a step costs what it changes, and older tables stay as they are; `cells`,
    `columns` and `numbers` are made when they are asked for.

    cells: (rows,) int64, or (rows, attributes) int32 where rows are known by `Digits`.
    columns: name -> (rows,).
    numbers: (rows,) int64, ascending.
    born: rows ever born.
    """

    def __init__(
        self, cells: np.ndarray, columns: dict[str, np.ndarray], numbers: np.ndarray, born: int
    ) -> None:
        self._show(_Births(cells, columns, numbers), len(cells), born)

    def _show(self, births: _Births, rows: int, born: int) -> None:
        self.births, self.born = births, born
        self._rows, self._ever, self._now = rows, births.many, births.now
        # By how rows are coded: counts asked for here, and those of the table before, brought on.
        self._tallies: dict[Coding, np.ndarray] = {}
        self._before: dict[Coding, np.ndarray] = {}

    @classmethod
    def of(cls, cells: np.ndarray, columns: dict[str, np.ndarray]) -> Table:
        """A table whose rows are the first ever."""
        return cls(cells, columns, np.arange(len(cells)), len(cells))

    def __len__(self) -> int:
        return self._rows

    @property
    def died(self) -> np.ndarray:
        """When each row of `births` died: those after `now` live."""
        return self.births.died[: self._ever]

    @property
    def now(self) -> int:
        """How many tables came before this one in `births`."""
        return self._now

    @functools.cached_property
    def _living(self) -> slice | np.ndarray:
        whole = self._rows == self._ever
        return slice(self._ever) if whole else np.flatnonzero(self.died > self._now)

    @functools.cached_property
    def cells(self) -> np.ndarray:
        return self.births.cells[self._living]

    @functools.cached_property
    def columns(self) -> dict[str, np.ndarray]:
        return {name: values[self._living] for name, values in self.births.columns.items()}

    @functools.cached_property
    def numbers(self) -> np.ndarray:
        return self.births.numbers[self._living]

    def at(self, keep: np.ndarray | slice) -> Table:
        """Some of the rows, by their places."""
        columns = {name: values[keep] for name, values in self.columns.items()}
        return Table(self.cells[keep], columns, self.numbers[keep], self.born)

    def since(self, number: int) -> Table:
        """The rows from a number on."""
        first = int(self.births.places(np.array([number]))[0])
        return self._among(first + np.flatnonzero(self.died[first:] > self._now))

    def numbered(self, numbers: np.ndarray) -> Table:
        """The rows of these numbers."""
        return self._among(self.births.places(numbers))

    def _among(self, births: np.ndarray) -> Table:
        held = self.births
        columns = {name: values[births] for name, values in held.columns.items()}
        return Table(held.cells[births], columns, held.numbers[births], self.born)

    def tally(self, codes: Coding, size: int) -> np.ndarray:
        """The number of rows of each code; read only, until `after`.

        Codes are a function of cells. Where the table before was asked for the same, only what
        changed is counted.
        """
        if codes not in self._tallies:
            counts = self._before.pop(codes, None)
            if counts is None:
                counts = np.bincount(codes(self.cells), minlength=size)
            self._tallies[codes] = counts
        return self._tallies[codes]

    def after(self, gone: np.ndarray, cells: np.ndarray, columns: dict[str, np.ndarray]) -> Sample:
        """The next table: some rows go, new ones follow.

        `gone` marks the rows that go, or has their numbers, ascending.
        """
        numbers = self.numbers[gone] if gone.dtype == np.bool_ else gone
        births = self.births
        dying = births.places(numbers)
        tallies, self._tallies, self._before = self._tallies, {}, {}
        for codes, counts in tallies.items():
            np.subtract.at(counts, codes(births.cells[dying]), 1)
            np.add.at(counts, codes(cells), 1)
        rows = self._rows - len(numbers)
        # A table that others followed already, or more dead rows than living ones: begin anew.
        if self._now != births.now or self._ever - rows > max(rows, _FEW):
            living = self.died > self._now
            living[dying] = False
            births = births.only(np.flatnonzero(living))
            dying = dying[:0]
        births.go_on(dying, cells, columns, self.born)
        table = Table.__new__(Table)
        table._show(births, rows + len(cells), self.born + len(cells))
        table._before = tallies
        return Sample(table, numbers)


class _Births:
    """All rows that a run of tables holds, in arrays with spare room."""

    def __init__(
        self, cells: np.ndarray, columns: dict[str, np.ndarray], numbers: np.ndarray
    ) -> None:
        # Attributes of rows lie one after the other: most passes read a few of them.
        self.cells = np.asfortranarray(cells)
        self.columns, self.numbers = dict(columns), numbers
        self.died = np.full(len(cells), _NEVER, np.int32)
        self.many, self.now = len(cells), 0

    def only(self, rows: np.ndarray) -> _Births:
        """Some of the rows, to go on apart from these."""
        columns = {name: values[rows] for name, values in self.columns.items()}
        return _Births(self.cells[rows], columns, self.numbers[rows])

    def places(self, numbers: np.ndarray) -> np.ndarray:
        """Where rows of these numbers are, or would be."""
        held = self.numbers[: self.many]
        # Most often none is missing in between: no need to search.
        if self.many and held[-1] - held[0] == self.many - 1:
            return np.clip(numbers - held[0], 0, self.many)
        return np.searchsorted(held, numbers)

    def go_on(
        self, dying: np.ndarray, cells: np.ndarray, columns: dict[str, np.ndarray], born: int
    ) -> None:
        """Let rows die and write new ones behind the last."""
        many = self.many + len(cells)
        self.cells = _followed(self.cells, self.many, cells)
        for name, values in self.columns.items():
            self.columns[name] = _followed(values, self.many, columns[name])
        self.numbers = _followed(self.numbers, self.many, born + np.arange(len(cells)))
        self.died = _followed(self.died, self.many, np.full(len(cells), _NEVER, np.int32))
        self.many, self.now = many, self.now + 1
        self.died[dying] = self.now


def _followed(values: np.ndarray, many: int, new: np.ndarray) -> np.ndarray:
    """The first `many` values, then new ones; moved where there is no room."""
    ever, dtype = many + len(new), np.promote_types(values.dtype, new.dtype)
    if ever > len(values) or dtype != values.dtype:
        longer = np.empty((ever + ever // 4, *values.shape[1:]), dtype, order="F")
        longer[:many] = values[:many]
        values = longer
    # Only arrays of our own have room: those that came from elsewhere may be read-only.
    if ever > many:
        values[many:ever] = new
    return values


@dataclass(frozen=True)
class Sample:
    """The next table, and which rows of the previous one are gone."""

    table: Table
    removed: np.ndarray  # (rows removed,) their numbers, ascending


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


def rows_of(mechanism: Any, public: Any) -> Codes:
    """The columns of a synthetic row, with what was taken up so far.

    A mechanism whose domain grows has `rows_of(public)`.
    """
    found = getattr(mechanism, "rows_of", None)
    return mechanism.rows if found is None else found(public)


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
