"""Make the pictures of docs/images: a report of every kind, of generated data.

    python docs/make_images.py            # all of them, with headless Chromium
    python docs/make_images.py --pages p  # only the pages, into the folder p

Nobody is in the data. Noise is fresh, so pictures differ a little each time.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import shapely

import tailrace as tr
from tailrace.report import demo
from tailrace.report.page import anchor, stream_report

IMAGES = Path(__file__).with_name("images")
Frames = Iterator[tuple[pl.DataFrame, pl.DataFrame | None]]
# Where the generated city lies, in degrees: 12 km by 9 km.
WEST, SOUTH, KM = 10.60, 59.88, (1 / 55.8, 1 / 111.3)


def degrees(points: np.ndarray) -> np.ndarray:
    """Kilometres of the generated city as longitudes and latitudes."""
    return points * KM + (WEST, SOUTH)


def banks() -> tr.Region:
    """The generated city without its river."""
    east = np.linspace(-1, 13, 200)
    river = shapely.LineString(np.stack([east, 4.5 + 1.2 * np.sin(east * 0.6)], axis=1))
    land = shapely.box(0, 0, 12, 9).difference(river.buffer(0.17))
    # 512 cells: about 25 metres.
    return tr.Region(shapely.transform(land, degrees), columns=("lon", "lat"), cells=512)


def places() -> tuple[tr.SpatialStream, tr.Calendar, Frames]:
    """Homes of a city that grows for sixty days."""
    made = tr.SpatialStream(
        domain=banks(), privacy=tr.PureDP(epsilon=1), unit=tr.Event(), horizon=demo.DAYS
    )

    def frame(points: np.ndarray) -> pl.DataFrame:
        lon, lat = degrees(points).T
        return pl.DataFrame({"lon": lon, "lat": lat})

    days = ((frame(day.came), frame(day.left)) for day in demo.days())
    return made, tr.Calendar(start="2026-03-01", period="1 day"), days


def table() -> tuple[tr.TabularStream, tr.Calendar, Frames]:
    """Patients of a hospital, month by month."""
    wards = ["surgery", "medicine", "children", "maternity", "emergency"]
    severities = ["mild", "moderate", "severe", "critical"]
    arrivals = ["referred", "ambulance", "walked in"]
    columns = tr.Schema(
        age=tr.Integer(0, 99),
        sex=tr.Categorical(["female", "male"]),
        ward=tr.Categorical(wards),
        severity=tr.Categorical(severities),
        stay=tr.Real(edges=[0, 1, 2, 4, 8, 16, 32]),
        arrival=tr.Categorical(arrivals),
    )
    made = tr.TabularStream(
        domain=columns, privacy=tr.PureDP(epsilon=1), unit=tr.Event(), horizon=24
    )

    def months() -> Frames:
        rng = np.random.default_rng(1)
        for month in range(24):
            many = 1800 + int(300 * np.sin(month / 3.8))
            ward = rng.choice(5, many, p=[0.22, 0.3, 0.14, 0.1, 0.24])
            centre, width = np.array([[52, 18], [66, 16], [7, 5], [31, 5], [45, 22]])[ward].T
            age = np.clip(rng.normal(centre, width), 0, 99).astype(int)
            female = rng.random(many) < np.where(ward == 3, 0.99, 0.49)
            sick = rng.random(many) * 2 + (ward == 4) + age / 60
            severity = np.searchsorted([1.2, 2.3, 3.3], sick)
            arrival = np.where(
                ward == 4,
                rng.choice([1, 2], many, p=[0.4 + month / 80, 0.6 - month / 80]),
                rng.choice(3, many, p=[0.8, 0.1, 0.1]),
            )
            stay = np.clip(rng.gamma(1.2, 1.2 + 2.0 * severity), 0, 31.9)
            yield (
                pl.DataFrame(
                    {
                        "age": age,
                        "sex": np.where(female, "female", "male"),
                        "ward": np.array(wards)[ward],
                        "severity": np.array(severities)[severity],
                        "stay": stay,
                        "arrival": np.array(arrivals)[arrival],
                    }
                ),
                None,
            )

    return made, tr.Calendar(start="2025-01-01", period="1 month"), months()


def panel() -> tuple[tr.PanelWindow, tr.Calendar, Frames]:
    """Ten thousand people and their work, month by month."""
    work = ["employed", "unemployed", "inactive"]
    made = tr.PanelWindow(
        domain=tr.Schema(work=tr.Categorical(work)),
        window=3,
        privacy=tr.ZCDP(rho=0.02),
        unit=tr.User(column="id"),
        neighbours=tr.AddRemove,
        horizon=24,
    )

    def months() -> Frames:
        rng, people = np.random.default_rng(2), 10_000
        now = rng.choice(3, people, p=[0.7, 0.06, 0.24])
        for month in range(24):
            lost = 0.015 + 0.03 * np.exp(-(((month - 10) / 3) ** 2))
            moves = np.array([[1 - lost - 0.01, lost, 0.01], [0.2, 0.75, 0.05], [0.02, 0.03, 0.95]])
            now = (rng.random(people)[:, None] > moves[now].cumsum(axis=1)).sum(axis=1)
            here = rng.random(people) < 0.97
            yield (
                pl.DataFrame({"id": np.arange(people), "work": np.array(work)[now]}).filter(here),
                None,
            )

    return made, tr.Calendar(start="2024-07-01", period="1 month"), months()


def snapshots() -> tuple[tr.SnapshotHistogram, tr.Calendar, Frames]:
    """Guests of a resort by nation and age, week by week."""
    nations = ["local", "north", "south", "east", "west", "overseas"]
    made = tr.SnapshotHistogram(
        domain=tr.Schema(guest=tr.Categorical(nations), age=tr.Integer(0, 89)),
        privacy=tr.PureDP(epsilon=2),
        unit=tr.User(column="id", records=1),
        horizon=52,
    )

    def weeks() -> Frames:
        rng = np.random.default_rng(3)
        for week in range(52):
            summer, winter = (
                np.exp(-(((week - when) / wide) ** 2)) for when, wide in ((29, 6), (5, 4))
            )
            sizes = np.array(
                [
                    1500,
                    900 + 2600 * summer,
                    500 + 900 * winter,
                    300 + 500 * summer,
                    700 + 1800 * winter,
                    100 + 700 * summer,
                ]
            ).astype(int)
            guest = np.repeat(np.arange(6), sizes)
            age = np.clip(rng.normal(38 + 14 * winter - 8 * summer, 17, len(guest)), 0, 89).astype(
                int
            )
            yield (
                pl.DataFrame(
                    {"id": np.arange(len(guest)), "guest": np.array(nations)[guest], "age": age}
                ),
                None,
            )

    return made, tr.Calendar(start="2026-01-05", period="1 week"), weeks()


def histogram() -> tuple[tr.HistogramStream, tr.Calendar, Frames]:
    """Calls to an ambulance by reason and hour, day by day."""
    reasons = ["fall", "chest pain", "breathing", "accident", "unconscious", "other"]
    made = tr.HistogramStream(
        domain=tr.Schema(reason=tr.Categorical(reasons), hour=tr.Integer(0, 23)),
        privacy=tr.PureDP(epsilon=1),
        unit=tr.Event(),
        horizon=30,
    )

    def days() -> Frames:
        rng = np.random.default_rng(4)
        for day in range(30):
            many = int(rng.poisson(420 + 60 * np.sin(day * 2 * np.pi / 7)))
            reason = rng.choice(6, many, p=[0.27, 0.17, 0.16, 0.12, 0.06, 0.22])
            late = rng.random(many) < np.where(reason == 3, 0.7, 0.45)
            hour = (rng.normal(np.where(late, 19, 10), 3.2) % 24).astype(int)
            yield pl.DataFrame({"reason": np.array(reasons)[reason], "hour": hour}), None

    return made, tr.Calendar(start="2026-05-01", period="1 day"), days()


def journeys() -> tuple[tr.Trajectories, None, Frames]:
    """Trips along the streets of a generated town, with times of day."""
    streets = [[(i, 0), (i, 8)] for i in range(13)] + [[(0, i), (12, i)] for i in range(9)]
    streets += [[(0, 0), (8, 8)], [(4, 8), (12, 0)]]
    # Streets meet where they cross.
    town = shapely.transform(shapely.unary_union(shapely.MultiLineString(streets)), degrees)
    made = tr.Trajectories(
        domain=tr.Roads(town, columns=("lon", "lat"), cells=256),
        privacy=tr.PureDP(epsilon=2),
        unit=tr.Event(),
        trajectory="trip",
        order="time",
        timing=tr.trajectories.DayClock(start="2026-05-04", end="2026-05-05"),
    )

    def once() -> Frames:
        rng, trips, points = np.random.default_rng(5), 12_000, 60
        late = rng.random(trips) < 0.5
        begin = np.clip(rng.normal(np.where(late, 17.2, 8.1), 1.6), 0, 23) * 3600
        homes = np.rint(rng.normal((3, 3), 2.2, (trips, 2)))
        work = np.rint(rng.normal((8.5, 5.0), 1.3, (trips, 2)))
        start, end = (
            np.where(late[:, None], a, b).clip((0, 0), (12, 8))
            for a, b in ((work, homes), (homes, work))
        )
        corner = np.where(
            rng.random((trips, 1)) < 0.5,
            np.stack([start[:, 0], end[:, 1]], 1),
            np.stack([end[:, 0], start[:, 1]], 1),
        )
        first = np.linspace(0, 2, points)[None, :, None]
        way = np.where(
            first < 1,
            start[:, None] + (corner - start)[:, None] * first,
            corner[:, None] + (end - corner)[:, None] * (first - 1),
        )
        lon, lat = degrees(way.reshape(-1, 2)).T
        time = (
            np.datetime64("2026-05-04", "s")
            + (begin[:, None] + 18 * np.arange(points)).astype(int).ravel()
        )
        time = time.astype("datetime64[ms]")
        yield (
            pl.DataFrame(
                {"trip": np.repeat(np.arange(trips), points), "time": time, "lon": lon, "lat": lat}
            ),
            None,
        )

    return made, None, once()


KINDS: dict[str, tuple[str, Callable]] = {
    "places": ("city", places),
    "table": ("hospital", table),
    "panel": ("work", panel),
    "snapshots": ("resort", snapshots),
    "histogram": ("ambulance", histogram),
    "journeys": ("trips", journeys),
}


def stream_of(kind: str, folder: Path) -> tr.Stream:
    """Release a generated stream of a kind."""
    name, make = KINDS[kind]
    mechanism, calendar, frames = make()
    stream = tr.Stream.create(
        folder / f"{name}.tail", mechanism, population="nobody", calendar=calendar
    )
    for adds, deletes in frames:
        stream.push(adds, deletes=deletes)
    return stream


@dataclass(frozen=True)
class Shot:
    """A picture of a page: its title, and what follows a heading."""

    name: str
    kind: str
    heading: str
    width: int = 1100
    height: int = 900
    dark: bool = False


SHOTS = (
    Shot("places", "places", "Step by step", 900, 1070),
    Shot("places-dark", "places", "Step by step", 900, 1070, dark=True),
    Shot("table", "table", "Column by column"),
    Shot("table-phone", "table", "Column by column", 400),
    Shot("panel", "panel", "Over time"),
    Shot("snapshots", "snapshots", "Histograms over time"),
    Shot("histogram", "histogram", "The largest cells"),
    Shot("journeys", "journeys", "On the map", 900, 940),
)


def shoot(page: Path, shot: Shot) -> None:
    """Take a picture of a page."""
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        raise SystemExit("Pictures need Chromium: install it, or make the pages with --pages.")
    # Sections before the heading are left out, and some journeys: a picture stays small.
    hidden = f"<style>section:has(~ #{anchor(shot.heading)}) {{ display: none; }}</style>"
    fewer = (
        '<script>{ const many = document.getElementById("many"); if (many) { many.value = 120; '
        'many.dispatchEvent(new Event("input")); } }</script>'
    )
    text = page.read_text(encoding="utf-8").replace("</head>", f"{hidden}</head>")
    shown = page.with_suffix(".shown.html")
    shown.write_text(text.replace("</body>", f"{fewer}</body>"), encoding="utf-8")
    scheme = 0 if shot.dark else 1
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    options += [f"--blink-settings=preferredColorScheme={scheme}", "--virtual-time-budget=3000"]
    to = IMAGES / f"{shot.name}.png"
    options += [f"--window-size={shot.width},{shot.height}", f"--screenshot={to}"]
    done = [program, *options, shown.as_uri()]
    subprocess.run(done, check=True, capture_output=True, timeout=120)


def main() -> None:
    """Release, report and take the pictures."""
    asked = argparse.ArgumentParser(description="Make the pictures of docs/images.")
    asked.add_argument("--pages", type=Path, help="a folder for the pages, without pictures")
    asked.add_argument("--only", choices=KINDS, help="one kind")
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pages = given.pages or Path(folder)
        pages.mkdir(parents=True, exist_ok=True)
        for kind in [given.only] if given.only else KINDS:
            home = Path(folder) / f"{kind}-stream"
            home.mkdir()
            with stream_of(kind, home) as stream:
                entries = tr.Ledger(home / "tailrace.ledger").entries()
                page = pages / f"{kind}.html"
                page.write_text(stream_report(stream, entries), encoding="utf-8")
            for shot in SHOTS if given.pages is None else ():
                if shot.kind == kind:
                    shoot(page, shot)
            print(f"{kind}: done")


if __name__ == "__main__":
    main()
