"""`tailrace plan`: errors of a stream before it is made."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tailrace.cli import say
from tailrace.config import Config, load
from tailrace.errors import ConfigError
from tailrace.planning import Facts, Outcome, Plan, plan
from tailrace.planning.course import Course, number
from tailrace.planning.outcome import NOTHING_SPENT, label
from tailrace.report.page import OURS
from tailrace.storage.durable import place, write_file

_LEVELS, _BARS = " ▁▂▃▄▅▆▇█", 12


def show_plan(
    files: list[Path], *, facts: Facts, html: Path | None, json: bool, **options: Any
) -> None:
    """Plan for a configuration; print it, or write a page."""
    configs = [load(file) for file in files]
    _refuse_private(options["like"], configs)
    first, *rest = [config.mechanism for config in configs]
    others = options.pop("others", None)
    if html is not None and html.exists() and OURS.encode() not in html.read_bytes()[:1000]:
        raise ConfigError(
            f"{html} is there already, and is no page of ours: choose another name with --html."
        )
    with say.compiling(), _telling() as progress:
        made = plan(first, facts=facts, others=rest or others, progress=progress, **options)
    if html is not None:
        partial = html.with_name(f".{html.name}.partial")
        write_file(partial, made.html().encode())
        place(partial, html, "page")
    if json:
        say.as_json({**made.to_dict(), "page": None if html is None else str(html)})
        return
    _print(made)
    if html is not None:
        say.tell("", f"Wrote the plan to {html}.")


def _refuse_private(like: Path | None, configs: list[Config]) -> None:
    """Refuse a public file that lies where the private ones arrive."""
    if like is None:
        return
    file = like.resolve()
    for config in configs:
        where = getattr(config.source, "path", None)
        if isinstance(where, Path) and file.is_relative_to(where.resolve()):
            raise ConfigError(
                f"{like.name} lies in the source's folder: --like names a public file, which must "
                "not be the private data."
            )


def _print(made: Plan) -> None:
    """Sentences, then a table of all that was compared."""
    say.tell(*made.sentences, "")
    # As many as fit beside each other; a page and JSON have all.
    questions = [course.question for course in made.asked.courses][:2]
    rows = [[label(one, made.asked), *_row(one, questions)] for one in made.compared]
    say.show("Standard errors", ["", *questions, "over time"], rows)
    for what, deviation in made.asked.noise.items():
        say.tell(f"The noise of {what} is exact: +- {deviation:.3g}.")
    say.tell(made.data or "All errors are exact.", NOTHING_SPENT)


def _row(one: Outcome, questions: list[str]) -> list[str]:
    courses = [one.course(question) for question in questions]
    first = next((course for course in courses if course is not None), None)
    shown = ["" if course is None else number(course.overall) for course in courses]
    return [*shown, "" if first is None else _drawn(first)]


def _drawn(course: Course) -> str:
    """The error over time as a row of bars, from 0 to its largest."""
    some = course.error[np.linspace(0, len(course.error) - 1, _BARS).astype(int)]
    heights = np.ceil((len(_LEVELS) - 1) * some / max(float(some.max()), 1e-300)).astype(int)
    return "".join(_LEVELS[height] for height in heights)


class _telling:  # noqa: N801 - used as a function
    """A bar on standard error that counts runs, where somebody looks."""

    def __enter__(self) -> Callable[[str, int, int], None]:
        from rich import progress as bars
        from rich.console import Console

        columns = (bars.BarColumn(), bars.MofNCompleteColumn(), bars.TextColumn("runs"))
        console = Console(stderr=True)
        self.bar = bars.Progress(
            "Planning", *columns, console=console, transient=True, disable=not sys.stderr.isatty()
        )
        self.bar.start()
        task = self.bar.add_task("", total=None)
        return lambda words, done, total: self.bar.update(  # noqa: ARG005
            task, completed=done, total=total
        )

    def __exit__(self, *_: object) -> None:
        self.bar.stop()
