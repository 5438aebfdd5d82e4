"""`tailrace demo`."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tailrace.cli import say
from tailrace.report import demo as demonstration


def demonstrate(to: Path) -> None:
    console = Console()
    try:
        to.mkdir(parents=True, exist_ok=True)
        with Progress(console=console) as bar:
            task = bar.add_task("Counting", total=demonstration.steps())
            made = demonstration.run(to, progress=lambda: bar.advance(task))
    except OSError:
        say.refuse(f"The report cannot be written to {to}: choose a folder with --to.")
    header, rows = demonstration.table(made.compared)
    table = Table(*header, title="Error of a running sum (root mean square over the year)")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print(f"\n{made.guarantee}\n", soft_wrap=True)
    console.print(f"Report: {made.report}", soft_wrap=True)
