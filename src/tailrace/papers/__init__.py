"""Published methods by name, with the corrections their guarantees need.

Each function builds a mechanism; docs/explanation/corrections.md lists the corrections.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

from tailrace.calls import told
from tailrace.counters import BinaryTree, Simple
from tailrace.counting.journeys.moves import Ends, Even
from tailrace.counting.memory import Missing
from tailrace.domain import Schema
from tailrace.domain.geometry.partition import Ground
from tailrace.errors import ConfigError
from tailrace.mechanisms.panel.cumulative import PanelCumulative
from tailrace.mechanisms.panel.window import PanelWindow
from tailrace.mechanisms.snapshot.histogram import SnapshotHistogram
from tailrace.mechanisms.snapshot.levels import Static
from tailrace.mechanisms.snapshot.policy import Policy
from tailrace.mechanisms.tabular.workloads import Workload, default_fit
from tailrace.mechanisms.trajectories.layout import Map
from tailrace.models.tables import Fit
from tailrace.papers.privtree.splits import PrivTree
from tailrace.papers.privtree.stream import PrivTreeStream
from tailrace.papers.privtree_trajectories.cells import PrivTreeCells
from tailrace.papers.privtree_trajectories.mechanism import PrivTreeTrajectories
from tailrace.papers.privtree_trajectories.transitions import ProbableLengths, Transitions
from tailrace.papers.privtree_trajectories.trips import PrivTreeTrips
from tailrace.papers.snapshot_policies import (
    DSAT,
    DSFT,
    BudgetAbsorption,
    BudgetDistribution,
    EveryStep,
    FixedSampling,
)
from tailrace.papers.snapshot_policies.static import Hierarchy, LaplaceBins
from tailrace.papers.tabular_steps import TabularSteps
from tailrace.privacy.loss import Loss, Number, exact
from tailrace.privacy.unit import Neighbours, Replace, Unit, User, Window

__all__ = [
    "BudgetAbsorption",
    "BudgetDistribution",
    "DSAT",
    "DSFT",
    "EveryStep",
    "FixedSampling",
    "Hierarchy",
    "LaplaceBins",
    "PrivTree",
    "PrivTreeCells",
    "PrivTreeStream",
    "PrivTreeTrajectories",
    "PrivTreeTrips",
    "ProbableLengths",
    "TabularSteps",
    "Transitions",
    "budget_absorption",
    "budget_distribution",
    "dsat",
    "dsft",
    "panel_cumulative",
    "panel_window",
    "privstream",
    "streaming_mwem",
    "tabular_stream",
    "trajectories",
]


@told
def privstream(
    *,
    domain: Ground,
    privacy: Loss,
    unit: Unit,
    horizon: int | None,
    share: Number = "1/2",
    threshold: int = 0,
    fan_out: int = 2,
    max_depth: int | None = None,
    counter: Any = None,
    begin: int = 1,
    deletes: bool = True,
    rounding: Literal["up", "unbiased"] = "up",
) -> PrivTreeStream:
    """PrivStream (Kumar, Strohmer, Vershynin), corrected.

    Half of the budget draws the tree, simple counters (counter=None) count its leaves, counts are
    rounded up.

    >>> from tailrace import Box, Event, PureDP
    >>> square = Box(low=(0, 0), high=(1, 1), columns=("x", "y"))
    >>> privstream(domain=square, privacy=PureDP(epsilon=1), unit=Event(), horizon=100).counting
    Simple(privacy=PureDP(epsilon='0.5'), horizon=100)
    """
    return PrivTreeStream(
        domain=domain,
        privacy=privacy,
        unit=unit,
        horizon=horizon,
        structure=PrivTree(share=share, threshold=threshold, fan_out=fan_out, max_depth=max_depth),
        counter=Simple() if counter is None else counter,
        begin=begin,
        deletes=deletes,
        rounding=rounding,
    )


@told
def panel_window(
    *,
    domain: Schema,
    unit: Unit,
    window: int,
    horizon: int,
    privacy: Loss,
    neighbours: Neighbours,
    people: int | None = None,
    missing: Missing = Missing.Carry,
    beta: float = 0.05,
) -> PanelWindow:
    """Bun et al., Algorithm 1, with the relation's noise.

    Raw bins at every step; windows are padded so that, with probability 1 - beta, no count is
    negative (Theorem 3.2).

    >>> from tailrace import ZCDP, AddRemove, Integer, Schema, User
    >>> poor, person = Schema(poor=Integer(0, 1)), User(column="id")
    >>> panel_window(domain=poor, unit=person, window=3, horizon=12, privacy=ZCDP(rho=0.005),
    ...     neighbours=AddRemove).padding
    124
    """
    bare = PanelWindow(
        domain=domain,
        unit=unit,
        window=window,
        horizon=horizon,
        privacy=privacy,
        neighbours=neighbours,
        people=people,
        missing=missing,
        first=1,
        raw_bins=True,
    )
    rho, releases = float(privacy.zcdp_within().rho), bare.releases
    assert releases is not None, "only panels that people join may go on without end"
    moved = 2 if neighbours is Replace else 1
    tail = math.log(domain.size**bare.window * releases / float(exact("beta", beta, below=1)))
    padding = math.ceil((math.sqrt(moved * releases / rho) + math.sqrt(0.5)) * math.sqrt(tail))
    return replace(bare, padding=padding)


@told
def panel_cumulative(
    *,
    domain: Schema,
    unit: Unit,
    horizon: int,
    privacy: Loss,
    neighbours: Neighbours,
    people: int | None = None,
    missing: Missing = Missing.Carry,
) -> PanelCumulative:
    """Bun et al., Algorithm 2 with tree counters, corrected.

    The split is that of Corollary B.1. Levels are counted as bit_length(T-b+1), Replace pays for
    moves, and under AddRemove the number of people is noisy.

    >>> from tailrace import ZCDP, Integer, Null, Schema, User
    >>> poor, person = Schema(poor=Integer(0, 1)), User(column="id")
    >>> made = panel_cumulative(domain=poor, unit=person, horizon=12, privacy=ZCDP(rho=0.005),
    ...     neighbours=Null, people=1000)
    >>> [int(share) for share in made.shares]
    [64, 64, 64, 64, 27, 27, 27, 27, 8, 8, 1, 1]
    """
    even = PanelCumulative(
        domain=domain,
        unit=unit,
        horizon=horizon,
        privacy=privacy,
        neighbours=neighbours,
        people=people,
        missing=missing,
        counter=BinaryTree(),
    )
    steps = even.horizon
    # ceil(log2(T-b+1)), at least 1
    levels = [max((steps - b).bit_length(), 1) for b in range(1, steps + 1)]
    return replace(even, shares=tuple(level**3 for level in levels))


@told
def dsft(
    *,
    domain: Schema,
    privacy: Loss,
    unit: User | Window,
    horizon: int | None,
    threshold: float,
    releases: int | None = None,
    histogram: Static | None = None,
    population: int | None = None,
) -> SnapshotHistogram:
    """DSFT (Li, Xiong, Jiang, Liu), corrected: noise on bins.

    A hundredth of the steps is released where releases=None.
    """
    many = _hundredth(unit, horizon) if releases is None else releases
    policy = DSFT(threshold=threshold, releases=many)
    return _snapshots(domain, privacy, unit, horizon, policy, histogram, population)


@told
def dsat(
    *,
    domain: Schema,
    privacy: Loss,
    unit: User | Window,
    horizon: int | None,
    releases: int | None = None,
    gains: tuple[float, float, float] = (0.5, 0.0, 0.0),
    burn_in: int = 5,
    histogram: Static | None = None,
    population: int | None = None,
) -> SnapshotHistogram:
    """DSAT (Li, Xiong, Jiang, Liu), corrected: noise on bins.

    The controller has the proportional term alone, as in the paper's experiments. A hundredth of
    the steps is released where releases=None.

    >>> from tailrace import Integer, PureDP
    >>> age, person = Schema(age=Integer(0, 99)), User(column="id", records=1)
    >>> dsat(domain=age, privacy=PureDP(epsilon=1), unit=person, horizon=500).policy.releases
    5
    """
    many = _hundredth(unit, horizon) if releases is None else releases
    policy = DSAT(releases=many, gains=gains, burn_in=burn_in)
    return _snapshots(domain, privacy, unit, horizon, policy, histogram, population)


@told
def budget_distribution(
    *,
    domain: Schema,
    privacy: Loss,
    unit: User | Window,
    horizon: int | None,
    histogram: Static | None = None,
) -> SnapshotHistogram:
    """BD (Kellaris, Papadopoulos, Xiao, Papadias): noise on bins."""
    return _snapshots(domain, privacy, unit, horizon, BudgetDistribution(), histogram, None)


@told
def budget_absorption(
    *,
    domain: Schema,
    privacy: Loss,
    unit: User | Window,
    horizon: int | None,
    histogram: Static | None = None,
) -> SnapshotHistogram:
    """BA (Kellaris, Papadopoulos, Xiao, Papadias): noise on bins."""
    return _snapshots(domain, privacy, unit, horizon, BudgetAbsorption(), histogram, None)


@told
def trajectories(
    *,
    domain: Map,
    privacy: Loss,
    unit: Unit,
    trajectory: str,
    order: str,
    shares: tuple[Number, Number, Number] = ("0.3", "0.4", "0.3"),
    threshold: int = 0,
    weighting: Even | Ends = Even(),  # noqa: B008 - it is frozen
    max_depth: int | None = None,
) -> PrivTreeTrajectories:
    """Kumar's dissertation, Algorithm 21, corrected.

    PrivTree's cells, transitions along every edge, PrivTree on pairs of ends, and walks between
    them. `shares` of the budget are the paper's epsilon_1, epsilon_2, epsilon_3; `weighting` is its
    sensitivity distribution alpha.

    >>> from tailrace import Box, Event, PureDP
    >>> square = Box(low=(0, 0), high=(1, 1), columns=("x", "y"))
    >>> made = trajectories(domain=square, privacy=PureDP(epsilon=1), unit=Event(),
    ...     trajectory="trip", order="time")
    >>> [str(budget) for budget in made.budgets.values()]
    ['epsilon = 0.3', 'epsilon = 0.4', 'epsilon = 0.3']
    """
    parts = [exact("shares", share) for share in shares] if isinstance(shares, list | tuple) else []
    if len(parts) != 3:
        raise ConfigError("shares must be three numbers: of epsilon_1, epsilon_2 and epsilon_3.")
    return PrivTreeTrajectories(
        domain=domain,
        privacy=privacy,
        unit=unit,
        trajectory=trajectory,
        order=order,
        cells=PrivTreeCells(share=parts[0], threshold=threshold, max_depth=max_depth),
        moves=Transitions(share=parts[1], weighting=weighting),
        trips=PrivTreeTrips(share=parts[2], threshold=threshold),
        lengths=ProbableLengths(),
    )


@told
def tabular_stream(
    *,
    domain: Schema,
    privacy: Loss,
    unit: Unit,
    horizon: int | None,
    workload: Workload = 2,
    chosen: int = 3,
    fit: Fit | None = None,
    counter: Any = None,
    total: Number = "1/20",
    selection: Number = "1/2",
    deletes: bool = True,
) -> TabularSteps:
    """Kumar's tabular stream, Algorithm 3, corrected.

    Measures `chosen` (the paper's k) workloads at every step, with half of the budget to choose
    them, simple counters (counter=None), and a `total` share for the noisy number of records.

    >>> from tailrace import Event, Integer, PureDP
    >>> bits = Schema(a=Integer(0, 1), b=Integer(0, 1), c=Integer(0, 1))
    >>> tabular_stream(domain=bits, privacy=PureDP(epsilon=2), unit=Event(), horizon=9, chosen=1,
    ...     total="1/2").counting
    Simple(privacy=PureDP(epsilon='0.5'), horizon=9)
    """
    return TabularSteps(
        domain=domain,
        privacy=privacy,
        unit=unit,
        horizon=horizon,
        workload=workload,
        fit=default_fit() if fit is None else fit,
        chosen=chosen,
        counter=Simple() if counter is None else counter,
        total=total,
        selection=selection,
        deletes=deletes,
    )


@told
def streaming_mwem(
    *,
    domain: Schema,
    privacy: Loss,
    unit: Unit,
    horizon: int | None,
    workload: Workload = 2,
    chosen: int = 3,
    fit: Fit | None = None,
    total: Number = "1/20",
    selection: Number = "1/2",
) -> TabularSteps:
    """Streaming MWEM, Algorithm 2 of the same paper, corrected.

    Every batch has its own table, and all are added up; nothing is deleted.

    >>> from tailrace import Event, Integer, PureDP
    >>> bits = Schema(a=Integer(0, 1), b=Integer(0, 1))
    >>> mwem = streaming_mwem(domain=bits, privacy=PureDP(epsilon=1), unit=Event(), horizon=9)
    >>> mwem.guarantee.short
    'epsilon = 1 for one event over 9 steps'
    """
    made = tabular_stream(
        domain=domain,
        privacy=privacy,
        unit=unit,
        horizon=horizon,
        workload=workload,
        chosen=chosen,
        fit=fit,
        total=total,
        selection=selection,
        deletes=False,
    )
    return replace(made, apart=True)


def _snapshots(
    domain: Schema,
    privacy: Loss,
    unit: User | Window,
    horizon: int | None,
    policy: Policy,
    histogram: Static | None,
    population: int | None,
) -> SnapshotHistogram:
    """Snapshots under a policy, Laplace noise on bins by default."""
    return SnapshotHistogram(
        domain=domain,
        privacy=privacy,
        unit=unit,
        horizon=horizon,
        policy=policy,
        histogram=LaplaceBins() if histogram is None else histogram,
        population=population,
    )


def _hundredth(unit: User | Window, horizon: int | None) -> int | None:
    """A hundredth of the steps protected together, at least one."""
    steps = unit.steps if isinstance(unit, Window) else horizon
    return None if steps is None else -(-steps // 100)
