"""The conformance suite can fail: mechanisms with a planted fault, each caught by
`check_mechanism`.
"""

import contextlib
import dataclasses
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from samples import growing, rows
from tailrace import (
    ZCDP,
    AddRemove,
    Amount,
    ApproxDP,
    Box,
    Categorical,
    Event,
    HistogramStream,
    Integer,
    JourneyStream,
    Missing,
    PanelWindow,
    PureDP,
    Replace,
    Schema,
    SnapshotHistogram,
    SpatialStream,
    TabularStream,
    Trajectories,
    User,
    counters,
)
from tailrace.checks import check_mechanism
from tailrace.counters.choice import allot
from tailrace.counters.ladder import LadderCounter
from tailrace.counting import step
from tailrace.counting.journeys.reading import joined
from tailrace.counting.plan import packed_texts
from tailrace.errors import NoiseReused
from tailrace.mechanisms.base import State
from tailrace.mechanisms.panel.nested import Nested
from tailrace.mechanisms.panel.schedule import Schedule
from tailrace.mechanisms.shared.growth import Growth
from tailrace.mechanisms.snapshot.comparing import Comparing
from tailrace.mechanisms.tabular.budget import Choice, Purse
from tailrace.mechanisms.trajectories.counts import Count
from tailrace.mechanisms.trajectories.plan import Tally
from tailrace.mechanisms.trajectories.setting import Setting
from tailrace.noise.atoms import Atoms
from tailrace.papers import PrivTreeStream
from tailrace.papers.privtree.splits import SplitCoin
from tailrace.papers.snapshot_policies import DSAT
from tailrace.papers.snapshot_policies.static import LaplaceBins
from tailrace.privacy.budget import part

WARD = Schema(sex=Categorical(["f", "m"]), age=Integer(0, 3))
TREES = Schema(age=Integer(0, 3), tree=Categorical(["oak", "ash"], outside="other", growing=2))
SPENT = Schema(sex=Categorical(["f", "m"]), x=Amount(0, 1, unit=0.05))
SQUARE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=8)
# Two levels of ends and of pairs.
FINE = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=16)
PURE = PureDP(epsilon=1)


BATCHES = [(rows(0), None), (rows(1), rows(0, 5)), (None, None), (rows(2), None)]
ADDED = growing(BATCHES)
LARGE = [(rows(0, 200), None), (rows(1), rows(0, 5)), (None, None)]
REPORTS = [(adds if adds is None else adds.select("id", "sex"), None) for adds, _ in BATCHES]


# At first one row has a value that many have later; then one row has a value of its own.
NEW_TREES = [
    (rows(0, 200).with_columns(tree=pl.Series(["fir", *["oak", "ash"] * 99, "oak"])), None),
    (rows(1, 200).with_columns(tree=pl.Series(["yew", *["fir", "elm"] * 99, "oak"])), None),
]

# A person has two of the first five, and many follow.
FIRS = [
    (pl.DataFrame({"id": ids, "age": [0] * len(ids), "tree": ["fir"] * len(ids)}), None)
    for ids in ([7, 7, 1, 2, 3], [*range(20, 60)])
]


def histogram(**options):
    return HistogramStream(
        **{"domain": WARD, "privacy": PURE, "unit": Event(), "horizon": 5, **options}
    )


def spatial(**options):
    return SpatialStream(
        **{"domain": SQUARE, "privacy": PURE, "unit": Event(), "horizon": 5, **options}
    )


def panel(neighbours=AddRemove, **options):
    return PanelWindow(
        **{
            "domain": Schema(sex=Categorical(["f", "m"])),
            "unit": User(column="id"),
            "window": 2,
            "horizon": 4,
            "privacy": ZCDP(rho=0.1),
            "neighbours": neighbours,
            **options,
        }
    )


def snapshots(policy=None, privacy=PURE):
    unit = User(column="id", records=1)
    return SnapshotHistogram(
        domain=WARD, privacy=privacy, unit=unit, horizon=8, policy=policy, histogram=LaplaceBins()
    )


def trajectories():
    return Trajectories(
        domain=FINE, privacy=PureDP(epsilon=2), unit=Event(), trajectory="trip", order="time"
    )


def trips():
    """Journeys of people with at most two, in epochs of two steps."""
    common = {"domain": SQUARE, "privacy": PureDP(epsilon=40), "horizon": 6}
    person = User(column="id", events=2)
    return JourneyStream(unit=person, trajectory="trip", order="time", **common)


def privtree():
    return PrivTreeStream(domain=SQUARE, privacy=PURE, unit=Event(), horizon=5)


def tabular():
    from tailrace.mechanisms.tabular.epochs import Selection

    wide = Schema(sex=Categorical(["f", "m"]), age=Integer(0, 3), trip=Integer(0, 5))
    return TabularStream(
        domain=wide, privacy=PURE, unit=Event(), horizon=5, selection=Selection(chosen=1)
    )


def drifting():
    """A table whose values come in order, so that epochs have stretches."""
    from tailrace.mechanisms.tabular.epochs import Selection

    wide = Schema(sex=Categorical(["f", "m"]), age=Integer(0, 3), trip=Integer(0, 5))
    return TabularStream(
        domain=wide,
        privacy=PureDP(epsilon=40),
        unit=Event(),
        horizon=16,
        selection=Selection(chosen=1, churn=2),
        deletes=False,
    )


def in_order(step):
    """Ever more rows, of later and later ages and trips."""
    many = 60 * (step + 1)
    rng = np.random.default_rng(step)
    age, trip = np.full(many, step // 4), np.full(many, (step // 2) % 6)
    sex = rng.choice(["f", "m"], many)
    return pl.DataFrame({"id": np.arange(many), "sex": sex, "age": age, "trip": trip}), None


# The row that the suite removes from the middle, at step 9, lies in a stretch.
IN_ORDER = [in_order(step) for step in range(16)]


SOUND = {
    "histogram": (histogram(), BATCHES),
    "tree": (histogram(counter=counters.BinaryTree()), BATCHES),
    "subtracting": (histogram(counter=counters.KaryTree(arity=3, levels=2)), BATCHES),
    "gaussian": (histogram(privacy=ZCDP(rho=0.1), counter=counters.SqrtToeplitz()), BATCHES),
    "people": (histogram(unit=User(column="id", events=2)), BATCHES),
    "amounts": (histogram(domain=SPENT, privacy=ZCDP(rho=0.1)), BATCHES),
    "spending": (histogram(domain=SPENT, unit=User(column="id", events=2)), BATCHES),
    "growing": (
        histogram(domain=TREES, privacy=ApproxDP(epsilon=8, delta=1e-3), deletes=False),
        NEW_TREES,
    ),
    "growing people": (
        histogram(
            domain=TREES,
            privacy=ApproxDP(epsilon=16, delta=1e-3),
            unit=User(column="id", events=2),
            deletes=False,
        ),
        FIRS,
    ),
    "spatial": (spatial(), BATCHES),
    "retention": (spatial(retention=2), ADDED),
    # its first epoch holds enough for several rounds
    "rounds": (spatial(privacy=PureDP(epsilon=8)), LARGE),
    "panel": (panel(), REPORTS),
    "replaced": (panel(Replace), REPORTS),
    "carried": (panel(Replace, missing=Missing.Carry), REPORTS),
    "complete": (panel(Replace, complete=True), REPORTS),
    "endless": (panel(window=1, horizon=None), REPORTS),
    "snapshots": (snapshots(DSAT(releases=3, burn_in=1)), ADDED),
    "trajectories": (trajectories(), [(rows(3, 60), None)]),
    "trips": (trips(), ADDED),
    "privtree": (privtree(), BATCHES),
    "tabular": (tabular(), BATCHES),
    "drifting": (drifting(), IN_ORDER),
}


@contextlib.contextmanager
def replaced(owner, name, make):
    """`make(sound)` in place of a method."""
    sound = owner.__dict__[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, make(sound))
        yield


def released(change):
    """`measure` with another public state: change(public, counts, noise, state before) ->
    changes.
    """

    def make(sound):
        def measure(self, state, counts, noise):
            step = sound(self, state, counts, noise)
            changes = change(step.state.public, counts, noise, state)
            return dataclasses.replace(
                step,
                state=State(dataclasses.replace(step.state.public, **changes), step.state.private),
            )

        return measure

    return make


def one_noise_for_all(sound):
    return lambda self, noise, shape: np.repeat(sound(self, noise, 1), shape)


def one_noise_spread(sound):
    return lambda self, noise, shape: sound(self, noise, 1)


def noise_of_the_level_before(sound):
    def measured(self, masses, *, budget, noise):
        found, drawn = [], None
        for level, (size, atoms) in enumerate(zip(self.sizes, self.noise(budget), strict=True)):
            drawn = (
                atoms.draw(noise.at(level), size)
                if drawn is None
                else drawn[np.arange(size) % len(drawn)]
            )
            found.append(self.at(masses, level).dense(size) + drawn)
        return np.concatenate(found)

    return measured


def parity(public, counts, noise, before):
    return {"estimates": public.estimates + int(counts.adds.sum()) % 2}


def exact_counts(public, counts, noise, before):
    return {"estimates": np.maximum(counts.net, 0).astype(float)}


def exact_order(public, counts, noise, before):
    return {"estimates": np.roll(public.estimates, int((counts.adds > 0).sum()))}


def exact_length(public, counts, noise, before):
    return {"recent": np.zeros(int(counts.adds.sum()))}


def no_noise_on_nothing(public, counts, noise, before):
    return {"estimates": np.where(counts.net == 0, before.public.estimates, public.estimates)}


def halved(sound):
    def draw(self, noise, shape):
        scale = self.scale / (2 if isinstance(self.privacy, PureDP) else 4)
        return (
            noise.laplace(scale, shape)
            if isinstance(self.privacy, PureDP)
            else noise.gaussian(scale, shape)
        )

    return draw


def half_of_the_bounds(sound):
    return property(lambda self: [bound // 2 for bound in sound.fget(self)])


def sums_beside_the_budget(sound):
    def counters_(self):
        whole = allot(None, privacy=self.privacy, horizon=self.horizon, events=self._events)
        return (whole, *sound.fget(self)[1:])

    return property(counters_)


class OneRowPasses(Growth):
    threshold = 1


class HalfOfTheScale(Growth):
    @property
    def scale(self):
        return super().scale / 2


def unsaid(kind):
    """Compare as another kind does, and claim what was claimed."""
    return lambda sound: lambda self, *given: sound(kind(**vars(self)), *given)


def exact_rows(sound):
    def step(self, public, private, rows, declared, number, noise):
        sound(self, public, private, rows, declared, number, noise)
        passed = sorted(text for text, many in rows.items() if many > 0)[: self.room]
        steps = np.full(len(passed), number)
        return dataclasses.replace(public, texts=packed_texts(passed), steps=steps), private

    return step


def whole_budgets(_):
    return property(lambda self: (self.atoms,) * 4)


def whole_budgets_unsaid(sound):
    def measured(self, public, private, noise):
        other = dataclasses.replace(self)
        other.__dict__["_every_atoms"] = (self.atoms,) * 4
        return sound(other, public, private, noise)

    return measured


def forgotten_level(sound):
    return property(lambda self: Atoms(self.privacy, sound.fget(self).weight - 1))


def noise_of_the_step_before(public, counts, noise, before):
    return {"estimates": before.public.estimates + counts.net} if public.step % 2 == 0 else {}


def one_draw_for_two(public, counts, noise, before):
    drawn = noise.at("more").laplace(1000, len(counts.net))
    return {"estimates": public.estimates + (counts.net + drawn) - (counts.adds + drawn)}


def same_path(public, counts, noise, before):
    return {
        "estimates": public.estimates
        + np.asarray(noise.at("bins", "fresh").laplace(1, len(counts.net)))
    }


def drawn_and_dropped(sound):
    def draw(self, noise, shape):
        return np.zeros_like(np.asarray(sound(self, noise, shape)))

    return draw


def noisy_twice(public, counts, noise, before):
    """A second release of what was measured, with noise that nobody pays for."""
    return {
        "estimates": public.estimates + (counts.net + noise.at("more").laplace(8, len(counts.net)))
    }


def exact_split(sound):
    def draw_parts(self, noise, parts, depth):
        sound(self, noise, parts, depth)
        return np.asarray(parts) > self.threshold * self.grid + depth * self.penalty

    return draw_parts


def thrice_the_scores(sound):
    return lambda self, scores, noise: sound(self, 3 * scores, noise)


def half_of_the_price(sound):
    return lambda self, parts: sound(self, max(parts // 2, 1))


def twice_as_precise(sound):
    def counts(self, parts):
        _, purse = sound(self, parts)
        return self._atoms(2 * parts), purse

    return counts


def counted_again(sound):
    return lambda self, buffer: buffer


def twice_the_budget(sound):
    def measured(self, tally, noise):
        twice = {name: part(budget, 2) for name, budget in self.budgets.items()}
        return sound(dataclasses.replace(self, budgets=twice), tally, noise)

    return measured


def unbounded(sound):
    return lambda parts, unit, **where: [sound(parts, unit, **where), joined(parts)][1]


def exact_clock(public, counts, noise, before):
    return {"clock": public.clock + int(counts.parts[0].parts.sum()) % 5}


def exact_watch(public, counts, noise, before):
    watched = public.watched.copy()
    watched[-1:, 0] = int(counts.parts[1].parts[:1].sum()) % 5
    return {"watched": watched}


def watched_under_all(sound):
    """The watch has the whole budget, as if the epoch had none."""

    def measure(self, state, counts, noise):
        step = sound(self, state, counts, noise)
        public, ends = step.state.public, Tally((counts.parts[1],))
        whole = {name: part(budget, 25) for name, budget in self._watch.budgets.items()}
        watch = dataclasses.replace(self._watch, budgets=whole)
        watched = np.vstack([public.watched, watch.measured(ends, noise.at("whole"))])
        public = dataclasses.replace(public, watched=watched)
        return dataclasses.replace(step, state=State(public, step.state.private))

    return measure


def exact_comparison(sound):
    return lambda self, distance, wanted, *, drawn, threshold: distance >= wanted


def as_if_added(sound):
    return property(lambda self: (1, (self.domain.size - 1) * (self.releases - 1)))


def as_if_complete(sound):
    return lambda self, level: (self.values - 1) * (self.releases - 1)


def unshared(sound):
    return lambda self, later: dict.fromkeys(sound(self, later=later), Fraction(1))


def as_if_gone(sound):
    return lambda self, many: self.values * many


def free_marginals(sound):
    """The windows' budget is not lowered by that of the marginals."""

    def epoch(self, number):
        made = sound(self, number)
        whole = ZCDP(rho=made.windows.privacy.rho + made.marginals.privacy.rho)
        return made._replace(windows=Atoms(whole, made.windows.weight))

    return epoch


def harmonic(sound):
    return lambda self, epoch: Fraction(1, epoch + 1)


def as_one_event(sound):
    return lambda self, events, deletes: sound(self, 1, 0)


def loud_threshold(sound):
    """The threshold's noise decides nothing any more, but is shown."""

    def decide(self, series, pace, hidden, snapshot, noise):
        made = sound(self, series, pace, hidden, snapshot, noise)
        shown = np.asarray(
            float(made.pace.threshold)
            + float(made.hidden.threshold) / 1000
            + snapshot.distance() % 2
        )
        return dataclasses.replace(made, pace=dataclasses.replace(made.pace, threshold=shown))

    return decide


PUBLIC = "give the same public state"
LOSS = "the loss stays within the claim"
ONCE = "a draw is added to one count"
SHAPE = "noise is drawn in the shape of the counts"

MUTANTS = {
    # these three survived the suite before it had a meter
    "one noise for all leaves": ("spatial", Atoms, "draw", one_noise_for_all, PUBLIC),
    "a level's noise again at the next": (
        "trajectories",
        Count,
        "measured",
        noise_of_the_level_before,
        ONCE,
    ),
    "the parity of the batch": ("histogram", HistogramStream, "measure", released(parity), PUBLIC),
    # and others
    "one noise spread over all leaves": ("spatial", Atoms, "draw", one_noise_spread, SHAPE),
    "halved Laplace noise": ("histogram", Atoms, "draw", halved, LOSS),
    "halved Gaussian noise": ("gaussian", Atoms, "draw", halved, LOSS),
    "halved noise of subtracted atoms": ("subtracting", Atoms, "draw", halved, LOSS),
    "halved noise of a retention": ("retention", Atoms, "draw", halved, LOSS),
    "halved noise of trajectories": ("trajectories", Atoms, "draw", halved, LOSS),
    "rounds that spend the whole each": (
        "rounds",
        SpatialStream,
        "_every_atoms",
        whole_budgets,
        "within the declared loss",
    ),
    "rounds that spend the whole unsaid": (
        "rounds",
        SpatialStream,
        "_measured",
        whole_budgets_unsaid,
        LOSS,
    ),
    "noise by half of the bound": (
        "amounts",
        HistogramStream,
        "_bounds",
        half_of_the_bounds,
        LOSS,
    ),
    "a person's noise by half of the bound": (
        "spending",
        HistogramStream,
        "_bounds",
        half_of_the_bounds,
        LOSS,
    ),
    "sums beside the budget": (
        "amounts",
        HistogramStream,
        "_counters",
        sums_beside_the_budget,
        "within the declared loss",
    ),
    "a threshold that one row passes": (
        "growing",
        Growth,
        "step",
        unsaid(OneRowPasses),
        PUBLIC,
    ),
    "new values by half of the noise": ("growing", Growth, "step", unsaid(HalfOfTheScale), LOSS),
    "new values of people by half of the noise": (
        "growing people",
        Growth,
        "step",
        unsaid(HalfOfTheScale),
        LOSS,
    ),
    "new values by exact counts": ("growing", Growth, "step", exact_rows, "other noise|public"),
    "a forgotten level": ("tree", LadderCounter, "atoms", forgotten_level, LOSS),
    "a reused path": (
        "histogram",
        HistogramStream,
        "measure",
        released(same_path),
        "drawn from before",
    ),
    "the last step's noise again": (
        "histogram",
        HistogramStream,
        "measure",
        released(noise_of_the_step_before),
        PUBLIC,
    ),
    "one draw for two counts": (
        "histogram",
        HistogramStream,
        "measure",
        released(one_draw_for_two),
        ONCE,
    ),
    "noise drawn and dropped": (
        "histogram",
        Atoms,
        "draw",
        drawn_and_dropped,
        "other noise gives other releases",
    ),
    "exact counts in public": (
        "histogram",
        HistogramStream,
        "measure",
        released(exact_counts),
        "other noise|public",
    ),
    "an exact order": ("histogram", HistogramStream, "measure", released(exact_order), PUBLIC),
    "an exact length": ("spatial", SpatialStream, "measure", released(exact_length), PUBLIC),
    "no noise where there is nothing": (
        "histogram",
        HistogramStream,
        "measure",
        released(no_noise_on_nothing),
        PUBLIC,
    ),
    "a second, unpaid release": (
        "histogram",
        HistogramStream,
        "measure",
        released(noisy_twice),
        LOSS,
    ),
    "a person's events paid as one": ("people", Atoms, "loss", as_one_event, LOSS),
    "a replaced person paid as one who goes": (
        "carried",
        PanelWindow,
        "_moves",
        as_if_added,
        LOSS,
    ),
    "a replaced person of a complete panel paid as one who goes": (
        "complete",
        Nested,
        "_moved",
        as_if_complete,
        LOSS,
    ),
    "levels that sum to more than the budget": (
        "complete",
        Nested,
        "_parts",
        unshared,
        "within the declared loss",
    ),
    "one who joins, replaced, paid as one who goes": (
        "replaced",
        Schedule,
        "_moved",
        as_if_gone,
        LOSS,
    ),
    "marginals beside the budget": (
        "panel",
        Schedule,
        "epoch",
        free_marginals,
        "within the declared loss",
    ),
    "epochs that sum to more than the budget": (
        "endless",
        Schedule,
        "_share",
        harmonic,
        LOSS,
    ),
    "exact splits": (
        "privtree",
        SplitCoin,
        "draw_parts",
        exact_split,
        "depends on released|public",
    ),
    "choices by thrice the scores": ("tabular", Choice, "draw", thrice_the_scores, LOSS),
    "rounds at half of their price": ("tabular", Purse, "_less", half_of_the_price, LOSS),
    "counts with twice what they pay for": ("tabular", Purse, "counts", twice_as_precise, LOSS),
    "columns counted again in the next stretch": (
        "drifting",
        TabularStream,
        "_without_columns",
        counted_again,
        LOSS,
    ),
    "an epoch measured twice": ("trips", JourneyStream, "_emptied", counted_again, LOSS),
    "an epoch at twice its budget": ("trips", Setting, "measured", twice_the_budget, LOSS),
    "every journey of a person": ("trips", step, "within", unbounded, LOSS),
    "a digit of the number of journeys": (
        "trips",
        JourneyStream,
        "measure",
        released(exact_clock),
        PUBLIC,
    ),
    "a digit of the ends of a step": (
        "trips",
        JourneyStream,
        "measure",
        released(exact_watch),
        PUBLIC,
    ),
    "a watch under the whole budget": ("trips", JourneyStream, "measure", watched_under_all, LOSS),
    "exact comparisons": (
        "snapshots",
        Comparing,
        "positive",
        exact_comparison,
        "depends on released|public",
    ),
    "a bit of the distance in the threshold": ("snapshots", DSAT, "decide", loud_threshold, PUBLIC),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_fault_is_caught(name):
    base, owner, method, make, promise = MUTANTS[name]
    mechanism, batches = SOUND[base]
    fields = {field.name: getattr(mechanism, field.name) for field in dataclasses.fields(mechanism)}
    with replaced(owner, method, make):
        fresh = type(mechanism)(**fields)  # without what is cached
        with pytest.raises((AssertionError, NoiseReused), match=promise):
            check_mechanism(fresh, batches)
