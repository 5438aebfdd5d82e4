"""`tailrace check`, `status --private`: exact numbers for the curator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tailrace.cli import say
from tailrace.config import Config, load
from tailrace.config.opening import reader, used
from tailrace.errors import ConfigError, DataError
from tailrace.sources import Examination, FolderSource, examine
from tailrace.sources.files import read, told
from tailrace.sources.used import Seen

PRIVATE = "PRIVATE: exact numbers, for the curator only. Do not publish them."


def check_files(file: Path, files: Sequence[Path], *, json: bool) -> None:
    """Examine files one by one."""
    config = load(file)
    found = {str(path): examined(config, path) for path in files}
    if json:
        return say.as_json(
            {"private": PRIVATE, "files": {name: asdict(one) for name, one in found.items()}}
        )
    say.tell(PRIVATE)
    for name, examination in found.items():
        _show(config, name, examination)
    return None


def examined(config: Config, path: Path) -> Examination:
    """What would become of a file's rows."""
    read_as = reader(config)
    frame = read(path, Seen.at(path).data, read_as.columns)
    with told(path):
        return examine(read_as, config.calendar, frame)


def _show(config: Config, name: str, found: Examination) -> None:
    facts = [("rows", f"{found.rows:,}"), ("counted", say.share(found.counted, found.rows))]
    facts.append(("dropped", say.share(found.dropped, found.rows)))
    facts.append(("outside the domain", say.share(found.outside, found.rows)))
    if found.garbled:
        share = say.share(found.garbled, found.rows)
        facts.append(("with letters that are not UTF-8", f"{share}: save it as UTF-8"))
    if not found.rows:
        facts.append(("note", "there are no rows in it, only a header or nothing at all"))
    if config.source.time is not None:
        facts.append(("without a readable time", say.share(found.untimed, found.rows)))
        facts.append(("before the start", say.share(found.early, found.rows)))
    if config.source.op is not None:
        facts.append(("neither insert nor delete", say.share(found.unknown_op, found.rows)))
        facts.append(("deletes", say.share(found.deletes, found.rows)))
    if found.steps is not None and config.calendar is not None:
        ends = (f"{step} ({config.calendar.label(step)})" for step in found.steps)
        facts.append(("steps", " to ".join(ends)))
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
