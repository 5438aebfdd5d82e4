"""The page of trajectories: lines over roads or borders.

Without the true journeys it shows releases only. With them it is the curator's: it shows them
beside, measures how far the two are from each other, and says PRIVATE wherever it is read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import polars as pl

from tailrace.domain import Codes
from tailrace.domain.geometry import Region, Roads
from tailrace.errors import ConfigError
from tailrace.mechanisms.trajectories.view import TrajectoriesView
from tailrace.metrics import Tracks, small_rectangles, trajectory_error
from tailrace.papers.privtree_trajectories.mechanism import PrivTreeTrajectoriesView
from tailrace.report import page
from tailrace.report.chart import Line, column_chart
from tailrace.report.maps import Ground, Lines, Sheet, begin, is_flat, lines, maps
from tailrace.report.page import Page, note, page_of, table
from tailrace.stream.log import History
from tailrace.stream.stream import Stream

JOURNEYS = 1_000  # drawn on a map at most
POINTS = 150_000  # of all of them together at most: a page of about a megabyte
_MEASURES = {
    "ends_jsd": "Pairs of first and last cell, of 1,600 (SE_JSD)",
    "ends_are": "the same as a relative error (SE_ARE)",
    "patterns_jsd": "The 200 patterns of 2 to 5 cells that occur most (FP_JSD)",
    "patterns_are": "the same as a relative error (FP_ARE)",
    "moves_jsd": "Patterns with repeated cells taken once (moves, JSD)",
    "moves_are": "the same as a relative error (moves, ARE)",
    "queries": "Journeys through 500 small rectangles, relative error (QE)",
    "paths": "the same with the lines between points (QE_path)",
    "trip": "Pairs of first and last cell, of 36 (trip error)",
    "diameter": "How far apart the points of a journey are (diameter error)",
    "length": "How long journeys are (length error)",
    "places": "Which of 36 cells most journeys visit (Kendall's tau)",
}
_SCALES = (
    "0 is best, but for the tau, where 1 is. The last column compares two halves of the true "
    "journeys with each other."
)


@dataclass(frozen=True, eq=False)
class Timed:
    """Journeys, and the hour of the day at which each begins."""

    tracks: Tracks
    hours: np.ndarray | None  # (journeys,) from 0 to 23; None where their order is no time


@page_of.register(TrajectoriesView)
@page_of.register(PrivTreeTrajectoriesView)
def _(view: object, stream: Stream, truth: History | None = None) -> Page:
    made, history = stream.mechanism, stream.history()
    true = None if truth is None else timed(truth, stream)
    if isinstance(view, TrajectoriesView) and not view.enough and true is None:
        # An empty map would say that there are none.
        found = Page(title="synthetic journeys", sections=[("By area", _ends(view))])
    else:
        found = journeys_page(made.domain, timed(history, stream), true)
    if isinstance(view, TrajectoriesView) and view.signal is not None:
        seen = ("What was seen", note(view.advice))
        found = replace(found, sections=[seen, *found.sections])
    if stream.step == 1:
        return found
    over = ("Over time", _number(stream, history, truth))
    return replace(found, sections=[*found.sections, over])


def journeys_page(domain: Codes, synthetic: Timed, truth: Timed | None = None) -> Page:
    """Show journeys in two dimensions; with `truth` the curator's page."""
    if not is_flat(domain):
        raise ConfigError("The report of journeys is a map: it needs points in two dimensions.")
    ground, both = cast("Ground", domain), {"synthetic": synthetic}
    if truth is not None:
        both["true: PRIVATE"] = truth
    sections = [("On the map", _maps(both, ground)), ("By area", _areas(both, ground))]
    if all(one.hours is not None for one in both.values()):
        sections.append(("By hour of the day", _hours(both)))
    if truth is not None:
        errors = _errors(truth.tracks, synthetic.tracks, ground)
        sections.append(("How far they are from the true ones", errors))
    return Page(title="synthetic journeys", sections=sections, private=truth is not None)


def timed(history: History, stream: Stream) -> Timed:
    """Read the journeys of the last step, without incomplete rows."""
    made: Any = stream.mechanism
    names = ["\0id", made.order, *made.domain.columns]
    frame = _named(history, made).filter(
        (history.born <= stream.step) & (stream.step < history.gone)
    )
    place = pl.col(names[2:]).cast(pl.Float64)
    rows = (
        frame[names].drop_nulls().with_columns(place).filter(pl.all_horizontal(place.is_finite()))
    )
    trajectory, order, x, y = (one.to_numpy() for one in rows.get_columns())
    _, codes = np.unique(trajectory, return_inverse=True)
    return Timed(Tracks.of_rows(codes, order, x, y), _begun(rows, codes, made))


def _named(history: History, made: Any) -> pl.DataFrame:
    """All rows, with a number for each journey: rows of one id at two steps are two."""
    frame = pl.DataFrame(history.columns).with_columns(pl.Series("\0step", history.born))
    return frame.with_columns(pl.struct("\0step", made.trajectory).rank("dense").alias("\0id"))


def _number(stream: Stream, history: History, truth: History | None) -> str:
    """Draw how many journeys there are at each step."""
    steps, drawn = page.steps_of(stream), []
    for name, found in (("synthetic", history), ("true", truth)):
        if found is not None:
            _, first = np.unique(_named(found, stream.mechanism)["\0id"], return_index=True)
            one = History({}, found.born[first], found.gone[first])
            drawn.append(Line(name, steps, one.rows_at(steps), dashed=name == "true"))
    words = "The number of synthetic journeys at each step, itself a noisy count."
    return page.lines(stream, drawn, "Journeys", "journeys", words)


def _begun(rows: pl.DataFrame, codes: np.ndarray, made: Any) -> np.ndarray | None:
    """The hour of each journey's first point, where the order has times of day."""
    order: pl.Series = rows[made.order]
    clock: Any = getattr(made, "timing", None)
    if order.dtype == pl.String:
        order = order.str.to_datetime(strict=False)
    timed = isinstance(order.dtype, pl.Datetime) and not order.null_count()
    # Numbers are times of a day where the clock of the stream has numbers.
    counted = order.dtype.is_numeric() and not isinstance(getattr(clock, "start", ""), str)
    if not timed and not counted:
        return None
    first = rows.select(pl.Series("\0code", codes), order.alias("\0time"))
    begins = first.group_by("\0code").agg(pl.col("\0time").min()).sort("\0code")["\0time"]
    if timed:
        return begins.dt.hour().to_numpy()
    part = (begins.to_numpy() - clock.start) / (clock.end - clock.start)
    return (np.nan_to_num(part % 1) * 24).astype(np.int64).clip(0, 23)


def some(tracks: Tracks) -> np.ndarray:
    """Choose journeys to draw, always the same ones."""
    order = np.random.default_rng(0).permutation(len(tracks))[:JOURNEYS]
    total = np.cumsum(np.diff(tracks.offsets)[order])
    return order[: max(1, int((total <= POINTS).sum()))]


def drawn(tracks: Tracks, sheet: Sheet) -> Lines:
    """Write journeys as lines of a map.

    `owners` says whose each line is. A journey that leaves the map goes on as another line.

    >>> from tailrace import Box
    >>> sheet = Sheet.of(Box(low=(0, 0), high=(1, 1), columns=("x", "y")))
    >>> drawn(Tracks([0, 4], [0.0, 0.5, 7.0, 1.0], [0.0, 0.5, 7.0, 1.0]), sheet)["sizes"]
    [2, 1]
    """
    points = np.stack([tracks.x, tracks.y], axis=1)[:, sheet.axes]
    inside = ((points >= sheet.low) & (points <= sheet.high)).all(axis=1)
    owner = np.repeat(np.arange(len(tracks)), np.diff(tracks.offsets))
    # Another number after every point outside, and for every owner.
    line = owner + np.cumsum(~inside)
    placed, owner, line = sheet.scaled(points[inside]), owner[inside], line[inside]
    begins = begin(line)
    same = np.zeros(len(line), bool)
    same[1:] = (placed[1:] == placed[:-1]).all(axis=1) & ~begins[1:]
    return lines(placed[~same], begins[~same], owner[~same])


def _maps(both: dict[str, Timed], domain: Ground) -> str:
    sheet, layers = Sheet.of(domain), []
    for colour, (title, found) in enumerate(both.items()):
        chosen = some(found.tracks) if len(found.tracks) else np.zeros(0, np.int64)
        layers.append(
            {
                "name": title.partition(":")[0],
                "title": title,
                "colour": colour,
                "drawn": len(chosen),
                "lines": drawn(found.tracks.pick(chosen), sheet),
                "hours": [] if found.hours is None else found.hours[chosen].tolist(),
            }
        )
    most = max(1, *(one["drawn"] for one in layers))
    controls = (
        f'<input id="many" type="range" min="1" max="{most}" value="{most}" aria-label="journeys"> '
        '<output id="many-label" for="many"></output> '
    )
    if all(found.hours is not None for found in both.values()):
        controls += (
            '<input id="hour" type="range" min="-1" max="23" value="-1" aria-label="hour"> '
            '<output id="hour-label" for="hour"></output> '
        )
    controls += '<label><input id="ends" type="checkbox"> ends (ring to square)</label>'
    told = note(f"At most {JOURNEYS:,} are drawn, chosen at random; common ways are stronger.")
    legend = '<span class="c{colour}">&horbar;</span> a journey'
    if isinstance(domain, Roads | Region):
        kind = "road" if isinstance(domain, Roads) else "border"
        legend += f" <span>&horbar;</span> a {kind}"
    drawing = maps("journeys", layers, {}, controls, domain, of="journeys", legend=legend)
    return f"{told}\n{drawing}"


def _areas(both: dict[str, Timed], domain: Ground) -> str:
    """Write how many journeys begin and end in sixteen parts of the map."""
    sheet, parts = Sheet.of(domain), []
    for title, found in both.items():
        tracks = found.tracks
        for name, places in (("begin", tracks.offsets[:-1]), ("end", tracks.offsets[1:] - 1)):
            ends = np.stack([tracks.x[places], tracks.y[places]], axis=1)

            def inside(
                low: np.ndarray, high: np.ndarray, ends: np.ndarray = ends
            ) -> tuple[float, str]:
                many = int(((ends >= low) & (ends < high)).all(axis=1).sum())
                return many, f"{many:,}"

            heading = page.heading(f"{title}: where they {name}")
            parts.append(f"<div>{heading}{sheet.by_area(inside)}</div>")
    words = note(
        "Sixteen parts of the map, as they lie on it, and the journeys that begin and end there."
    )
    return f'{words}<div class="two">{"".join(parts)}</div>'


def _ends(view: TrajectoriesView) -> str:
    """Write the measured ends of journeys in sixteen parts of the map."""

    def found(low: np.ndarray, high: np.ndarray) -> tuple[float, str]:
        number = view.count(low=low.tolist(), high=high.tolist())
        return number.value, page.told(number)

    words = (
        "Journeys that begin or end in sixteen parts of the map (the mean of both), as measured; "
    )
    sheet = Sheet.of(cast("Ground", view.layout.domain))
    return note(f"{words}± is one standard error.") + sheet.by_area(found)


def _hours(both: dict[str, Timed]) -> str:
    """Draw when journeys begin."""
    names = [f"{hour}:00" for hour in range(24)]
    counts = {
        title.partition(":")[0]: np.bincount(found.hours, minlength=24)
        for title, found in both.items()
        if found.hours is not None
    }
    chart = column_chart(
        names, counts, title="Journeys by their first hour", x_label="hour", y_label="journeys"
    )
    rows = [
        (name, *(f"{one[hour]:,}" for one in counts.values())) for hour, name in enumerate(names)
    ]
    caption = "How many journeys begin in each hour of the day."
    return page.figure(chart, caption, table(("hour", *counts), rows))


def _errors(truth: Tracks, synthetic: Tracks, domain: Ground) -> str:
    """Tabulate the measures, beside those of two true halves."""
    rng = np.random.default_rng(0)
    rectangles = small_rectangles(rng, low=domain.low, high=domain.high)
    order, half = rng.permutation(len(truth)), len(truth) // 2

    area = {"low": domain.low, "high": domain.high, "rectangles": rectangles}
    found = trajectory_error(truth, synthetic, **area)
    first, second = truth.pick(order[:half]), truth.pick(order[half : 2 * half])
    halves = trajectory_error(first, second, **area)
    rows = [
        (words, f"{getattr(found, name):.3f}", f"{getattr(halves, name):.3f}")
        for name, words in _MEASURES.items()
    ]
    return f"{note(_SCALES)}\n" + table(("measure", "synthetic", "halves of the true ones"), rows)
