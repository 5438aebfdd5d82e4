"""The command line: each command is a sentence over the library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

app = typer.Typer(
    name="tailrace",
    help="A private stream in, a public synthetic stream out, under one differential-privacy guarantee.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _version(wanted: bool) -> None:
    if wanted:
        from tailrace import __version__

        typer.echo(f"tailrace {__version__}")
        raise typer.Exit


def _refuse(sentence: str) -> NoReturn:
    """Say what is wrong, in one sentence, and stop."""
    typer.echo(sentence, err=True)
    raise typer.Exit(1)


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A private stream in, a public synthetic stream out, under one differential-privacy guarantee."""


@app.command(epilog="Example: tailrace demo --to demo")
def demo(to: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("demo")) -> None:
    """Count a generated year in private, compare the counters, and write an HTML report."""
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from tailrace.report import demo as demonstration

    console = Console()
    try:
        to.mkdir(parents=True, exist_ok=True)
        with Progress(console=console) as bar:
            task = bar.add_task("Counting", total=demonstration.steps())
            made = demonstration.run(to, progress=lambda: bar.advance(task))
    except OSError:
        _refuse(f"The report cannot be written to {to}: choose a folder with --to.")
    header, rows = demonstration.table(made.compared)
    table = Table(*header, title="Error of a running sum (root mean square over the year)")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print(f"\n{made.guarantee}\n", soft_wrap=True)
    console.print(f"Report: {made.report}", soft_wrap=True)
