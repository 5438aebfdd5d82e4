"""The documents are true: snippets run, names and commands are documented, links lead somewhere,
headings are there.
"""

import csv
import dataclasses
import importlib.util
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import tailrace
from tailrace import ask, audit, checks, counters, domain, papers
from tailrace.calendar import Calendar
from tailrace.cli import app, say
from tailrace.config import load, parts
from tailrace.privacy.guarantee import KINDS

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
)
BENCHMARKS = ROOT / "docs" / "benchmarks.md"
REFERENCE = ROOT / "docs" / "reference" / "names.md"
COMMANDS = ROOT / "docs" / "reference" / "command-line.md"


def snippets(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)


# fits walks on a map of 256 by 256 cells
LONG = "publish-journeys.md"


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] if page.name == LONG else [])
        for page in PAGES
        if snippets(page)
    ],
    ids=lambda page: page.name,
)
def test_the_snippets_of_a_page_run_one_after_the_other(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "snippets"}
    for number, code in enumerate(snippets(page), 1):
        exec(compile(code, f"{page.name}, snippet {number}", "exec"), names)


def test_the_sentence_in_the_readme_is_what_is_printed():
    text = " ".join(
        line.removeprefix("> ")
        for line in (ROOT / "README.md").read_text().splitlines()
        if line.startswith("> ")
    )
    counter = counters.best(privacy=tailrace.PureDP(epsilon=0.5), horizon=365)
    assert text == str(
        tailrace.Guarantee(counter.loss(), tailrace.Event(), tailrace.AddRemove, horizon=365)
    )


def test_the_counters_on_the_page_were_measured():
    """Each cell of the accuracy table is in the committed results, rounded."""
    with (ROOT / "benchmarks" / "results" / "counters.csv").open() as file:
        ratios = {
            (row["counter"], row["T"]): float(row["ratio to Simple"])
            for row in csv.DictReader(file)
        }
    table = (
        re.search(r"\| binary tree.*?(?=\n\n)", BENCHMARKS.read_text(), re.S).group().splitlines()
    )
    for name, line in zip(
        ("Binary tree", "Block of 8", "best, pure", "best, delta 1e-6"), table, strict=True
    ):
        for horizon, cell in zip(("128", "1000", "4096"), line.split("|")[2:5], strict=True):
            assert cell.strip(" *") == f"{ratios[name, horizon]:.2f}", f"{name} at {horizon}"


def test_the_figures_of_the_readme_stand_on_the_page():
    table = re.search(
        r"^\| what comes in.*?(?=\n\n)", (ROOT / "README.md").read_text(), re.M | re.S
    )
    figures = re.findall(r"\d\.\d+", table.group())
    assert len(figures) > 6
    assert [one for one in figures if one not in BENCHMARKS.read_text()] == []


def measured(name):
    """The rows of committed results."""
    with (ROOT / "benchmarks" / "results" / f"{name}.csv").open() as file:
        return list(csv.reader(file))


def numbers_after(line):
    """The numbers in the page's row that begins so, cell by cell."""
    row = next(row for row in BENCHMARKS.read_text().splitlines() if row.startswith(f"| {line} |"))
    return [[float(one) for one in re.findall(r"\d+\.\d+", cell)] for cell in row.split("|")[2:-1]]


def test_the_places_on_the_page_were_measured():
    rows = {(row[0], row[1], row[2]): row[3:6] for row in measured("spatial")}
    for line, name, ours in (
        ("two circles, points that move", "circles", "ours"),
        ("generated city with deletions", "city", "ours"),
        (
            "Gowalla check-ins in New York, from the first step on",
            "gowalla",
            "ours, from the first step",
        ),
        ("the same, held until step 100 as PrivStream is", "gowalla", "ours"),
    ):
        for epsilon, cell in zip(("0.5", "1.0"), numbers_after(line), strict=True):
            ratios = rows[name, epsilon, f"{ours} / PrivStream, 1/2 for the tree"]
            assert cell == pytest.approx([float(ratio) for ratio in ratios], abs=0.0051), (
                line,
                epsilon,
            )


def test_the_tables_on_the_page_were_measured():
    header, *rows = measured("tabular")
    found = {
        (row[0], row[1]): dict(zip(header, row, strict=True)) for row in rows if row[2] == "AvgWE"
    }
    for line, name in (
        ("Adult in random order, 200 rows a step", "adult-randomized-200"),
        ("Adult sorted, so that everything moves", "adult-ordered-200"),
        ("evictions in San Francisco, every two weeks", "evictions-bi-weekly"),
    ):
        for epsilon, cell in zip(("0.5", "1.0", "4.0"), numbers_after(line), strict=True):
            row = found[name, epsilon]
            assert all(row[f"paper k={k}"] != "nan" for k in (3, 10, 16)), (
                "the best k is the best of all three"
            )
            ratios = [float(row["ours / best k"]), float(row["delta 1e-9 / best k"])]
            assert cell == pytest.approx(ratios, abs=0.0051), (line, epsilon)


def test_the_journeys_on_the_page_were_measured():
    header, *rows = measured("trajectories")
    places = [header.index(name) for name in ("SE_JSD", "FP_JSD", "moves_JSD", "QE", "trip", "tau")]
    found = {tuple(row[:5]): [row[place] for place in places] for row in rows}
    for line, key in (
        ("Geolife in Beijing: `Trajectories`", ("Geolife", "Box", "1", "ours", "measured")),
        (
            "the dissertation's method, corrected, even weights",
            ("Geolife", "Box", "1", "dissertation, Even", "measured"),
        ),
        ("PrivTrace", ("Geolife", "", "1", "PrivTrace", "printed, issue 9")),
        ("AdaTrace", ("Geolife", "", "1", "AdaTrace", "printed, issue 9")),
        (
            "Oldenburg's traffic on its roads: `Trajectories`",
            ("Oldenburg", "Roads", "1", "ours", "measured"),
        ),
    ):
        cells, values = numbers_after(line), found[key]
        if key[-1] != "measured":
            assert cells.pop(3) == [] and values.pop(3), (
                "they were judged by other rectangles: no number beside ours"
            )
        assert cells.pop() == pytest.approx([float(values.pop())], abs=0.0051), line  # tau
        assert cells == [pytest.approx([float(value)], abs=0.0006) for value in values], line


def test_the_speeds_on_the_page_were_measured():
    with (ROOT / "benchmarks" / "results" / "noise.csv").open() as file:
        rows = list(csv.DictReader(file))
    speeds, times = ([float(row[name]) for row in rows] for name in ("ours M/s", "times OpenDP"))
    assert (
        f"at {min(speeds):.0f} to {max(speeds):.0f} million draws a second"
        in BENCHMARKS.read_text()
    )
    assert f"{min(times):.0f} to {max(times):.0f} times OpenDP" in BENCHMARKS.read_text()


def test_the_reference_is_up_to_date():
    spec = importlib.util.spec_from_file_location(
        "make_reference", ROOT / "docs" / "make_reference.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for page, text in module.pages().items():
        assert page.read_text() == text, "run: python docs/make_reference.py"


def test_every_public_name_has_a_docstring_and_stands_in_the_reference():
    text = REFERENCE.read_text()
    public = {name: getattr(tailrace, name) for name in tailrace.__all__}
    modules = {f"{name}.": one for name, one in public.items() if inspect.ismodule(one)}
    assert "panel." in modules
    modules |= {"": tailrace, "ask.": ask, "audit.": audit, "checks.": checks}
    for prefix, module in modules.items():
        for name in module.__all__:
            thing = getattr(module, name)
            assert inspect.getdoc(thing), name
            assert inspect.ismodule(thing) or re.search(
                rf"### `{re.escape(prefix + name)}\b", text
            ), name
    for said in ("### `HistogramView`", "- `marginal`:", "- `present`:", "- `table`: The synth"):
        assert said in text, "views, and what is asked without brackets"


def test_every_error_is_drawn_in_the_tree():
    tree = tailrace.errors.__doc__
    for name, thing in vars(tailrace.errors).items():
        if inspect.isclass(thing):
            assert re.search(rf"\b{name}\b", tree)
            assert name in tailrace.__all__


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target


@pytest.mark.parametrize("name", ["make demo", "make test"])
def test_the_first_screen_of_the_readme_says_how_to_start(name):
    assert name in "\n".join((ROOT / "README.md").read_text().splitlines()[:20])


def commands(group, words=("tailrace",)):
    """Every command of the app, by the words that call it."""
    for name, command in group.commands.items():
        inner = (*words, name)
        yield from (
            commands(command, inner)
            if hasattr(command, "commands")
            else [(" ".join(inner), command)]
        )


@pytest.mark.parametrize(("words", "command"), list(commands(typer.main.get_command(app))), ids=str)
def test_every_command_and_option_is_documented_with_an_example(words, command):
    section = re.search(
        rf"^## `{words}`\n(.*?)(?=^## |\Z)", COMMANDS.read_text(), re.M | re.S
    ).group(1)
    for parameter in command.params:
        names = (
            parameter.opts
            if parameter.param_type_name == "option"
            else [parameter.metavar or parameter.name.upper()]
        )
        assert any(f"`{name}`" in section for name in names), names
    assert re.search(rf"^```sh\n{words} ", section, re.M)


def test_every_exit_code_is_documented():
    for page in (COMMANDS, ROOT / "docs" / "how-to" / "run-every-day.md"):
        documented = set(re.findall(r"^\| (\d+)\b", page.read_text(), re.M))
        assert documented | {"0"} == set(re.findall(r"^\| (\d+) \|", say.__doc__, re.M)), page.name


def test_every_key_and_kind_of_a_configuration_is_documented():
    edges = {**parts.source_kinds(), **parts.sink_kinds()}
    tables = (*parts.source_kinds().values(), *parts.sink_kinds().values())
    keys = {"path", "population", "ledger", *(name for made in tables for name in parts.keys(made))}
    keys |= {field.name for field in dataclasses.fields(Calendar)}
    known = {
        *KINDS,
        *counters.__all__,
        *domain.__all__,
    }  # a mechanism's own keys are those of its signature
    made_of = {name: make for name, make in parts.classes().items() if name in known}
    keys |= {name for make in made_of.values() for name in parts.keys(make)}
    kinds = {*made_of, *edges}
    text = (ROOT / "docs" / "reference" / "stream-toml.md").read_text()
    for name in keys | kinds:
        assert re.search(rf"(`|\b){name}\b", text), name


def test_the_configuration_in_the_documents_can_be_used(tmp_path):
    [text] = [
        block
        for page in PAGES
        for block in re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.M | re.S)
        if "[stream]" in block
    ]
    (tmp_path / "stream.toml").write_text(text)
    config = load(tmp_path / "stream.toml")
    assert config.mechanism.horizon == 365 and config.calendar.grace == "6 hours"


def test_timers_run_the_program_by_its_place_and_as_the_user_whose_stream_it_is():
    """cron finds no program of a virtual environment; others may not look into private/."""
    text = "".join(
        (ROOT / "docs" / "how-to" / f"run-{one}.md").read_text()
        for one in ("every-day", "for-years")
    )
    services = [
        one for one in re.findall(r"^```ini\n(.*?)^```", text, re.M | re.S) if "tailrace" in one
    ]
    lines = re.findall(r"^[\d*]+ [* ]+cd .*", text, re.M)
    assert len(lines) == 2 and all(".venv/bin/tailrace" in one for one in lines)
    assert all("User=curator" in one for one in services if "ExecStart=" in one)


def test_the_units_of_systemd_are_sound(tmp_path):
    """As systemd itself reads them; programs and users of the page are not here."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd is not installed")
    pages = (ROOT / "docs" / "how-to" / f"{name}.md" for name in ("run-every-day", "run-for-years"))
    units = [
        block
        for page in pages
        for block in re.findall(r"^```ini\n(.*?)^```", page.read_text(), re.M | re.S)
    ]
    for unit in units:
        text = re.sub(r"(ExecStart=)\S+", rf"\1{sys.executable}", unit)
        text = re.sub(r"User=\w+\n|/srv/ward", lambda it: "/tmp" if "/" in it[0] else "", text)
        (tmp_path / unit.split()[1]).write_text(text)
    assert len(units) == 5
    done = subprocess.run(
        [program, "verify", *sorted(tmp_path.glob("ward*"))], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


ALGORITHMS = [
    cls for name, cls in vars(counters).items() if inspect.isclass(cls) and name != "Counter"
]
ALGORITHMS += [
    getattr(module, name)
    for module in (tailrace, papers)
    for name in module.__all__
    if hasattr(getattr(module, name), "measure")
]


@pytest.mark.parametrize("cls", ALGORITHMS, ids=lambda cls: cls.__name__)
def test_every_counter_and_mechanism_states_privacy_accuracy_source_and_departures(cls):
    own = inspect.getdoc(cls)
    text = own if "Privacy:" in own else inspect.getmodule(cls).__doc__
    places = [
        re.search(rf"^{heading}:", text, re.M)
        for heading in ("Privacy", "Accuracy", "Source", "Departs")
    ]
    assert all(places), "the four headings"
    assert [place.start() for place in places] == sorted(place.start() for place in places), (
        "in this order"
    )
