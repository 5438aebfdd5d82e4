"""The package imports its names when they are asked for, and each is the one that type checkers
see.
"""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import tailrace


def declared():
    """Each public name, with its module and its name there, as type checkers see it."""
    tree = ast.parse(Path(tailrace.__file__).with_suffix(".pyi").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("tailrace"):
            yield from ((alias.asname, (node.module, alias.name)) for alias in node.names)


def test_every_public_name_is_declared_and_is_the_one_of_its_module():
    homes = dict(declared())
    assert set(homes) == set(tailrace.__all__)
    for name, (module, there) in homes.items():
        assert getattr(tailrace, name) is getattr(importlib.import_module(module), there), name


def test_names_are_listed_and_others_are_not_there():
    assert set(tailrace.__all__) <= set(dir(tailrace))
    with pytest.raises(AttributeError, match="no attribute 'Streams'"):
        _ = tailrace.Streams


def test_importing_the_package_loads_nothing_slow():
    code = (
        "import sys, tailrace\n"
        "print([name for name in ('numpy', 'narwhals', 'numba') if name in sys.modules])"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert loaded.strip() == "[]"
    code = "from tailrace import *; print(Stream.__name__, counters.best.__name__)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert done.split() == ["Stream", "best"]
