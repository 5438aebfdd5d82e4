"""The architecture as a test: who may import whom, how long a file may be, and where noise may come from."""

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "tailrace"
ORDER = (
    *(
        "errors",
        "calls",
        "plain",
        "calendar",
        "packing",
        "durable",
        "guarding",
        "loss",
        "guarantee",
        "noise",
        "domain",
        "geometry",
        "marginals",
        "partition",
        "times",
        "plan",
        "memory",
        "journeys",
        "counters",
        "postprocess",
        "fit",
        "queries",
    ),
    *(
        "mechanisms",
        "papers",
        "release",
        "publish",
        "store",
        "ledger",
        "keep",
        "create",
        "intents",
        "fork",
        "stream",
        "once",
        "databases",
        "sources",
        "sinks",
        "flow",
        "metrics",
        "checks",
    ),
    *("audit", "report", "config", "edges", "cli"),
)
FREE = {"__init__", "cli"}  # may import anything
FILES = sorted(SOURCE.rglob("*.py"))


def part(path):
    """The noun a file belongs to: its folder, or itself."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tailrace":
            dotted = node.module.split(".")[1:]
            yield from dotted[:1] or [alias.name for alias in node.names if not alias.name.startswith("__")]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("tailrace."))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_imports_only_what_stands_above_it(path):
    own = part(path)
    if own in FREE:
        return
    assert own in ORDER, f"{own} has no place in the order yet"
    below = [other for other in imported(path) if other != own and ORDER.index(other) > ORDER.index(own)]
    assert not below, f"{own} imports {below}, which stand below it"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_file_is_longer_than_one_sitting(path):
    assert len(path.read_text().splitlines()) <= 400
    assert path.stem not in {"utils", "util", "helpers", "common", "misc", "manager"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_noise_comes_from_noise(path):
    """Random numbers elsewhere are ordinary generators, and never where data are measured."""
    text = path.read_text()
    assert not re.search(r"\bimport (random|secrets)\b|np\.random\.(?!default_rng|Generator)", text)
    if "urandom" in text:
        assert part(path) == "noise"
    if "default_rng" in text:
        assert part(path) in {"checks", "report", "keep", "noise"}, "generated input or sampling, not noise"
