"""Tailrace: a private stream in, a public synthetic stream out.

One differential-privacy guarantee covers all of it. Names are imported when they are first asked
for, so that `tailrace --help` answers at once; `__init__.pyi` lists them, for editors and for us.
"""

import importlib
import re
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

_LISTED = re.findall(
    r"^from (\S+) import (\w+) as (\w+)$", Path(__file__).with_suffix(".pyi").read_text(), re.M
)
_HOMES = {name: (module, there) for module, there, name in _LISTED}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """A public name, from the module that the list gives."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tailrace' has no attribute '{name}'")
    module, there = _HOMES[name]
    if module == "tailrace":
        found = importlib.import_module(f"tailrace.{there}")
    else:
        found = getattr(__import__(module, fromlist=[there]), there)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
