"""Panels of several columns: windows of each, and all together now.

Counting all windows of all columns would spread the noise over q^k cells, q the product of the
columns' values. Measured is a workload instead: the windows of each column, as a panel of its own
(`window.py`), and at every release how many people have each combination of values at that step.

Privacy: the declared rho-zCDP (or what it implies) for one person's whole history.
1. A person is absent from all columns at a step or from none: a row that misses one value counts in
   no column. So its history in a column depends on its own rows alone.
2. The panel of a column loses rho_c for one person (`schedule.py`).
3. A person adds 1 to one combination at each of the R releases, and a person replaced by another
   moves two: squares of s R in all, s = 1 or 2. Noise of variance s R / (2 rho_j).
4. The sum of all rho_c and rho_j is rho; losses of zCDP add up, also where inputs depend on past
   releases. The synthetic people are made of released numbers.

Accuracy: a column's answers are those of its panel at a part of rho; a combination's count has the
variance of step 3. Both are unbiased. What several columns do over several steps is not measured:
synthetic people have it by the least assumption that fits both (`coupling.py`).
Source: Bun, Gaboardi, Neunhoeffer, Zhang, Algorithm 1, for each column, as `window.py` has it.
Departs: several columns are ours; the paper has one bit a person and step.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tailrace.calls import told
from tailrace.counting.memory import LastValues, Missing
from tailrace.counting.plan import Counts, Plan
from tailrace.domain import Schema
from tailrace.errors import ConfigError
from tailrace.mechanisms.base import Nothing, State, Step
from tailrace.mechanisms.panel.columns_view import ColumnsView
from tailrace.mechanisms.panel.people import MOST_VALUES, Panel
from tailrace.mechanisms.panel.window import LARGEST, PanelWindow, WindowPublic
from tailrace.noise import Draws
from tailrace.noise.atoms import Atoms
from tailrace.privacy.guarantee import Guarantee
from tailrace.privacy.loss import ZCDP, Loss, whole
from tailrace.privacy.unit import Neighbours, Replace, Unit

# The part of the budget for combinations: by reasoning, less than a column's, as a count of one
# step is measured whole while a window's noise is spread over all its steps.
COMBINATIONS = Fraction(1, 5)


@dataclass(frozen=True)
class ColumnsPublic:
    """Everything a panel of several columns has released so far."""

    step: np.ndarray  # ()
    columns: tuple[WindowPublic, ...]
    together: np.ndarray  # (releases, combinations) noisy counts


@told
@dataclass(frozen=True, kw_only=True)
class PanelColumns(Panel):
    """A panel of two or three columns that people may join and leave.

    Parameters
    domain: two or three attributes, what a person reports per step.
    unit: User(column=...), a whole history.
    window: the steps of a window, in each column.
    horizon: the number of steps.
    privacy: the loss of one person.
    neighbours: AddRemove, Replace or Null.

    >>> from tailrace import ZCDP, AddRemove, Integer, Schema, User
    >>> PanelColumns(
    ...     domain=Schema(poor=Integer(0, 1), ill=Integer(0, 1)), unit=User(column="id"), window=3,
    ...     horizon=12, privacy=ZCDP(rho=0.05), neighbours=AddRemove,
    ... ).guarantee.short
    "rho = 0.05 for one person (column 'id') over 12 steps"
    """

    domain: Schema
    unit: Unit
    window: int
    horizon: int
    privacy: Loss
    neighbours: Neighbours

    people = None
    missing = Missing.Absent
    complete = False
    columns = (2, 3)

    def __post_init__(self) -> None:
        self._check()
        object.__setattr__(self, "window", whole("window", self.window))
        object.__setattr__(self, "horizon", whole("horizon", self.horizon))
        if self.window * math.log2(self.symbols) > math.log2(LARGEST):
            raise ConfigError(
                f"There are more than {LARGEST:,} windows: use a shorter window or fewer values."
            )
        if self.symbols > MOST_VALUES:
            raise ConfigError(
                f"The columns of a panel have at most {MOST_VALUES - 1} combinations of values."
            )
        # A panel that does not fit is refused now.
        _ = self.panels
        self._together.check()

    @property
    def symbols(self) -> int:
        """All combinations of values, and absence."""
        return self.domain.size + 1

    @functools.cached_property
    def panels(self) -> tuple[PanelWindow, ...]:
        """The panel of each column, with its part of the budget."""
        rho = self.privacy.zcdp_within().rho * (1 - COMBINATIONS) / len(self.domain.attributes)
        return tuple(
            PanelWindow(
                domain=Schema(**{name: attribute}),
                unit=self.unit,
                window=self.window,
                horizon=self.horizon,
                privacy=ZCDP(rho=rho),
                neighbours=self.neighbours,
            )
            for name, attribute in zip(self.domain.columns, self.domain.attributes, strict=True)
        )

    @functools.cached_property
    def _together(self) -> Atoms:
        """The noise of combinations."""
        rho = self.privacy.zcdp_within().rho * COMBINATIONS
        moved = 2 if self.neighbours is Replace else 1
        return Atoms(ZCDP(rho=rho), moved * (self.horizon - self.window + 1))

    @property
    def guarantee(self) -> Guarantee:
        losses = [loss for panel in self.panels for loss in panel.schedule.losses()]
        return self._guaranteed([*losses, self._together.loss(1, 0)])

    def init(self) -> State[ColumnsPublic, Nothing]:
        columns = tuple(panel.init().public for panel in self.panels)
        none = np.zeros((0, self.domain.size))
        return State(ColumnsPublic(np.zeros((), np.int64), columns, none), Nothing())

    def plan(self, public: ColumnsPublic) -> Plan:
        recall = LastValues(
            window=self.window,
            values=self.symbols,
            missing=Missing.Absent,
            first=int(public.step) == 0,
        )
        return Plan(codes=self.domain, key=self._column, memory=recall)

    def measure(
        self, state: State[ColumnsPublic, Nothing], counts: Counts, noise: Draws
    ) -> Step[ColumnsPublic, Nothing]:
        before, columns = state.public, []
        for number, (panel, public) in enumerate(zip(self.panels, before.columns, strict=True)):
            own = self._of_column(counts.adds, number)
            step = panel.measure(
                State(public, state.private), Counts(own, 0 * own), noise.at("column", number)
            )
            columns.append(step.state.public)
        step, together = int(before.step) + 1, before.together
        if step >= self.window:
            now = counts.adds.reshape(-1, self.symbols).sum(axis=0)[:-1]
            noisy = now + self._together.draw(noise.at("together"), now.shape)
            together = np.vstack([together, noisy])
        public = ColumnsPublic(np.asarray(step), tuple(columns), together)
        return Step(State(public, state.private))

    def _of_column(self, counts: np.ndarray, number: int) -> np.ndarray:
        """(windows of a column,) from all windows: others are summed over."""
        codes = np.array(np.unravel_index(np.arange(self.domain.size), self.domain.shape))[number]
        size = self.domain.shape[number]
        place = np.append(codes, size)
        table = counts.reshape((self.symbols,) * self.window)
        for axis in range(self.window):
            table = np.moveaxis(table, axis, 0)
            smaller = np.zeros((size + 1, *table.shape[1:]), np.int64)
            np.add.at(smaller, place, table)
            table = np.moveaxis(smaller, 0, axis)
        return table.reshape(-1)

    def view(self, public: ColumnsPublic) -> ColumnsView | None:
        if not len(public.together):
            return None
        views = tuple(
            panel.view(column) for panel, column in zip(self.panels, public.columns, strict=True)
        )
        return ColumnsView(
            domain=self.domain,
            id=self.rows.id,
            step=int(public.step),
            seed=int(public.columns[0].seed),
            columns=views,
            together=public.together,
            variance=self._together.variance(),
        )
