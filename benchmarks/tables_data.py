"""Tables that no published method was tuned on, as streams of 100 steps.

The six tables of data/tables, with bins that a curator would write down without looking: round
numbers, and a missing value as a value of its own. Long lists (airlines, species, destinations) are
the most frequent values of the data, as in the paper's evictions. `blocks` is generated: 44 columns
in eleven groups of four, strong ties inside a group and weak ones between neighbours.

Each table comes in random order and in its natural one: by year or day; voters, who have none,
sorted by age; blocks drift. A fifth of the rows is held out for the classifier.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import narwhals as nw
import numpy as np
import polars as pl

from runner import data
from tailrace import Categorical, Integer, Real, Schema

STEPS, HELD_OUT = 100, 5
NAMES = ("nass_cds", "gss_wages", "tv16", "flights", "birds", "nlswork")
ORDERS = ("random", "natural")
YEARS = [1974, 1980, 1985, 1990, 1995, 2000, 2005, 2010, 2019]


@dataclass(frozen=True, eq=False)
class Whole:
    """All rows of a table.

    natural: the columns that say when a row came.
    label: a column, and the numbers of its values that a classifier has to find.
    unfair: columns that would tell the label.
    """

    domain: Schema
    digits: np.ndarray  # (rows, columns) the numbers of the values
    natural: np.ndarray  # (rows,) ascending in natural order
    label: str
    positive: tuple[int, ...]
    unfair: tuple[str, ...] = ()


@functools.lru_cache(maxsize=2)
def whole(name: str) -> Whole:
    """One of `NAMES`, or the generated `blocks`."""
    if name == "blocks":
        return blocks()
    frame = pl.read_parquet(data("tables", f"{name}.parquet"))
    domain, order, *label = READ[name](frame)
    digits = domain.digits(nw.from_native(frame.select(domain.columns), eager_only=True))
    natural = frame.select(pl.struct(*order).rank("dense")).to_series().to_numpy()
    return Whole(domain, digits, natural.astype(np.int64), *label)


@dataclass(frozen=True, eq=False)
class Steps:
    """Rows in the order in which they come, cut into steps, and some held out."""

    domain: Schema
    digits: np.ndarray  # (rows, columns)
    cuts: np.ndarray  # (steps + 1,) where each step's rows begin, and the end
    held_out: np.ndarray  # (rows, columns)

    def __len__(self) -> int:
        return len(self.cuts) - 1

    def batch(self, step: int) -> slice:
        """The rows of a step; the first is step 1."""
        return slice(int(self.cuts[step - 1]), int(self.cuts[step]))


@functools.lru_cache(maxsize=4)
def stream(name: str, order: str, seed: int) -> Steps:
    """A stream of 100 equal steps.

    `seed` shuffles; in natural order it shuffles the rows of one day or year only.
    """
    table = whole(name)
    shuffled = np.random.default_rng(seed).permutation(len(table.digits))
    shuffled, held_out = np.split(shuffled, [len(shuffled) * (HELD_OUT - 1) // HELD_OUT])
    if order == "natural":
        shuffled = shuffled[np.argsort(table.natural[shuffled], kind="stable")]
    cuts = np.linspace(0, len(shuffled), STEPS + 1).astype(np.int64)
    return Steps(table.domain, table.digits[shuffled], cuts, table.digits[held_out])


def often(frame: pl.DataFrame, column: str, many: int) -> Categorical:
    """The most frequent values of a long list; the others are one."""
    counted = frame[column].drop_nulls().value_counts(sort=True)
    top = counted.sort("count", column, descending=[True, False]).head(many)
    return Categorical(sorted(top[column].to_list()), outside="other")


def each(frame: pl.DataFrame, *columns: str) -> dict[str, Categorical]:
    """Columns of few values; a missing one is a value of its own."""
    return {
        column: Categorical(
            sorted(frame[column].drop_nulls().unique().to_list()),
            outside="other" if frame[column].null_count() else "drop",
        )
        for column in columns
    }


def some(*columns: str, high: int, low: int = 0) -> dict[str, Integer]:
    """Columns of small whole numbers, some missing."""
    return {column: Integer(low, high, outside="other") for column in columns}


def cut(*edges: float, clip: bool = True) -> Real:
    """A number in bins; clipped where none is missing."""
    return Real(edges=edges, outside="clip" if clip else "other")


AGES = (15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 80, 100)


def nass_cds(frame: pl.DataFrame) -> tuple:
    domain = Schema(
        **each(frame, "dvcat", "dead", "airbag", "seatbelt", "frontal", "sex"),
        ageOFocc=cut(*AGES),
        yearacc=Integer(1997, 2002),
        yearVeh=cut(1950, 1980, 1985, 1988, 1990, 1992, 1994, 1996, 1998, 2000, 2004, clip=False),
        **each(frame, "abcat", "occRole", "deploy"),
        injSeverity=Integer(0, 6, outside="other"),
    )
    # Value 1 of `dead` is "dead"; the severity of injuries has a value for it.
    return domain, ["yearacc"], "dead", (1,), ("injSeverity",)


def gss_wages(frame: pl.DataFrame) -> tuple:
    income = (0, 2500, 5000, 10_000, 15_000, 20_000, 30_000, 40_000, 60_000, 100_000, 500_000)
    domain = Schema(
        year=cut(*YEARS),
        realrinc=cut(*income, clip=False),
        age=cut(*AGES, clip=False),
        **each(frame, "occrecode"),
        prestg10=cut(0, 20, 25, 30, 35, 40, 45, 50, 55, 60, 70, 100, clip=False),
        childs=Integer(0, 8, outside="other"),
        **each(frame, "wrkstat", "gender", "educcat", "maritalcat"),
    )
    # A bachelor's degree or more: the first two values.
    return domain, ["year"], "educcat", (0, 1)


def tv16(frame: pl.DataFrame) -> tuple:
    few = some("votetrump", "bornagain", high=1)
    one_to = {
        name: high
        for names, high in (
            ("famincr", 12),
            ("ideo angryracism whiteadv fearraces racerare", 5),
            ("pid7na prayerfreq", 7),
            ("churchatd", 6),
            ("religimp", 4),
        )
        for name in names.split()
    }
    several = {name: Integer(1, high, outside="other") for name, high in one_to.items()}
    index = (-2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2)
    domain = Schema(
        **each(frame, "state"),
        age=cut(*AGES),
        **each(frame, "female", "collegeed", "racef"),
        **few,
        **several,
        **{name: cut(*index, clip=False) for name in ("lrelig", "lcograc", "lemprac")},
    )
    return domain, ["age"], "votetrump", (1,)


def flights(frame: pl.DataFrame) -> tuple:
    late = (-100, -20, -10, -5, 0, 5, 15, 30, 60, 120, 2000)
    domain = Schema(
        month=Integer(1, 12),
        day=Integer(1, 31),
        hour=cut(0, *range(6, 24)),
        dep_delay=cut(*late, clip=False),
        arr_delay=cut(*late, clip=False),
        **each(frame, "carrier", "origin", "dest"),
        air_time=cut(0, 45, 60, 90, 120, 150, 180, 240, 300, 360, 800, clip=False),
        distance=cut(0, 200, 300, 500, 750, 1000, 1250, 1500, 2000, 2500, 5000),
    )
    # 15 minutes late or more, before the flight has left.
    return domain, ["month", "day"], "arr_delay", (6, 7, 8, 9), ("dep_delay", "air_time")


def birds(frame: pl.DataFrame) -> tuple:
    domain = Schema(
        operator=often(frame, "operator", 20),
        atype=often(frame, "atype", 30),
        **each(frame, "phase_of_flt"),
        **some("ac_mass", high=5, low=1),
        **some("num_engs", high=4, low=1),
        **each(frame, "time_of_day"),
        state=often(frame, "state", 50),
        height=cut(0, 1, 50, 100, 500, 1000, 2000, 5000, 50_000, clip=False),
        speed=cut(0, 50, 100, 120, 140, 160, 200, 250, 500, clip=False),
        **each(frame, "effect", "sky"),
        species=often(frame, "species", 30),
        birds_seen=Categorical(["2-10", "11-100"], outside="other"),
        **each(frame, "birds_struck"),
    )
    day = pl.col("date").str.to_datetime("%m/%d/%Y %H:%M:%S")
    # Any effect on the flight.
    return domain, [day], "effect", (0, 1, 2, 3)


def nlswork(_: pl.DataFrame) -> tuple:
    yes_or_no = ("msp", "nev_mar", "collgrad", "not_smsa", "c_city", "south", "union")
    domain = Schema(
        year=Integer(68, 88, outside="other"),
        birth_yr=Integer(41, 54),
        age=cut(14, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 47, clip=False),
        race=Integer(1, 3),
        **some(*yes_or_no, high=1),
        grade=Integer(0, 18, outside="other"),
        ind_code=Integer(1, 12, outside="other"),
        occ_code=Integer(1, 13, outside="other"),
        wks_ue=cut(0, 1, 5, 10, 20, 40, 80, clip=False),
        ttl_exp=cut(0, 1, 2, 3, 4, 6, 8, 10, 12, 15, 30),
        tenure=cut(0, 0.25, 0.5, 1, 2, 3, 5, 8, 12, 30, clip=False),
        hours=cut(0, 10, 20, 30, 35, 40, 41, 45, 50, 170, clip=False),
        wks_work=cut(0, 10, 20, 30, 40, 50, 53, 80, 110, clip=False),
        ln_wage=cut(0, 1, 1.2, 1.4, 1.6, 1.8, 2, 2.2, 2.5, 3, 6),
    )
    return domain, ["year"], "union", (1,)


READ: dict[str, Callable[[pl.DataFrame], tuple]] = {
    one.__name__: one for one in (nass_cds, gss_wages, tv16, flights, birds, nlswork)
}


def blocks(rows: int = 40_000, groups: int = 11) -> Whole:
    """44 columns of 2 to 12 values in groups of four; the classes' shares drift.

    A hidden class of a group follows that of the group before; a column shows it with errors.
    """
    rng = np.random.default_rng(44)
    sizes = rng.integers(2, 13, 4 * groups)
    came = np.arange(rows)
    hidden = (rng.random(rows) * (2 + 2 * came / rows)).astype(np.int64)
    columns = []
    for group in range(groups):
        hidden = np.where(rng.random(rows) < 0.6, hidden, rng.integers(0, 4, rows))
        for size in sizes[4 * group : 4 * group + 4]:
            shown = (hidden * size // 4 + rng.integers(0, max(size // 4, 1), rows)) % size
            columns.append(np.where(rng.random(rows) < 0.75, shown, rng.integers(0, size, rows)))
    digits = np.stack(columns, axis=1).astype(np.int32)
    domain = Schema(**{f"c{j}": Integer(0, int(size) - 1) for j, size in enumerate(sizes)})
    return Whole(domain, digits, came, "c0", tuple(range(int(sizes[0]) // 2, int(sizes[0]))))
