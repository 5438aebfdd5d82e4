"""The commands and their options.

A command imports what it needs when it runs, so that `tailrace --help` answers at once; `Commands`
turns what goes wrong into a sentence.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from tailrace.cli import say

app = typer.Typer(
    name="tailrace",
    cls=say.Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
Text = str | None
Config = Annotated[Path, Argument(help="The stream's configuration.", metavar="stream.toml")]
Stream = Annotated[Path, Argument(help="A stream.toml, or a stream's folder.", metavar="STREAM")]
Json = Annotated[bool, Option("--json", help="Print JSON, for scripts.")]


def _version(wanted: bool) -> None:
    if wanted:
        from tailrace import __version__

        say.tell(f"tailrace {__version__}")
        raise typer.Exit


Version = Annotated[
    bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")
]


@app.callback()
def main(version: Version = False) -> None:
    """A private stream in, a public synthetic stream out, under one differential-privacy
    guarantee.
    """


@app.command(epilog="Example: tailrace demo --to demo")
def demo(to: Annotated[Path, Option(help="Folder for the report.")] = Path("demo")) -> None:
    """Release a generated city whose people move over sixty days, and write an HTML report with a
    map and a slider.
    """
    from tailrace.cli.demo import demonstrate

    demonstrate(to)


@app.command(epilog="Example: tailrace check stream.toml incoming/2026-01-05.csv")
def check(
    config: Config,
    files: Annotated[
        list[Path] | None,
        Argument(help="Files to read as a run would; all of the source's.", metavar="[FILE...]"),
    ] = None,
    strict: Annotated[
        bool, Option("--strict", help="End with code 9 where there is a warning.")
    ] = False,
    json: Json = False,
) -> None:
    """PRIVATE: read files as a run would and show what becomes of their rows, with warnings where
    many are lost, and of steps and values that never came. No noise, no charge, nothing kept.
    """
    from tailrace.cli.check import check_files

    check_files(config, files or [], json=json, strict=strict)


Planned = Annotated[
    list[Path],
    Argument(help="The stream's configuration; further ones are compared.", metavar="stream.toml"),
]


@app.command(epilog="Example: tailrace plan stream.toml --rows 500 --error 50 --html plan.html")
def plan(
    configs: Planned,
    epsilon: Annotated[list[str], Option(help="A budget to compare; may be repeated.")] = [],  # noqa: B006 - the command line makes it
    horizon: Annotated[
        list[int], Option(help="A number of steps to compare; may be repeated.", min=1)
    ] = [],  # noqa: B006
    error: Annotated[
        float | None, Option(help="Find the epsilon that reaches this standard error.")
    ] = None,
    rows: Annotated[int, Option(help="Public fact: rows of a step (people, journeys).")] = 1000,
    uneven: Annotated[
        float, Option(help="Public fact: how much rows of a step differ from the next, as a share.")
    ] = 0.2,
    growth: Annotated[
        float, Option(help="Public fact: rows of the last step, as a multiple of the first's.")
    ] = 1.0,
    matter: Annotated[int, Option(help="Public fact: columns that hang together.")] = 3,
    clusters: Annotated[
        int, Option(help="Public fact: places or types that rows crowd around; 0: spread evenly.")
    ] = 60,
    crowd: Annotated[
        float, Option(help="Public fact: the share of the map in which half of the rows lie.")
    ] = 0.02,
    moving: Annotated[
        float, Option(help="Public fact: the share of the clusters that a step replaces.")
    ] = 0.0,
    changing: Annotated[
        float, Option(help="Public fact, of snapshots: the share of people who change at a step.")
    ] = 0.0,
    stays: Annotated[
        int | None, Option(help="Public fact: steps after which a row is deleted.")
    ] = None,
    points: Annotated[int, Option(help="Public fact: points of a journey.")] = 20,
    like: Annotated[
        Path | None,
        Option(help="A public file like the data, instead of facts; never the private data."),
    ] = None,
    runs: Annotated[int, Option(help="Runs on stand-in data, for each budget.", min=1)] = 4,
    alone: Annotated[
        bool, Option("--alone", help="Do not look at other units and mechanisms.")
    ] = False,
    html: Annotated[Path | None, Option(help="A page to write.")] = None,
    json: Json = False,
) -> None:
    """What this epsilon and horizon will buy, before a row is read or a budget is charged: errors
    over time, exact or by running the mechanism on stand-in data; which epsilon reaches an error;
    which unit or mechanism would be better.
    """
    from tailrace.cli.plan import show_plan
    from tailrace.planning import Facts

    show_plan(
        configs,
        facts=Facts(
            rows=rows,
            uneven=uneven,
            growth=growth,
            matter=matter,
            clusters=clusters,
            crowd=crowd,
            moving=moving,
            changing=changing,
            stays=stays,
            points=points,
        ),
        html=html,
        json=json,
        like=like,
        epsilons=epsilon,
        horizons=horizon,
        error=error,
        runs=runs,
        others=[] if alone else None,
    )


Watch = Annotated[bool, Option("--watch", help="Go on: release every step when its time has come.")]
Every = Annotated[float, Option(help="With --watch: seconds between two looks.", min=0.1)]

Master = Annotated[
    str | None, Option("--spark-master", help="For a source of Spark: where it runs.")
]


@app.command(epilog="Example: tailrace run stream.toml --watch")
def run(
    config: Config,
    watch: Watch = False,
    every: Every = 10.0,
    spark_master: Master = None,
    json: Json = False,
) -> None:
    """Release every step that is ready by the calendar; go on where the last run stopped, however
    it stopped.
    """
    from tailrace.cli.run import release_steps

    if spark_master is not None:
        # Where Spark itself looks for it.
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--master {spark_master} pyspark-shell"
    release_steps(config, watch=watch, every=every, json=json)


Files = Annotated[
    bool, Option("--private", help="For the curator: files, and what became of rows.")
]


@app.command(epilog="Example: tailrace status stream.toml --fail-if-late")
def status(
    stream: Stream,
    private: Files = False,
    fail_if_late: Annotated[
        bool, Option("--fail-if-late", help="End with code 8 where a step or a sink is late.")
    ] = False,
    slack: Annotated[str, Option(help="How long after its close a step is not late.")] = "1 hour",
    metrics: Annotated[
        Path | None, Option(help="A file to write for Prometheus, in its text format.")
    ] = None,
    json: Json = False,
) -> None:
    """What is promised, how far the stream has come, whether it is late, and what its ledger
    says.
    """
    from tailrace.cli.status import show_status

    show_status(
        stream, private=private, json=json, fail_if_late=fail_if_late, slack=slack, metrics=metrics
    )


@app.command(epilog="Example: tailrace succeed stream.toml --to 2027.toml")
def succeed(
    config: Config,
    to: Annotated[Path, Option(help="The file to write, beside the first.")],
) -> None:
    """Write the configuration of a stream that goes on where the horizon of another ends, under a
    new charge.
    """
    from tailrace.cli.succeed import write_successor

    write_successor(config, to)


Formulas = Annotated[
    bool,
    Option("--formulas", help="Leave texts in a .csv that a spreadsheet would run as formulas."),
]


@app.command(epilog="Example: tailrace verify public/")
def verify(
    path: Annotated[
        Path, Argument(help="A stream.toml, a stream's folder, or its releases.", metavar="PATH")
    ],
    json: Json = False,
) -> None:
    """Check every release by its digest, and the chain of the log; of a stream also all that it
    keeps. Whoever has the releases can do it.
    """
    from tailrace.cli.verify import verify_path

    verify_path(path, json=json)


@app.command(
    epilog='Example: tailrace query public/ "count where age between 60 and 79 and sex = f"'
)
def query(
    where: Annotated[
        str,
        Argument(help="A public folder, its address, or a stream.toml.", metavar="RELEASES"),
    ],
    question: Annotated[
        str, Argument(help="count, or share, where COLUMN = VALUE and ...", metavar="QUESTION")
    ],
    step: Annotated[
        int | None, Option(help="Which release; the last one where left out.", min=1)
    ] = None,
    json: Json = False,
) -> None:
    """Ask published releases how many records match, with a standard error. Nothing private is
    read.
    """
    from tailrace.cli.query import answer

    answer(where, question, step, json=json)


@app.command(epilog="Example: tailrace migrate stream.toml")
def migrate(stream: Stream) -> None:
    """Bring a stream that an earlier version keeps over to today's format. Promise and ledger
    stay.
    """
    from tailrace.cli.migrate import migrate_stream

    migrate_stream(stream)


@app.command(epilog="Example: tailrace warm stream.toml")
def warm(
    config: Annotated[
        Path | None,
        Argument(help="Whose mechanism; all where left out.", metavar="stream.toml"),
    ] = None,
) -> None:
    """Compile now what the first release would wait for: once for each machine, or in the image of
    a container. Made-up rows are released in memory; nothing is charged or kept.
    """
    from tailrace.cli.warm import warm_up

    warm_up(config)


@app.command(epilog="Example: tailrace export stream.toml --to public.csv --step 7")
def export(
    stream: Stream,
    to: Annotated[
        Path, Option(help="A new file: .csv, .parquet, or of points .geojson or .geoparquet.")
    ],
    step: Annotated[
        int | None, Option(help="Which release; the last one where left out.", min=1)
    ] = None,
    formulas: Formulas = False,
    measurements: Annotated[
        bool,
        Option("--measurements", help="The noisy measurements instead: what, cells, value, error."),
    ] = False,
) -> None:
    """Write the synthetic table of one step, or its noisy measurements, into a file."""
    from tailrace.cli.export import export_table

    export_table(stream, to, step, formulas=formulas, measurements=measurements)


@app.command(epilog="Example: tailrace backup stream.toml --to /backup/ward-2026-01-05.tar")
def backup(
    stream: Stream,
    to: Annotated[Path, Option(help="The file to write, which is private.")],
) -> None:
    """PRIVATE: write a stream into one file, and its ledger beside it."""
    from tailrace.cli.backup import write_backup

    write_backup(stream, to)


@app.command(epilog="Example: tailrace restore /backup/ward-2026-01-05.tar stream.toml")
def restore(
    file: Annotated[Path, Argument(help="A file of tailrace backup.", metavar="BACKUP")],
    stream: Annotated[
        Path, Argument(help="A stream.toml, or the folder to make.", metavar="STREAM")
    ],
    ledger: Annotated[
        Path | None, Option(help="The newest ledger; beside the stream where left out.")
    ] = None,
) -> None:
    """Put a stream back, if the ledger says that it has not gone on since."""
    from tailrace.cli.backup import put_back

    put_back(file, stream, ledger)


Like = Annotated[
    Path | None, Option(help="A file whose column names are offered; its rows are not read.")
]
Column = Annotated[
    list[str],
    Option(help="NAME=integer 0 99 | NAME=category f m | NAME=real 0 10 20 | NAME=boolean."),
]
Format = Annotated[
    list[str] | None,
    Option(help="How times are written, for example %d.%m.%Y; ISO otherwise. May be repeated."),
]


@app.command(epilog="Example: tailrace init --like cases.csv")
def init(
    to: Annotated[Path, Option(help="The file to write.")] = Path("stream.toml"),
    like: Like = None,
    kind: Annotated[
        Text,
        Option(
            help="What one row is: places, table, panel, snapshots, journeys, trips or histogram."
        ),
    ] = None,
    path: Annotated[Text, Option(help="Folder for the stream, for example ward.tail.")] = None,
    population: Annotated[Text, Option(help="Whose data these are.")] = None,
    epsilon: Annotated[
        Text, Option(help="The privacy loss over the whole horizon, for example 1.")
    ] = None,
    delta: Annotated[Text, Option(help="For (epsilon, delta), for example 1e-9.")] = None,
    unit: Annotated[
        Text, Option(help="Who is protected: event, user COLUMN EVENTS, journey or user COLUMN.")
    ] = None,
    horizon: Annotated[int | None, Option(help="How many steps the promise covers.", min=1)] = None,
    column: Column = [],  # noqa: B006 - the command line makes it
    alias: Annotated[
        list[str],
        Option(help="Another spelling, as 'COLUMN: NYC = New York'. May be repeated."),
    ] = [],  # noqa: B006
    place: Annotated[Text, Option(help="The columns of x and y, for example 'lon lat'.")] = None,
    area: Annotated[
        Text, Option(help="West south east north, or a file of GeoJSON with the border.")
    ] = None,
    window: Annotated[
        int | None, Option(help="Of a panel: steps in a row that questions may be about.", min=1)
    ] = None,
    trajectory: Annotated[Text, Option(help="The column of the journey's id.")] = None,
    order: Annotated[Text, Option(help="The column that orders a journey's points.")] = None,
    folder: Annotated[Text, Option(help="The folder in which files arrive.")] = None,
    database: Annotated[
        Text, Option(help="Instead of files: sqlite:///ward.db or postgresql://user@host/name.")
    ] = None,
    table: Annotated[Text, Option(help="The table of that database.")] = None,
    time: Annotated[Text, Option(help="The column of times; none: every file is a step.")] = None,
    format: Format = None,  # noqa: A002 - the flag's name
    start: Annotated[Text, Option(help="The first day, for example 2026-01-01.")] = None,
    period: Annotated[Text, Option(help='The length of a step, for example "1 day".')] = None,
    timezone: Annotated[Text, Option(help="For example Europe/Berlin.")] = None,
    id: Annotated[  # noqa: A002 - the flag's name
        Text, Option(help="The column that names a row, where rows may come twice.")
    ] = None,
    decimal: Annotated[Text, Option(help="How decimals are written: . or a comma.")] = None,
    encoding: Annotated[
        Text, Option(help="How letters are written, if not in UTF-8: windows-1252.")
    ] = None,
    csv: Annotated[Text, Option(help="Also write every release as CSV into this folder.")] = None,
) -> None:
    """Write a commented stream.toml for any kind of data: asks for what is not given by a flag,
    when there is somebody to ask.
    """
    given = dict(locals())
    from tailrace.cli.init import Flags, write_configuration

    given["format"] = given["format"] or None
    write_configuration(given.pop("to"), given.pop("like"), Flags(**given))


To = Annotated[Path | None, Option(help="The page to write; report.html where left out.")]
Truth = Annotated[
    bool,
    Option(
        "--private", help="For the curator: read the source again and show the true data beside."
    ),
]


@app.command(epilog="Example: tailrace report stream.toml --to report.html")
def report(stream: Stream, to: To = None, private: Truth = False) -> None:
    """Write a page to look at: the promise, the releases step by step, their errors and the
    ledger.
    """
    from tailrace.cli.report import write_report

    write_report(stream, to, private=private)


@app.command(epilog="Example: tailrace experiments panels --quick")
def experiments(
    papers: Annotated[
        list[str] | None,
        Argument(help="Which papers; all where left out.", metavar="[PAPER...]"),
    ] = None,
    quick: Annotated[
        bool, Option("--quick", help="Fewer repetitions and shorter streams: minutes, not hours.")
    ] = False,
    to: Annotated[
        Path | None, Option(help="Folder of the results; experiments where left out.")
    ] = None,
    data: Annotated[
        Path | None,
        Option(
            help="Folder of the real data; ../shared/data where left out.", envvar="TAILRACE_DATA"
        ),
    ] = None,
    processes: Annotated[
        int | None, Option(help="Cases at a time; the cores where left out.", min=1)
    ] = None,
) -> None:
    """Repeat the papers' tables and figures, ours beside the published methods: CSV, plots and a
    page for each paper. Goes on where the last run stopped; generated data stand in for absent
    ones.
    """
    from tailrace.cli.experiments import repeat_papers

    repeat_papers(papers or [], to, data, quick=quick, processes=processes)


@app.command(epilog="Example: tailrace audit HistogramStream")
def audit(
    parts: Annotated[
        list[str] | None,
        Argument(
            help="A stream.toml, a mechanism, counter or policy, or module:name; with --gallery "
            "an exhibit; all of ours where left out.",
            metavar="[PART...]",
        ),
    ] = None,
    runs: Annotated[
        int | None,
        Option(help="Runs of each world; 200000 of a counter, 8000 of a mechanism.", min=0),
    ] = None,
    confidence: Annotated[float, Option(help="The probability that no bound is wrong.")] = 0.999999,
    fault: Annotated[
        float, Option(help="A fault to plant: noise too small by this share; 0: none.")
    ] = 0.2,
    gallery: Annotated[
        bool, Option("--gallery", help="Recompute the published flaws, and write a page of them.")
    ] = False,
    to: Annotated[
        Path | None, Option(help="With --gallery: the page; gallery.html where left out.")
    ] = None,
    json: Json = False,
) -> None:
    """Try to refute what a part claims: meter the exact loss of neighbours, and attack it with true
    noise, also in mid-stream and adaptively. Made-up rows; nothing private is read, nothing
    charged.
    """
    from tailrace.cli.audit import audit_parts, show_gallery

    if gallery:
        show_gallery(parts or [], to, json=json)
        return
    audit_parts(parts or [], runs=runs, confidence=confidence, fault=fault, json=json)


ledger = typer.Typer(
    name="ledger", help="What each population has spent, and its caps.", no_args_is_help=True
)
app.add_typer(ledger)
Ledger = Annotated[Path, Option("--ledger", help="The ledger's file.")]
Charged = Annotated[
    Path | None,
    Argument(help="A stream.toml, or a stream's folder: its ledger is shown.", metavar="STREAM"),
]
BESIDE = Path("tailrace.ledger")


@ledger.command("show", epilog="Example: tailrace ledger show stream.toml")
def ledger_show(stream: Charged = None, file: Ledger = BESIDE, json: Json = False) -> None:
    """Caps, what is spent of them, and every stream that was charged."""
    from tailrace.cli.ledger import show_ledger

    show_ledger(stream, file, json=json)


@ledger.command("deployment", epilog="Example: tailrace ledger deployment stream.toml --to dp.json")
def ledger_deployment(
    stream: Stream,
    to: Annotated[Path | None, Option(help="A new file; printed where left out.")] = None,
) -> None:
    """Make an entry for the public registry of differential-privacy deployments."""
    from tailrace.cli.deployment import write_deployment

    write_deployment(stream, to)


@ledger.command("cap", epilog='Example: tailrace ledger cap "city 2026" --epsilon 2')
def ledger_cap(
    population: Annotated[str, Argument(help="Whose budget it is.")],
    epsilon: Annotated[str, Option(help="The most that all streams together may lose.")],
    delta: Annotated[Text, Option(help="For (epsilon, delta).")] = None,
    unit: Annotated[str, Option(help="Who is protected: event, or user COLUMN EVENTS.")] = "event",
    file: Ledger = BESIDE,
) -> None:
    """Set the most that a population may lose over all its streams; a stream beyond it is refused
    when it is made.
    """
    from tailrace.cli.ledger import set_cap

    set_cap(file, population, epsilon, delta, unit)
