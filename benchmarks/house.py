"""Measure the house: sizes, imports, words and repetition of a source tree.

    python benchmarks/house.py --tree before=../before/src

The folder holds the package `tailrace` (a clone's `src`). A push is counted in a process of its own that imports from FOLDER: files of the package with at
least one line run during the third `Stream.push`.
"""

import ast
import os
import re
import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path

from runner import main, measurement

COLUMNS = 100
BLOCK = 6
IMPORTS = re.compile(r"^(from \S+ import \([^)]*\)|(from|import) [^\n]*)$", re.M)
PUSHES = {
    "spatial": """
from tailrace import Box, Event, PureDP, SpatialStream
box = Box(low=(0, 0), high=(1, 1), columns=("x", "y"))
made = SpatialStream(domain=box, privacy=PureDP(epsilon=1), unit=Event(), horizon=9)
frames = [pl.DataFrame(rng.random((500, 2)), schema=["x", "y"]) for _ in range(3)]
""",
    "tabular": """
from tailrace import Event, Integer, PureDP, Schema, TabularStream
columns = {name: Integer(0, 3) for name in "abc"}
made = TabularStream(
    domain=Schema(**columns), privacy=PureDP(epsilon=1), unit=Event(), horizon=9
)
frames = [pl.DataFrame(rng.integers(0, 4, (500, 3)), schema=list("abc")) for _ in range(3)]
""",
}
PUSH = """
import sys, tempfile
import numpy as np, polars as pl
import tailrace
rng = np.random.default_rng(1)
{made}
root, passed = tailrace.__file__.removesuffix("__init__.py"), set()

def follow(frame, event, arg):
    if not frame.f_code.co_filename.startswith(root):
        return None
    if event == "line":
        passed.add(frame.f_code.co_filename)
    return follow

with tempfile.TemporaryDirectory() as folder:
    noise = tailrace.Noise.insecure(1)
    with tailrace.Stream.create(folder + "/s", made, population="p", noise=noise) as stream:
        for frame in frames[:2]:
            stream.push(frame)
        sys.settrace(follow)
        stream.push(frames[2])
        sys.settrace(None)
print(len(passed))
"""


def passed(source: Path, made: str) -> int:
    """Files of the package that one push runs lines of."""
    variables = {**os.environ, "PYTHONPATH": str(source)}
    command = [sys.executable, "-c", PUSH.format(made=made)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    return int(done.stdout)


def importers(trees: dict[str, ast.Module]) -> list[int]:
    """How many files of the package import each file."""
    found = Counter()
    for name, tree in trees.items():
        dotted = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tailrace"):
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    dotted.add(inner if inner in trees else str(node.module))
            elif isinstance(node, ast.Import):
                dotted |= {alias.name for alias in node.names}
        found.update((dotted & trees.keys()) - {name})
    return [found[name] for name in trees]


def first_lines(trees: dict[str, ast.Module]) -> list[int]:
    """Words in the first paragraph of every docstring."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, kinds)]
    texts = [ast.get_docstring(node) for node in nodes]
    return [len(text.split("\n\n")[0].split()) for text in texts if text]


def repeated(texts: list[str]) -> int:
    """Blocks of six or more equal lines in a row that stand in two places.

    Lines are compared without indentation; blank lines, comments and imports are left out. Equal
    blocks that overlap are one block.
    """
    places: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for number, text in enumerate(texts):
        kept = [line.strip() for line in IMPORTS.sub("", text).splitlines()]
        lines = [line for line in kept if line and not line.startswith("#")]
        for start in range(len(lines) - BLOCK + 1):
            block = tuple(lines[start : start + BLOCK])
            if sum(map(len, block)) > BLOCK * 10:  # more than closing brackets
                places.setdefault(block, []).append((number, start))
    again = {place for found in places.values() for place in found[1:]}
    return sum((number, start - 1) not in again for number, start in again)


@measurement(
    "house",
    keys="tree",
    columns="files | lines | root modules | files passed by a spatial push"
    " | files passed by a tabular push | mean importers of a file .1f | files with one importer"
    f" | Any | lines over {COLUMNS} columns | median words of first lines .0f"
    f" | repeated blocks of {BLOCK} lines",
)
def house(tree="after=src"):
    """One row for a tree, LABEL=FOLDER."""
    label, _, folder = tree.partition("=")
    source = Path(__file__).parents[1].joinpath(folder).resolve()
    files = sorted((source / "tailrace").rglob("*.py"))
    if not files:
        sys.exit("Name a label and a folder: --tree before=../before/src")
    names = [".".join(file.relative_to(source).with_suffix("").parts) for file in files]
    texts = [file.read_text() for file in files]
    parsed = zip(names, map(ast.parse, texts), strict=True)
    trees = {name.removesuffix(".__init__"): one for name, one in parsed}
    lines = [line for text in texts for line in text.splitlines()]
    used = importers(trees)
    yield [
        label,
        len(files),
        len(lines),
        len(list((source / "tailrace").glob("*.py"))),
        *(passed(source, made) for made in PUSHES.values()),
        statistics.mean(used),
        sum(count == 1 for count in used),
        sum(len(re.findall(r"\bAny\b", line)) for line in lines if "import" not in line),
        sum(len(line) > COLUMNS for line in lines),
        statistics.median(first_lines(trees)),
        repeated(texts),
    ]


if __name__ == "__main__":
    main(__doc__)
