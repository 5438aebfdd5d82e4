"""`tailrace experiments`: papers' tables and figures, measured and shown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tailrace.cli import say
from tailrace.errors import ConfigError
from tailrace.experiments import PAPERS, paper


def repeat_papers(
    names: Sequence[str], to: Path | None, data: Path | None, *, quick: bool, processes: int | None
) -> None:
    """Measure what is not saved yet and write a page for each paper."""
    from rich import progress as bars

    unknown = [name for name in names if name not in PAPERS]
    if unknown:
        raise ConfigError(f"There is no paper {unknown[0]}: choose among {', '.join(PAPERS)}.")
    if data is not None and not data.is_dir():
        raise ConfigError(f"{data} is not a folder: --data is the folder of the real data.")
    folder = to or Path("experiments-quick" if quick else "experiments")
    folder.mkdir(parents=True, exist_ok=True)
    # Workers find them here too.
    os.environ["TAILRACE_RESULTS"] = str(folder.resolve())
    if data is not None:
        os.environ["TAILRACE_DATA"] = str(data.resolve())
    columns = (bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeElapsedColumn())
    told = bars.TextColumn("{task.description}")
    with bars.Progress(told, *columns) as bar:
        for one in map(paper, names or PAPERS):
            for exhibit in one.exhibits:
                task = bar.add_task(f"{one.name}: {exhibit.title}", total=None)
                for done in exhibit.run(quick=quick, processes=processes or _cores()):
                    bar.update(task, completed=done.number, total=done.many)
                    if not bar.console.is_terminal:
                        about = f"{one.name}: {exhibit.title}"
                        say.tell(f"{about}, {done.number} of {done.many}", err=True)
                    if done.missing:
                        say.tell(f"{done.missing}: not here, left out.")
                bar.update(task, total=1, completed=1, visible=False)
            say.tell(f"{one.title}: {one.page(quick=quick)}")


def _cores() -> int:
    """Cases at a time: cores, four at most."""
    return min(os.cpu_count() or 1, 4)
