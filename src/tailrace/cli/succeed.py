"""`tailrace succeed`: the configuration of the stream that goes on."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from tailrace.calendar import Calendar, zone
from tailrace.cli import say
from tailrace.config import Config, lines, load
from tailrace.config.opening import goes_on
from tailrace.errors import ConfigError


def write_successor(file: Path, to: Path) -> None:
    """Write a configuration whose first step follows the last of another."""
    config = load(file)
    calendar, horizon = config.calendar, config.mechanism.horizon
    if calendar is None or horizon is None:
        raise ConfigError(
            "A successor begins where the calendar and the horizon end: this stream lacks one of "
            "them. Make a new stream.toml with a path and a folder of its own."
        )
    if to.resolve().parent != config.file.parent:
        raise ConfigError(f"--to must lie beside {file.name}: paths in it are relative to it.")
    text = config.file.read_text(encoding="utf-8-sig").replace("\r\n", "\n")
    made = _changed(text, config, _after(calendar, horizon))
    say.write_new(to, made.encode(), check=load)
    new = load(to)
    say.tell(
        f"Wrote {to}: step 1 begins at {_after(calendar, horizon)}, in {new.path.name}. Run it "
        f"once {config.path.name} has come to its end; it is a new charge to '{new.population}'."
    )


def _after(calendar: Calendar, horizon: int) -> str:
    """When the step after the last begins, by the calendar's own clock."""
    begin = calendar.begin(horizon + 1).astimezone(zone(calendar.timezone)).replace(tzinfo=None)
    return begin.date().isoformat() if not (begin.hour or begin.minute) else begin.isoformat()


def _changed(text: str, config: Config, start: str) -> str:
    """The same text with another path, start, and places for releases."""
    places, rows = lines.locate(text), text.split("\n")
    before = json.dumps(os.path.relpath(config.path, config.file.parent), ensure_ascii=False)
    wanted: dict[lines.Path, str] = {("calendar", "start"): start, ("stream", "path"): ""}
    wanted["stream", "after"] = before
    for number, _ in enumerate(config.sinks):
        wanted |= {("sink", number, key): "" for key in ("path", "table")}
    for place, value in wanted.items():
        if place not in places:
            continue
        at = places[place] - 1
        pattern = r"^(\s*[\w\"']+\s*=\s*)(\"[^\"]*\"|'[^']*'|[^#\s]+)"
        found = re.match(pattern, rows[at])
        if found is None:
            raise ConfigError(
                f"{config.file.name}, line {at + 1}: write this key on a line of its own, so that "
                "it can be changed."
            )
        new = value or f'"{_next(found[2][1:-1], "_" if place[-1] == "table" else "-")}"'
        rows[at] = f"{found[1]}{new}{rows[at][found.end() :]}"
    if goes_on(config.mechanism, config.full) and ("stream", "after") not in places:
        line = f"after = {before}  # the stream whose last table this one begins with"
        rows.insert(places["stream", "path"], line)
    return "\n".join(rows)


def _next(name: str, sign: str) -> str:
    """The name after a name.

    >>> _next("ward.tail", "-"), _next("out/ward-2.tail", "-"), _next("cases", "_")
    ('ward-2.tail', 'out/ward-3.tail', 'cases_2')
    """
    folder, slash, last = name.rpartition("/")
    stem, dot, ending = last.partition(".")
    found = re.fullmatch(rf"(.*){re.escape(sign)}(\d+)", stem)
    stem = f"{found[1]}{sign}{int(found[2]) + 1}" if found else f"{stem}{sign}2"
    return f"{folder}{slash}{stem}{dot}{ending}"
