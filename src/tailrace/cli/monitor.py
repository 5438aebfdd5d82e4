"""What monitors ask: late steps, sinks that lack any, the end.

Every value here is a function of the clock, the configuration and the number of released steps,
which is public. None depends on the data, and none tells how long a run took.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from tailrace.calendar import Calendar, Length
from tailrace.cli import say
from tailrace.config import Config
from tailrace.errors import ConfigError
from tailrace.sinks.base import name_of
from tailrace.storage.durable import place, write_file

# The part of the horizon that is left when a successor should be made: by reasoning, one in twenty.
_NEAR = 20


@dataclass(frozen=True, kw_only=True)
class Health:
    """How a stream stands against its clock.

    late: closed steps that are not released; None without a calendar.
    left: steps to the horizon; None without end.
    sinks: by name, how many released steps it lacks; None where it cannot be read.
    """

    step: int
    horizon: int | None
    late: int | None
    left: int | None
    sinks: dict[str, int | None]

    @property
    def near(self) -> str | None:
        """Say that the horizon is near, and what to do."""
        return near(self.step, self.horizon)

    @property
    def alarms(self) -> list[str]:
        """All that is late, a sentence each."""
        said = [f"{self.late} closed step(s) are not released."] if self.late else []
        for name, lacking in self.sinks.items():
            if lacking is None:
                said.append(f"{name} cannot be read.")
            elif lacking:
                said.append(f"{name} lacks {lacking} released step(s).")
        return said


def near(step: int, horizon: int | None) -> str | None:
    """Say that the horizon is near, and what to do; None while it is not."""
    if horizon is None or horizon - step > max(1, horizon // _NEAR) or horizon < _NEAR:
        return None
    left = f"{horizon - step} of {horizon} steps are left" if step < horizon else "No step is left"
    return f"{left}: tailrace succeed makes the configuration that goes on, under a new charge."


def health(
    config: Config | None,
    calendar: Calendar | None,
    *,
    step: int,
    horizon: int | None,
    now: datetime,
    slack: str,
) -> Health:
    """Compare a stream with its clock and its sinks."""
    late = None
    if calendar is not None:
        closed = calendar.released_by(now - _length(slack))
        late = max(min(closed, horizon or closed) - step, 0)
    sinks: dict[str, int | None] = {}
    for sink in () if config is None else config.sinks:
        try:
            sinks[name_of(sink)] = len(set(range(1, step + 1)) - sink.holds())
        # A sink of another distribution may raise anything.
        except Exception:
            sinks[name_of(sink)] = None
    left = None if horizon is None else horizon - step
    return Health(step=step, horizon=horizon, late=late, left=left, sinks=sinks)


def _length(text: str) -> timedelta:
    length = Length.read("slack", text)
    if length.months:
        raise ConfigError('slack must be of a fixed length, for example "2 hours".')
    return timedelta(seconds=length.at_least)


def write_metrics(
    path: Path, stream: str, found: Health, calendar: Calendar | None, *, epsilon: float | None
) -> None:
    """Write what a monitor collects, in the text format of Prometheus."""
    step, horizon = found.step, found.horizon
    closed = calendar.closes(step).timestamp() if calendar is not None and step else None
    following = None
    if calendar is not None and step != horizon:
        following = calendar.closes(step + 1).timestamp()
    values = [
        ("step", "The last step released.", step),
        ("horizon", "Steps that the guarantee covers.", horizon),
        ("steps_left", "Steps to the horizon.", found.left),
        ("late_steps", "Closed steps that are not released.", found.late),
        ("last_step_closed_timestamp_seconds", "When the last released step closed.", closed),
        ("next_step_closes_timestamp_seconds", "When the next step closes.", following),
        ("epsilon", "The loss of one unit over the whole horizon.", epsilon),
    ]
    lines = []
    for name, words, value in values:
        if value is not None:
            lines += _metric(name, words, [({"stream": stream}, value)])
    lacking = [
        ({"stream": stream, "sink": sink}, -1 if one is None else one)
        for sink, one in found.sinks.items()
    ]
    if lacking:
        words = "Released steps that a sink lacks; -1 where it cannot be read."
        lines += _metric("sink_lacking_steps", words, lacking)
    partial = path.with_name(f".{path.name}.partial")
    try:
        write_file(partial, "\n".join([*lines, ""]).encode())
    except OSError:
        say.refuse(f"{path} cannot be written: see whether its folder is there.")
    place(partial, path, "metrics")


def _metric(name: str, words: str, values: Sequence[tuple[dict[str, str], float]]) -> list[str]:
    full = f"tailrace_{name}"
    lines = [f"# HELP {full} {words}", f"# TYPE {full} gauge"]
    for labels, value in values:
        said = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        lines.append(f"{full}{{{said}}} {value:.15g}")
    return lines


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
