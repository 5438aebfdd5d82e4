"""The commands and their options.

A command imports what it needs when it runs, so that `tailrace --help` answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli import say

app = typer.Typer(
    name="tailrace",
    cls=say.Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
Config = Annotated[Path, typer.Argument(help="The stream's configuration.", metavar="stream.toml")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def _version(wanted: bool) -> None:
    if wanted:
        from tailrace import __version__

        say.tell(f"tailrace {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A private stream in, a public synthetic stream out, under one differential-privacy
    guarantee.
    """


@app.command(epilog="Example: tailrace demo --to demo")
def demo(to: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("demo")) -> None:
    """Release a generated city whose people move over sixty days, and write an HTML report with a
    map and a slider.
    """
    from tailrace.cli.demo import demonstrate

    with say.sentences():
        demonstrate(to)


@app.command(epilog="Example: tailrace check stream.toml incoming/2026-01-05.csv")
def check(
    config: Config,
    files: Annotated[
        list[Path], typer.Argument(help="Files to read as a run would.", metavar="FILE...")
    ],
    json: Json = False,
) -> None:
    """PRIVATE: read files as a run would and show what becomes of their rows. No noise, no charge,
    nothing kept.
    """
    from tailrace.cli.check import check_files

    with say.sentences():
        check_files(config, files, json=json)


@app.command(epilog="Example: tailrace run stream.toml --watch")
def run(
    config: Config,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on: release every step when its time has come.")
    ] = False,
    every: Annotated[
        float, typer.Option(help="With --watch: seconds between two looks.", min=0.1)
    ] = 10.0,
    json: Json = False,
) -> None:
    """Release every step that is ready by the calendar; go on where the last run stopped, however
    it stopped.
    """
    from tailrace.cli.run import release_steps

    with say.sentences():
        release_steps(config, watch=watch, every=every, json=json)


@app.command(epilog="Example: tailrace status stream.toml")
def status(
    stream: Annotated[
        Path, typer.Argument(help="A stream.toml, or a stream's folder.", metavar="STREAM")
    ],
    private: Annotated[
        bool, typer.Option("--private", help="For the curator: files, and what became of rows.")
    ] = False,
    json: Json = False,
) -> None:
    """What is promised, how far the stream has come, and what its ledger says."""
    from tailrace.cli.status import show_status

    with say.sentences():
        show_status(stream, private=private, json=json)


@app.command(epilog="Example: tailrace export stream.toml --to public.csv --step 7")
def export(
    stream: Annotated[
        Path, typer.Argument(help="A stream.toml, or a stream's folder.", metavar="STREAM")
    ],
    to: Annotated[Path, typer.Option(help="A .csv or .parquet file that is not there yet.")],
    step: Annotated[
        int | None, typer.Option(help="Which release; the last one where left out.", min=1)
    ] = None,
    formulas: Annotated[
        bool,
        typer.Option(
            "--formulas", help="Leave texts in a .csv that a spreadsheet would run as formulas."
        ),
    ] = False,
) -> None:
    """Write the synthetic table of one step into a file."""
    from tailrace.cli.export import export_table

    with say.sentences():
        export_table(stream, to, step, formulas=formulas)


@app.command(epilog="Example: tailrace init --like cases.csv")
def init(
    to: Annotated[Path, typer.Option(help="The file to write.")] = Path("stream.toml"),
    like: Annotated[
        Path | None,
        typer.Option(help="A file whose column names are offered; its rows are not read."),
    ] = None,
    path: Annotated[
        str | None, typer.Option(help="Folder for the stream, for example ward.tail.")
    ] = None,
    population: Annotated[str | None, typer.Option(help="Whose data these are.")] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="The privacy loss over the whole horizon, for example 1.")
    ] = None,
    delta: Annotated[
        str | None, typer.Option(help="For (epsilon, delta), for example 1e-9.")
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="Who is protected: event, or user COLUMN EVENTS.")
    ] = None,
    horizon: Annotated[
        int | None, typer.Option(help="How many steps the promise covers.", min=1)
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=integer 0 99 | NAME=category f m | NAME=real 0 10 20 | NAME=boolean."
        ),
    ] = None,
    folder: Annotated[str | None, typer.Option(help="The folder in which files arrive.")] = None,
    time: Annotated[
        str | None, typer.Option(help="The column of times; none: every file is a step.")
    ] = None,
    written: Annotated[
        str | None,
        typer.Option(
            "--format", help="How times are written, for example %d.%m.%Y; ISO otherwise."
        ),
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="The first day, for example 2026-01-01.")
    ] = None,
    period: Annotated[
        str | None, typer.Option(help='The length of a step, for example "1 day".')
    ] = None,
    timezone: Annotated[str | None, typer.Option(help="For example Europe/Berlin.")] = None,
    csv: Annotated[
        str | None, typer.Option(help="Also write every release as CSV into this folder.")
    ] = None,
) -> None:
    """Write a commented stream.toml: asks for what is not given by a flag, when there is somebody
    to ask.
    """
    from tailrace.cli.init import Flags, write_configuration

    flags = Flags(
        path=path,
        population=population,
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        horizon=horizon,
        columns=tuple(column or ()),
        folder=folder,
        time=time,
        format=written,
        start=start,
        period=period,
        timezone=timezone,
        csv=csv,
    )
    with say.sentences():
        write_configuration(to, like, flags)


@app.command(epilog="Example: tailrace report stream.toml --to report.html")
def report(
    stream: Annotated[
        Path, typer.Argument(help="A stream.toml, or a stream's folder.", metavar="STREAM")
    ],
    to: Annotated[
        Path | None, typer.Option(help="The page to write; report.html where left out.")
    ] = None,
    private: Annotated[
        bool,
        typer.Option(
            "--private",
            help="For the curator: read the source again and show the true points beside.",
        ),
    ] = False,
) -> None:
    """Write a page to look at: the promise, the releases step by step, their errors and the
    ledger.
    """
    from tailrace.cli.report import write_report

    with say.sentences():
        write_report(stream, to, private=private)


ledger = typer.Typer(
    name="ledger", help="What each population has spent, and its caps.", no_args_is_help=True
)
app.add_typer(ledger)
Ledger = Annotated[Path, typer.Option("--ledger", help="The ledger's file.")]
BESIDE = Path("tailrace.ledger")


@ledger.command("show", epilog="Example: tailrace ledger show stream.toml")
def ledger_show(
    stream: Annotated[
        Path | None,
        typer.Argument(
            help="A stream.toml, or a stream's folder: its ledger is shown.", metavar="STREAM"
        ),
    ] = None,
    file: Ledger = BESIDE,
    json: Json = False,
) -> None:
    """Caps, what is spent of them, and every stream that was charged."""
    from tailrace.cli.ledger import show_ledger

    with say.sentences():
        show_ledger(stream, file, json=json)


@ledger.command("cap", epilog='Example: tailrace ledger cap "city 2026" --epsilon 2')
def ledger_cap(
    population: Annotated[str, typer.Argument(help="Whose budget it is.")],
    epsilon: Annotated[str, typer.Option(help="The most that all streams together may lose.")],
    delta: Annotated[str | None, typer.Option(help="For (epsilon, delta).")] = None,
    unit: Annotated[
        str, typer.Option(help="Who is protected: event, or user COLUMN EVENTS.")
    ] = "event",
    file: Ledger = BESIDE,
) -> None:
    """Set the most that a population may lose over all its streams; a stream beyond it is refused
    when it is made.
    """
    from tailrace.cli.ledger import set_cap

    with say.sentences():
        set_cap(file, population, epsilon, delta, unit)
