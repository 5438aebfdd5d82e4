"""Tailrace: a private stream in, a public synthetic stream out.

One differential-privacy guarantee covers all of it. Names are imported when they are first asked
for, so that `tailrace --help` answers at once; the stub beside this file lists them.
"""

import importlib
import re
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

# The module of each public name, and its name there.
HOMES = {
    public: (module, name)
    for module, name, public in re.findall(
        r"^from (\S+) import (\w+) as (\w+)$", Path(__file__).with_suffix(".pyi").read_text(), re.M
    )
}
__all__ = sorted(HOMES)


def __getattr__(name: str) -> Any:
    """A public name, from the module that the stub gives."""
    if name not in HOMES:
        raise AttributeError(f"module 'tailrace' has no attribute '{name}'")
    module, there = HOMES[name]
    if module == __name__:
        found = importlib.import_module(f"{module}.{there}")
    else:
        found = getattr(__import__(module, fromlist=[there]), there)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
