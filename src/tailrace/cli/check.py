"""`tailrace check`, `status --private`: exact numbers for the curator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import typer

from tailrace.cli import say
from tailrace.cli.say import MISSING
from tailrace.config import Config, load
from tailrace.config.opening import open_source, reader, used
from tailrace.domain import attributes_of
from tailrace.domain.geometry import Roads
from tailrace.errors import ConfigError, DataError
from tailrace.privacy.unit import User
from tailrace.sources import Examination, FolderSource, SqlSource, examine
from tailrace.sources.base import now
from tailrace.sources.examine import presence
from tailrace.sources.files import read, told
from tailrace.sources.spark import SparkSource
from tailrace.sources.used import Seen

if TYPE_CHECKING:
    import polars as pl

PRIVATE = "PRIVATE: exact numbers, for the curator only. Do not publish them."


# The share of a file's rows that may be lost without a warning, by reasoning: one in twenty.
_FEW = 0.05
# Steps and values that a warning names at most; it counts the others.
_LISTED = 5


def check_files(file: Path, files: Sequence[Path], *, json: bool, strict: bool) -> None:
    """Examine files one by one, and warn of what is lost or never came."""
    config = load(file)
    frames = _frames(config, files)
    found = {name: _examined(config, name, frame()) for name, frame in frames.items()}
    warned = [
        f"{name}: {sentence}" for name, one in found.items() for sentence in lost(config, one)
    ]
    if frames:
        # Only all files together tell what should have come until now.
        warned += never_came(config, frames.values(), until=None if files else now())
        warned += too_few(config, frames.values())
    if isinstance(config.source, SparkSource):
        warned += config.source.warnings()
    if json:
        say.as_json(
            {
                "private": PRIVATE,
                "files": {name: asdict(one) for name, one in found.items()},
                "warnings": warned,
            }
        )
    else:
        say.tell(PRIVATE)
        for name, examination in found.items():
            _show(config, name, examination)
        say.tell(*(f"Warning: {sentence}" for sentence in warned))
    if strict and warned:
        raise typer.Exit(MISSING)


def _frames(config: Config, files: Sequence[Path]) -> dict[str, Callable[[], pl.DataFrame]]:
    """What reads each of the files; where none is named, all that the source has now."""
    source, paths = config.source, list(files)
    if not paths:
        if isinstance(source, SqlSource):
            table: Any = open_source(config)
            return {f"table '{source.table}'": table.whole}
        if isinstance(source, SparkSource):
            # Spark has the rows; its settings are looked at.
            return {}
        if not isinstance(source, FolderSource):
            raise ConfigError("Name the files to check: this source has none of its own.")
        paths = [file.path for file in source.shelf.found()]
    return {str(path): partial(_frame, config, path) for path in paths}


def examined(config: Config, path: Path) -> Examination:
    """What would become of a file's rows."""
    return _examined(config, str(path), _frame(config, path))


def _examined(config: Config, name: str, frame: pl.DataFrame) -> Examination:
    with told(Path(name)):
        return examine(reader(config), config.calendar, frame)


def _frame(config: Config, path: Path) -> pl.DataFrame:
    how = reader(config)
    return read(path, Seen.at(path).data, how.columns, encoding=how.encoding)


def lost(config: Config, found: Examination) -> list[str]:
    """Say why many rows of a file would be lost, and what to do."""
    reasons = [
        (found.untimed, "have no time that can be read", "say how it is written with format"),
        (
            found.unordered,
            "have no id of their journey, or no order that can be read",
            "say how its times are written with format",
        ),
        (
            found.unnamed,
            "do not say whose they are, and count as those of one person",
            "see whether unit names the right column",
        ),
        (found.early, "lie before the start", "choose an earlier start"),
        (found.unknown_op, "say neither insert nor delete", "mend the column that op names"),
        (found.garbled, "hold letters that are not UTF-8", "save it as UTF-8, or say encoding"),
        (
            found.duplicates,
            "do not count for another row of their id",
            "see whether id names the column that tells rows apart",
        ),
    ]
    dropping = _dropping(config)
    amounts: Any = getattr(config.mechanism.domain, "amounts", {})
    # Clipping is what an amount is for.
    clipped = {name for name, one in amounts.items() if one.outside == "clip"}
    declare = (
        "declare what is missing, name other spellings in [aliases], or choose another outside"
    )
    larger = 'choose a larger area, or count them at its border with outside = "clip"'
    attributes = attributes_of(config.mechanism.domain)
    for one in found.columns:
        kind = f"in column '{one.name}'"
        if one.name in dropping:
            reasons += [
                (
                    one.missing,
                    f"have no value {kind}",
                    "write 0 where there was none"
                    if one.name in amounts
                    else 'count them with outside = "other"',
                ),
                (one.unreadable, f"hold what cannot be read {kind}", "mend it at its source"),
                (
                    0 if one.name in clipped else one.outside or 0,
                    f"lie outside the domain {kind}",
                    declare if one.name in attributes else larger,
                ),
            ]
    if all(one.outside is None for one in found.columns):
        reasons.append((found.outside, *_beyond(config.mechanism.domain)))
    return [
        f"{say.share(many, found.rows)} of the rows {why}: {fix}."
        for many, why, fix in reasons
        if many > _FEW * found.rows
    ]


def _beyond(domain: Any) -> tuple[str, str]:
    """What points outside of a geometry are, and what may be done."""
    if not isinstance(domain, Roads):
        return "lie outside the region", "see whether it is the right one"
    if domain.reach is None:
        return "lie beside the roads", 'count them there with outside = "nearest" in [roads]'
    far = f"lie farther than {domain.reach:.3g} from the roads"
    return far, "see whether these are the right ones, or set a wider reach in [roads]"


def _dropping(config: Config) -> set[str]:
    """The columns whose outside values cost the row."""
    domain: Any = config.mechanism.domain
    known = attributes_of(domain)
    return {name for name in domain.columns if name not in known or known[name].outside != "other"}


def never_came(
    config: Config, frames: Iterable[Callable[[], pl.DataFrame]], *, until: datetime | None
) -> list[str]:
    """Say which steps had no rows, and which declared values stopped coming.

    `until` is the time up to which steps that are closed should have had some.
    """
    calendar, horizon = config.calendar, config.mechanism.horizon
    found = presence(reader(config), calendar, (frame() for frame in frames))
    said, last = [], None
    if calendar is not None and until is not None:
        closed = calendar.released_by(until)
        last = min(closed, horizon or closed)
    if calendar is not None and config.source.time is not None and (gaps := found.gaps(last)):
        first = ", ".join(f"{step} ({calendar.label(step)})" for step in gaps[:_LISTED])
        more = f" and {len(gaps) - _LISTED} more" if len(gaps) > _LISTED else ""
        said.append(f"No row came for step {first}{more}: see whether a file is missing.")
    several: dict[str, list[str]] = {}
    for column, value, last in found.silent():
        when = "never came" if last is None else f"came last at step {last}"
        several.setdefault(column, []).append(f"'{value}' of column '{column}' {when}")
    for one_by_one in several.values():
        more = len(one_by_one) - _LISTED
        rest = f", and {more} more of its values" if more > 0 else ""
        said.append(f"{', '.join(one_by_one[:_LISTED])}{rest}: see whether a part is missing.")
    return said


def too_few(config: Config, frames: Iterable[Callable[[], pl.DataFrame]]) -> list[str]:
    """Say that no journeys would be drawn of so few."""
    mechanism: Any = config.mechanism
    needed, unit = getattr(mechanism, "needed", 0), mechanism.unit
    if not needed:
        return []
    people = isinstance(unit, User) and unit.events is None
    how = reader(config)
    found = 0
    for frame in frames:
        read = how.read(frame())
        rows = read.frame.filter(how.domain.cells(nw.from_native(read.frame)) >= 0)
        found += rows[unit.column if people else mechanism.trajectory].drop_nulls().n_unique()
    if found >= needed:
        return []
    those = "people" if people else "journeys"
    if mechanism.horizon != 1:
        return [f"{found:,} journeys have come: until about {needed:,.0f} have, none are drawn."]
    return [
        f"{found:,} {those} are too few for this epsilon, with which journeys are drawn from about "
        f"{needed:,.0f} on: have more, or choose a larger epsilon. Counts of large areas can be "
        "read already."
    ]


def _show(config: Config, name: str, found: Examination) -> None:
    facts = [("rows", f"{found.rows:,}"), ("counted", say.share(found.counted, found.rows))]
    facts.append(("dropped", say.share(found.dropped, found.rows)))
    facts.append(("outside the domain", say.share(found.outside, found.rows)))
    if config.source.id is not None:
        facts.append(("of an id that came before", say.share(found.duplicates, found.rows)))
    if found.garbled:
        share = say.share(found.garbled, found.rows)
        facts.append(("with letters that are not UTF-8", f"{share}: save it as UTF-8"))
    if not found.rows:
        facts.append(("note", "there are no rows in it, only a header or nothing at all"))
    if config.source.time is not None:
        facts.append(("without a readable time", say.share(found.untimed, found.rows)))
        facts.append(("before the start", say.share(found.early, found.rows)))
    if getattr(config.mechanism, "order", None) is not None:
        facts.append(("without a journey or its order", say.share(found.unordered, found.rows)))
    if found.unnamed:
        facts.append(("of nobody, who counts as one", say.share(found.unnamed, found.rows)))
    if config.source.op is not None:
        facts.append(("neither insert nor delete", say.share(found.unknown_op, found.rows)))
        facts.append(("deletes", say.share(found.deletes, found.rows)))
    if found.steps is not None and config.calendar is not None:
        ends = (f"{step} ({config.calendar.label(step)})" for step in found.steps)
        facts.append(("steps", " to ".join(ends)))
        horizon = config.mechanism.horizon
        if horizon is not None and found.steps[1] > horizon:
            facts.append(("beyond the horizon", f"rows after step {horizon} are never counted"))
    say.tell("", name)
    say.facts(facts)
    cells = []
    for one in found.columns:
        parts = (one.missing, one.unreadable, one.outside)
        shares = ("see above" if part is None else say.share(part, found.rows) for part in parts)
        cells.append((one.name, *shares))
    say.show("", ("column", "missing", "unreadable", "outside the domain"), cells)


def files_now(config: Config | None) -> dict[str, dict[str, Any]]:
    """State and rows of each file in the source's folder."""
    if config is None:
        raise ConfigError(
            "--private looks at the files of the source: name the stream.toml, not the "
            "stream's folder."
        )
    if not isinstance(config.source, FolderSource):
        return {}
    known = used(config).files
    found = {file.name: file.path for file in config.source.shelf.found()}
    shown = {}
    for name in sorted({*known, *found}):
        use, path = known.get(name), found.get(name)
        if path is None:
            state = "gone"
        elif use is None:
            state = "not used yet"
        else:
            what = "closed steps keep what they had" if use.times is not None else "ignored"
            state = f"changed after use: {what}" if use.differs(path) else "used"
        since = use.since if use else None
        shown[name] = {"since": since, "state": state, **_row_counts(config, path)}
    return shown


def _row_counts(config: Config, path: Path | None) -> dict[str, Any]:
    nothing: dict[str, Any] = {"rows": None, "dropped": None, "problem": None}
    if path is None:
        return nothing
    try:
        found = examined(config, path)
    except DataError as error:
        return {**nothing, "problem": str(error)}
    return {**nothing, "rows": found.rows, "dropped": found.dropped}
