"""A newcomer's walks: own data to a public page, without editing stream.toml.

Real data as people have them (a CSV of evictions with American dates, a table in pandas, a long
panel, points of journeys, a table of a database); every command as it would be typed, in a process
of its own, and the seconds that each takes. Typing and reading are not in it.
"""

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import polars as pl

from runner import data, main, measurement

PANDAS = """
import pandas as pd, tailrace as tr
records = pd.read_parquet("adult.parquet")
def category(name): return tr.Categorical(sorted(records[name].dropna().unique()), outside="other")
columns = {name: category(name) for name in ("sex", "education", "marital_status", "income")}
schema = tr.Schema(age=tr.Integer(17, 90, outside="clip"), **columns)
mechanism = tr.TabularStream(
    domain=schema, privacy=tr.ApproxDP(epsilon=1, delta=1e-9), unit=tr.Event(), horizon=52
)
with tr.Stream.create("adult.tail", mechanism, population="adults") as stream:
    for week in range(12):
        release = stream.push(records.iloc[2000 * week : 2000 * (week + 1)])
    release.plot().save("adult.svg")
"""


def tailrace(folder: Path, *words: str) -> float:
    """Seconds that a command takes."""
    begun = time.perf_counter()
    program = Path(sys.executable).with_name("tailrace")
    subprocess.run([program, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def flags(**given: str) -> list[str]:
    return [word for name, one in given.items() for word in (f"--{name}", one)]


def evictions() -> pl.DataFrame:
    rows = pl.read_parquet(data("sf_evictions", "evictions.parquet"))
    return rows.filter(pl.col("file_date").dt.year() >= 2014).select(
        "eviction_id", pl.col("file_date").dt.strftime("%m/%d/%Y"), "lat", "lon", "reason"
    )


def calls(folder: Path) -> list[str]:
    evictions().write_csv(folder / "calls.csv")
    return flags(
        kind="places", like="calls.csv", time="file_date", format="%m/%d/%Y", start="2014-01-01",
        period="1 week", timezone="America/Los_Angeles", unit="event", place="lon lat",
        area="-122.52 37.70 -122.35 37.83", horizon="104", folder=".",
    )  # fmt: skip


def panel(folder: Path) -> list[str]:
    wide = pl.read_parquet(data("panels", "mvad_jobless.parquet"))
    month = pl.col("month").str.slice(1).cast(pl.Int64) - 1
    day = pl.date(1993, 7, 1).dt.offset_by(month.cast(pl.String) + "mo")
    long = wide.unpivot(index="id", variable_name="month", value_name="jobless")
    long.with_columns(month=day.dt.strftime("%Y-%m-%d")).write_csv(folder / "panel.csv")
    return flags(
        kind="panel", like="panel.csv", time="month", start="1993-07-01", period="1 month",
        timezone="UTC", unit="user id", window="3", column="jobless=category 0 1", delta="1e-6",
        horizon="72", folder=".",
    )  # fmt: skip


def journeys(folder: Path) -> list[str]:
    points = pl.read_parquet(data("geolife", "points.parquet")).head(400_000)
    points.select("user", "traj", "ts", lat=pl.col("lat_e5") / 1e5, lon=pl.col("lon_e5") / 1e5
    ).write_csv(folder / "points.csv")  # fmt: skip
    return flags(
        kind="journeys", like="points.csv", unit="journey", trajectory="traj", order="ts",
        place="lon lat", area="116.2 39.8 116.6 40.05", folder=".",
    )  # fmt: skip


def database(folder: Path) -> list[str]:
    """PostgreSQL's where TAILRACE_POSTGRES holds its url, else SQLite's."""
    rows = evictions().with_columns(pl.col("file_date").str.to_date("%m/%d/%Y"))
    url = os.environ.get("TAILRACE_POSTGRES", "sqlite:///calls.db")
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(folder / "calls.db")) as kept:
            kept.execute("create table calls (file_date text, reason text)")
            texts = rows.select(pl.col("file_date").cast(pl.String), "reason").rows()
            kept.executemany("insert into calls values (?, ?)", texts)
            kept.commit()
    else:
        import psycopg

        with psycopg.connect(url) as kept:
            kept.execute("drop table if exists calls")
            kept.execute("create table calls (file_date date, reason text)")
            with kept.cursor() as cursor:
                cursor.executemany(
                    "insert into calls values (%s, %s)", rows.select("file_date", "reason").rows()
                )
    reasons = " ".join(f"'{one}'" for one in sorted(rows["reason"].unique()))
    return flags(
        kind="histogram", database=url, table="calls", time="file_date", start="2014-01-01",
        period="1 week", timezone="UTC", unit="event", column=f"reason=category {reasons}",
        horizon="104",
    )  # fmt: skip


WALKS = {"calls on a map": calls, "panel": panel, "journeys": journeys, "database": database}


@measurement(
    "newcomers",
    keys="walk",
    columns="init s .1f | check s .1f | run s .1f | report s .1f | all s .1f | under 5 minutes ?",
    cases=[(walk,) for walk in (*WALKS, "table in pandas")],
    goal="own data to a public page in 5 minutes",
)
def walks(walk: str) -> Iterator[list[object]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if walk == "table in pandas":
            shared = data("adult", "adult_raw.parquet")
            (folder / "adult.parquet").write_bytes(shared.read_bytes())
            begun = time.perf_counter()
            subprocess.run([sys.executable, "-c", PANDAS], cwd=folder, check=True)
            seconds = [None, None, time.perf_counter() - begun]
            seconds.append(tailrace(folder, "report", "adult.tail"))
        else:
            common = flags(population="people", path="walk.tail", epsilon="1")
            seconds = [tailrace(folder, "init", *WALKS[walk](folder), *common)]
            seconds += [tailrace(folder, one, "stream.toml") for one in ("check", "run", "report")]
        every = sum(one or 0 for one in seconds)
        yield [walk, *("" if one is None else one for one in seconds), every, every < 300]


if __name__ == "__main__":
    main(__doc__)
