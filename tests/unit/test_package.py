"""The package imports its names when they are asked for, and each is the one that type checkers
see.
"""

import ast
import importlib
from pathlib import Path

import pytest

import tailrace
from processes import python


def test_every_import_of_the_stub_is_a_public_name():
    tree = ast.parse(Path(tailrace.__file__).with_suffix(".pyi").read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    homes = {alias.asname: (node.module, alias.name) for node in imports for alias in node.names}
    assert homes == tailrace.HOMES
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
    assert python("-c", code).stdout == "[]\n"
    code = "from tailrace import *; print(Stream.__name__, counters.best.__name__)"
    assert python("-c", code).stdout == "Stream best\n"
