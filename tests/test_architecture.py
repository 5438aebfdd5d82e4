"""The architecture as a test: who may import whom, and where noise may come from."""

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "tailrace"
# A file imports only what stands above it: the order of the design page.
ORDER = (
    "errors",
    "calls",
    "calendar",
    "storage",
    "privacy",
    "noise",
    "domain",
    "counting",
    "counters",
    "models",
    "mechanisms",
    "papers",
    "registry",
    "ledger",
    "stream",
    "sources",
    "sinks",
    "pipeline",
    "spark",
    "metrics",
    "checks",
    "audit",
    "report",
    "planning",
    "experiments",
    "config",
    "ask",
    "cli",
)
FAMILIES = ("histogram", "spatial", "tabular", "panel", "snapshot", "trajectories")
PUBLIC = {"errors", "calls", "domain", "models"}  # all that the public side may know
FREE = {"__init__", "cli"}  # may import anything
FILES = sorted(SOURCE.rglob("*.py"))
MODULES = {".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in FILES}


def place(path):
    """A file's folders and name below the package, without ending."""
    return path.relative_to(SOURCE).with_suffix("").parts


def imported(path):
    """The places of what a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tailrace":
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                dotted = full if full in MODULES or f"{full}.__init__" in MODULES else node.module
                yield tuple(dotted.split(".")[1:])
        elif isinstance(node, ast.Import):
            yield from (
                tuple(alias.name.split(".")[1:])
                for alias in node.names
                if alias.name.startswith("tailrace.")
            )


def named(path):
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", FILES, ids=named)
def test_a_file_imports_only_what_stands_above_it(path):
    own = place(path)[0]
    if own in FREE:
        return
    assert own in ORDER, f"{own} has no place in the order yet"
    others = {other[0] for other in imported(path) if other and other[0] != own}
    below = [other for other in others if ORDER.index(other) > ORDER.index(own)]
    assert not below, f"{own} imports {below}, which stand below it"


@pytest.mark.parametrize("path", sorted(SOURCE.glob("mechanisms/*/*.py")), ids=named)
def test_a_family_imports_nothing_of_another(path):
    own = place(path)[1]
    families = {
        other[1] for other in imported(path) if other[:1] == ("mechanisms",) and len(other) > 1
    }
    assert not (families & set(FAMILIES)) - {own}, f"{own} imports another family"


@pytest.mark.parametrize("path", sorted(SOURCE.glob("models/**/*.py")), ids=named)
def test_the_public_side_knows_nothing_private(path):
    assert {other[0] for other in imported(path)} <= PUBLIC, (
        "a model is a function of released numbers"
    )


@pytest.mark.parametrize("path", sorted(SOURCE.glob("counting/**/*.py")), ids=named)
def test_the_private_side_draws_no_noise(path):
    assert not {other[0] for other in imported(path)} & {"noise", "counters", "models"}


def test_the_design_page_has_this_order():
    page = (SOURCE.parents[1] / "docs" / "explanation" / "design.md").read_text()
    assert tuple(re.findall(r"^\| `(\w+)` \|", page, re.M)) == ORDER


def test_the_root_is_short():
    assert len(list(SOURCE.glob("*.py"))) <= 6


@pytest.mark.parametrize("path", FILES, ids=named)
def test_no_file_is_named_for_nothing(path):
    assert path.stem not in {"utils", "util", "helpers", "common", "misc", "manager"}


@pytest.mark.parametrize("path", FILES, ids=named)
def test_noise_comes_from_noise(path):
    """Random numbers elsewhere are ordinary generators, and never where data are measured."""
    text = path.read_text()
    assert not re.search(r"\bimport (random|secrets)\b|np\.random\.(?!default_rng|Generator)", text)
    if "urandom" in text:
        assert place(path)[0] == "noise"
    if "default_rng" in text:
        assert place(path)[0] in {"checks", "report", "experiments", "stream", "noise"}, (
            "generated input or sampling, not noise"
        )
