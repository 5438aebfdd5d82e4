"""`tailrace run`: release the steps that are ready."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rich.console import Console

from tailrace.cli import say
from tailrace.cli.monitor import near
from tailrace.config import Config, load
from tailrace.config.opening import open_source, open_stream
from tailrace.errors import DataError, SinkError, StateError
from tailrace.pipeline import run
from tailrace.sources import Feed, Frames, Source
from tailrace.sources.base import now
from tailrace.storage.store import peek
from tailrace.stream.release import Release
from tailrace.stream.stream import Stream


def release_steps(file: Path, *, watch: bool, every: float, json: bool) -> None:
    """Release the steps that are ready; with `watch`, look again and again.

    A file or connection that is not in order is told of once.
    """
    config = load(file)
    # standard input can be listened to only once
    lines = None if config.source.lasting else open_source(config, live=watch)
    told = ""
    while True:
        try:
            with say.compiling():
                done = _look(config, lines, watch=watch, json=json)
            told = ""
        except (DataError, StateError) as error:
            if not watch or type(error) not in (DataError, StateError, SinkError):
                raise
            done, sentence = False, str(error)
            if sentence != told:
                say.tell(f"{sentence} Looking again every {every:g} s.", err=True)
            told = sentence
        if done or not watch:
            return
        time.sleep(every)


def _look(config: Config, lines: Source | Feed | None, *, watch: bool, json: bool) -> bool:
    """Release every ready step; True once the stream is over."""
    asked = now()  # before a row is read
    stood = peek(config.path / "private", "standing")[0]["step"] if config.path.exists() else 0
    held: dict[Any, Any] = {}
    with open_stream(config, held) as stream:
        if lines is not None and config.calendar is None:
            _finish_before(config, stream, stood)
        # not before the stream is ours: another process may have used files
        source = lines or open_source(config, held=held)
        say.interruptible()
        before, horizon = stream.step, stream.mechanism.horizon
        console = Console(stderr=True)
        options: dict[str, Any] = {"transient": True, "disable": not console.is_terminal}
        with say.releasing("steps", console=console, **options) as bar:
            task = bar.add_task("", total=_ready(stream))
            failed = release = None
            try:
                for release in run(stream, source, config.sinks, asked=asked):
                    bar.advance(task)
                    if json or watch:
                        _tell(config, release, json=json)
            except SinkError as error:
                failed = error
        if not json and not watch:
            say.tell(*_summary(config, stream, before), *_nothing_drawn(release))
            # Beside the rest: a timer mails what it prints there.
            if stream.step > before and (ending := near(stream.step, horizon)) is not None:
                say.tell(ending, err=True)
        if failed is not None:
            raise failed
        return source.over or (horizon is not None and stream.step >= horizon)


def _finish_before(config: Config, stream: Stream, stood: int) -> None:
    """Finish a step that an earlier run left, and stop there.

    Rows that are piped in again would count twice: nothing tells them apart.
    """
    lacking = [sink for sink in config.sinks if not set(range(1, stream.step + 1)) <= sink.holds()]
    list(run(stream, Frames([]), config.sinks))
    if stream.step > stood or lacking:
        raise StateError(
            f"Step {stream.step} was finished from what was piped in before, when a run was cut "
            f"off: pipe in new rows only."
        )


def _ready(stream: Stream) -> int | None:
    """How many steps the calendar has closed; None without one."""
    if stream.calendar is None:
        return None
    closed = stream.calendar.released_by(now())
    # a clock may be set back
    return max(min(closed, stream.mechanism.horizon or closed) - stream.step, 0)


def _tell(config: Config, release: Release, *, json: bool) -> None:
    period = release.provenance.get("period")
    if json:
        entry = f"{config.path.name}/releases/log/{release.step:06d}.json"
        say.as_json({"step": release.step, "period": period, "entry": entry}, indent=None)
    else:
        say.tell(f"Released step {release.step}" + (f" ({period})" if period else "") + ".")
        say.tell(*release.provenance.get("notes", ()), *_nothing_drawn(release))


def _nothing_drawn(release: Release | None) -> list[str]:
    """Say why a table is empty, where the view knows; it is public."""
    view = None if release is None else release.view
    return [] if view is None or getattr(view, "enough", True) else [view.advice]


def _summary(config: Config, stream: Stream, before: int) -> list[str]:
    horizon = stream.mechanism.horizon
    of = "" if horizon is None else f" of {horizon}"
    if stream.step == before:
        nothing = f"Nothing to release: {config.path.name} stands at step {stream.step}{of}"
        if stream.step == horizon:
            goes_on = "A new stream, which tailrace succeed prepares, is a new charge."
            return [f"{nothing}, the last. {goes_on}"]
        if stream.calendar is None:
            return [f"{nothing}."]
        closes = stream.calendar.closes(stream.step + 1)
        return [f"{nothing}; step {stream.step + 1} closes at {closes:%Y-%m-%d %H:%M} UTC."]
    first = "step" if stream.step == before + 1 else f"steps {before + 1} to"
    released = f"Released {first} {stream.step}{of} into {config.path.name}/releases."
    return [released, str(stream.guarantee)]
