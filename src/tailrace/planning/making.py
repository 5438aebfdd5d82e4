"""`plan`: what a budget and a horizon buy, before they are spent."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import is_dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl

from tailrace.calls import told
from tailrace.errors import ConfigError, DataError
from tailrace.mechanisms.base import Mechanism, Takes
from tailrace.mechanisms.spatial.stream import SpatialStream
from tailrace.mechanisms.tabular.stream import TabularStream
from tailrace.planning.advice import few_of, others_of
from tailrace.planning.exact import is_exact, known
from tailrace.planning.facts import Facts, Generated, Like, StandIn, facts_of
from tailrace.planning.outcome import Outcome, Plan, Reach, budget_of, reaching, with_budget
from tailrace.planning.trials import tried
from tailrace.privacy.loss import Number, exact, real, whole

# Steps that an endless stream is looked at for.
_ENDLESS = 365
# Steps and runs at most: beyond, a plan would take days.
_MOST_STEPS, _MOST_RUNS = 1_000_000, 1000
# Budgets beside the declared one, and further ones where an error is asked for.
_EXACT, _TRIED = (Fraction(1, 4), Fraction(1, 2), 1, 2, 4), (Fraction(1, 2), 1, 2)
_FURTHER = 5


@told
def plan(
    mechanism: Mechanism,
    *,
    facts: Facts | None = None,
    like: Any = None,
    epsilons: Sequence[Number] = (),
    horizons: Sequence[int] = (),
    others: Sequence[Mechanism] | None = None,
    error: float | None = None,
    runs: int = 4,
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> Plan:
    """Predict a mechanism's errors before a budget is spent.

    No private row is read and nothing is charged. Errors of histograms and panels are exact; other
    mechanisms are run on stand-in data, drawn to public `facts` or read from a public file.

    Parameters
    mechanism: the one to plan for.
    facts: public facts about the data.
    like: a public file or frame like the private data; it must not be the private data.
    epsilons: budgets to compare (rhos where the mechanism is declared in rho).
    horizons: numbers of steps to compare.
    others: mechanisms to compare; None: other units and settings that fit.
    error: find the budget that reaches this standard error.
    runs: how often each mechanism is run on stand-in data.
    seed: of stand-in data and their noise.
    progress: called with words, and how many of how many runs are done.

    >>> import tailrace as tr
    >>> ward = tr.Schema(district=tr.Integer(1, 12))
    >>> cases = tr.HistogramStream(
    ...     domain=ward, privacy=tr.PureDP(epsilon=1), unit=tr.Event(), horizon=365
    ... )
    >>> print(plan(cases, others=[]).sentences[1])
    All records, say 1,000, will be shown as 1,000 +- 36; nine in ten are within 59.
    """
    making = _Making(mechanism, facts_of(facts), like, runs, seed, progress)
    target = None if error is None else real("error", error, least=1e-9, most=1e12)
    budgets = making.budgets([exact("epsilons", one) for one in _listed("epsilons", epsilons)])
    lengths = making.lengths([whole("horizons", one) for one in _listed("horizons", horizons)])
    beside = list(others_of(mechanism, making.facts) if others is None else _named(others))
    making.total = len(budgets) + len(lengths) + len(beside)
    found = {amount: making.outcome("", one) for amount, one in budgets.items()}
    asked = found[budget_of(mechanism.privacy)]
    longer = {asked.steps: asked, **{n: making.outcome("", one) for n, one in lengths.items()}}
    compared = tuple(making.outcome(name, one) for name, one in beside)
    simulated = [one for one in (asked, *compared) if not one.exact]
    return Plan(
        asked=asked,
        budgets=tuple(found[one] for one in sorted(found)),
        horizons=tuple(longer[one] for one in sorted(longer)),
        others=compared,
        reached=() if target is None else making.reached(found, asked, target),
        data=making.data.words(simulated[0].mechanism) if simulated else "",
        few="" if like is not None else few_of(mechanism, making.facts.rows, asked.steps),
    )


class _Making:
    """Outcomes of one plan, with what they share."""

    def __init__(
        self, mechanism: Mechanism, facts: Facts, like: Any, runs: int, seed: int, progress: Any
    ):
        if not _is_mechanism(mechanism):
            raise ConfigError("mechanism must be a mechanism, for example HistogramStream(...).")
        self.mechanism, self.facts = mechanism, facts
        self.data: StandIn = Generated(facts) if like is None else Like(opened(like), facts.stays)
        self.runs, self.seed = whole("runs", runs), whole("seed", seed, least=0)
        if self.runs > _MOST_RUNS:
            raise ConfigError(f"runs must be at most {_MOST_RUNS:,}.")
        if progress is not None and (isinstance(progress, type) or not callable(progress)):
            raise ConfigError("progress must be a function, or None.")
        self.progress, self.total, self.done = progress, 0, 0

    def budgets(self, given: list[Fraction]) -> dict[Fraction, Any]:
        """The mechanism with each budget given, or with usual ones, and its own."""
        own = budget_of(self.mechanism.privacy)
        factors = _EXACT if is_exact(self.mechanism) else _TRIED
        usual = {own * factor: self.budget(own * factor, asked=False) for factor in factors}
        made = {one: self.budget(one) for one in given} if given else usual
        return {own: self.mechanism, **{one: part for one, part in made.items() if part}}

    def budget(self, amount: Any, *, asked: bool = True) -> Any:
        """The mechanism with another budget; None where it cannot be, and nobody asked."""
        return self._with(asked, privacy=with_budget(self.mechanism.privacy, amount))

    def lengths(self, given: list[int]) -> dict[int, Any]:
        """The mechanism over other numbers of steps."""
        horizon, once = self.mechanism.horizon, self.mechanism.takes is Takes.Once
        if once and given:
            raise ConfigError("horizons: this mechanism releases once, and has no horizon.")
        steps = _steps(self.mechanism)
        if max([steps, *given]) > _MOST_STEPS:
            most = f"{_MOST_STEPS:,}"
            raise ConfigError(f"horizons: a plan looks at {most} steps at most; name fewer.")
        quick = horizon is not None and is_exact(self.mechanism)
        usual = [one for one in (steps // 4, steps * 4) if quick and 1 <= one <= _MOST_STEPS]
        found = {one: self._with(bool(given), horizon=one) for one in given or usual}
        return {one: made for one, made in found.items() if made and one != steps}

    def _with(self, asked: bool, **changes: Any) -> Any:
        mechanism: Any = self.mechanism
        try:
            return replace(mechanism, **changes)
        except ConfigError:
            if asked:
                raise
            return None

    def outcome(self, name: str, mechanism: Any) -> Outcome:
        """One mechanism's errors: exact, or by trial."""
        steps, sure = _steps(mechanism), is_exact(mechanism)
        tell = functools.partial(self._tell, name or mechanism.guarantee.short)
        if sure:
            courses = known(mechanism, steps=steps)
            tell(self.runs)
        else:
            runs: dict[str, Any] = {"steps": steps, "runs": self.runs, "seed": self.seed}
            courses = tried(mechanism, self.data, progress=lambda: tell(1), **runs)
        return Outcome(
            name=name,
            mechanism=mechanism,
            steps=steps,
            exact=sure,
            courses=courses,
            noise=noise_of(mechanism),
        )

    def _tell(self, words: str, runs: int) -> None:
        """Count runs that are done."""
        self.done += runs
        if self.progress is None:
            return
        try:
            self.progress(words, self.done, self.total * self.runs)
        except TypeError:
            raise ConfigError(
                "progress must take three arguments: words, runs that are done, and runs in all."
            ) from None

    def reached(self, found: dict[Any, Outcome], asked: Outcome, error: float) -> tuple[Reach, ...]:
        """The budgets that reach an error, for each question.

        Further ones are tried where none of those found does: for all questions where errors are
        exact, else for the first.
        """
        every, many = dict(found), None if asked.exact else 1
        for _ in range(_FURTHER):
            low, high = min(every), max(every)
            largest, least = (
                [course.overall for course in every[one].courses[:many]] for one in (low, high)
            )
            asked_for = [low / 4] if any(one <= error for one in largest) else []
            asked_for += [high * 4] if any(one > error for one in least) else []
            further = {one: self.budget(one, asked=False) for one in asked_for}
            further = {one: made for one, made in further.items() if made is not None}
            if not further:
                break
            self.total += len(further)
            every |= {one: self.outcome("", made) for one, made in further.items()}
        names = [course.question for course in asked.courses]
        tried_ = list(every.values())
        return tuple(Reach(name, error, reaching(tried_, name, error)) for name in names)


def noise_of(mechanism: Any) -> dict[str, float]:
    """Standard errors of single measurements, which are exact."""
    if isinstance(mechanism, TabularStream):
        deviations = [atoms.variance() ** 0.5 for atoms in mechanism.budget.singles]
        return {"one value of a column, measured once": max(deviations)}
    if isinstance(mechanism, SpatialStream):
        return {"one leaf of the tree, measured once": mechanism.atoms.variance() ** 0.5}
    return {}


def _steps(mechanism: Mechanism) -> int:
    if mechanism.takes is Takes.Once:
        return 1
    return mechanism.horizon or _ENDLESS


def _named(others: Any) -> Iterator[tuple[str, Mechanism]]:
    for one in _listed("others", others):
        if not _is_mechanism(one):
            raise ConfigError("others must be mechanisms, for example [HistogramStream(...)].")
        yield type(one).__name__, one


def _is_mechanism(value: Any) -> bool:
    is_class = isinstance(value, type)
    return not is_class and is_dataclass(value) and hasattr(value, "measure")


def _listed(name: str, values: Any) -> list[Any]:
    if not isinstance(values, list | tuple):
        raise ConfigError(f"{name} must be a list.")
    return list(values)


def opened(like: Any) -> pl.DataFrame:
    """A public file, or a frame in memory, as a Polars frame."""
    wrong = DataError("like must be a public .csv or .parquet file, or a frame in memory.")
    if isinstance(like, str | os.PathLike):
        try:
            file = Path(like)
            return pl.read_parquet(file) if file.suffix == ".parquet" else pl.read_csv(file)
        except (OSError, pl.exceptions.PolarsError, ValueError, TypeError):
            raise DataError(
                f"{os.path.basename(like)} cannot be read: like names a public .csv or .parquet "
                "file with the columns of the stream."
            ) from None
    try:
        import narwhals as nw

        return nw.from_native(like, eager_only=True).to_polars()
    except Exception:
        raise wrong from None
