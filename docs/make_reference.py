"""Write docs/reference/names.md, and the list of kinds at the end of stream-toml.md.

Both are made of the classes: signatures and first sentences.

python docs/make_reference.py
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import typing
from pathlib import Path

import tailrace
from tailrace import ask, audit, checks, counters
from tailrace.calls import alternatives
from tailrace.config import parts
from tailrace.config.hints import plain_words
from tailrace.domain.geometry import Places
from tailrace.mechanisms.base import Estimate
from tailrace.registry import FORMER

FOLDER = Path(__file__).parent / "reference"
# The line above the list of kinds.
KINDS = "from the classes, of which [every public name](names.md) says more.\n"


def first_paragraph(thing: object) -> str:
    text = inspect.getdoc(thing) or ""
    return " ".join(text.split("\n\n")[0].split())


def signature(name: str, thing: object) -> str:
    """`name` with its parameters, where a user passes any."""
    if isinstance(thing, type) and not dataclasses.is_dataclass(thing):
        return name  # errors, protocols, and Noise, which is made by fresh() or insecure()
    if isinstance(thing, type):
        return (
            f"{name}({', '.join(field.name for field in dataclasses.fields(thing) if field.init)})"
        )
    return f"{name}({', '.join(inspect.signature(thing).parameters)})"  # type: ignore[arg-type]


def section(title: str, prefix: str, names: list[str], module: object) -> list[str]:
    lines = [f"## {title}", ""]
    for name in names:
        thing = getattr(module, name)
        if inspect.ismodule(thing):
            continue
        if isinstance(thing, enum.Enum):
            lines += [
                f"### `{prefix}{name}`",
                "",
                f"Neighbours: {thing.value.replace('{unit}', 'the unit')}.",
                "",
            ]
            continue
        lines += [f"### `{prefix}{signature(name, thing)}`", "", first_paragraph(thing), ""]
        if isinstance(thing, type) and not issubclass(thing, Exception | enum.Enum):
            lines += members(thing)
    return lines


def members(made: type) -> list[str]:
    """Public methods and properties of a class, with their first sentences."""
    ours = [base for base in reversed(made.__mro__) if "tailrace" in base.__module__]
    bodies = {name: body for base in ours for name, body in vars(base).items()}
    lines = []
    for name, body in sorted(bodies.items()):
        held = getattr(body, "fget", getattr(body, "func", body))
        function = inspect.unwrap(getattr(held, "__func__", held))
        # not a default that is a function
        own = inspect.isfunction(function) and function.__name__ == name
        if own and not name.startswith("_") and function.__doc__:
            lines.append(f"- `{name}`: {first_paragraph(function)}")
    return [*lines, ""] if lines else []


def views() -> dict[type, list[str]]:
    """The classes of views, with the mechanisms that say they show them."""
    found: dict[type, list[str]] = {}
    for name, make in sorted(parts.classes().items()):
        show = getattr(make, "view", None)
        hint = typing.get_type_hints(show).get("return") if inspect.isfunction(show) else None
        for option in alternatives(hint):
            shown = typing.get_origin(option) or option
            if inspect.isclass(shown) and shown is not type(None):
                for one in under(shown):
                    found.setdefault(one, []).append(name)
    return dict(sorted(found.items(), key=lambda one: one[0].__name__))


def under(made: type) -> list[type]:
    """A class that can be made, or those below that can."""
    ours = (child for child in made.__subclasses__() if child.__module__.startswith("tailrace."))
    below = [one for child in ours for one in under(child)]
    return below if inspect.isabstract(made) else [made, *below]


def reference() -> str:
    lines = ["# Every public name", "", "Made by `docs/make_reference.py` from the docstrings.", ""]
    lines += section("tailrace", "", tailrace.__all__, tailrace)
    modules = {name: getattr(tailrace, name) for name in tailrace.__all__}
    modules = {name: module for name, module in modules.items() if inspect.ismodule(module)}
    for name, module in {**modules, "checks": checks, "audit": audit, "ask": ask}.items():
        lines += section(f"tailrace.{name}", f"{name}.", module.__all__, module)
    lines += ["## Views", "", "`release.view` is one of these; answers are estimates.", ""]
    for made, of in {Estimate: [], **views()}.items():
        by = [f"Of {', '.join(f'`{name}`' for name in of)}.", ""] if of else []
        lines += [f"### `{made.__name__}`", "", first_paragraph(made), "", *by, *members(made)]
    lines += ["The commands have [a page of their own](command-line.md).", ""]
    return "\n".join(lines).rstrip() + "\n"


def configuration() -> str:
    """The page of stream.toml, its list of kinds made anew."""
    own = {*parts.domains().values(), Places}
    classes = [
        (name, make)
        for name, make in sorted(parts.classes().items())
        if inspect.isclass(make) and make not in own and name not in FORMER
    ]
    mechanisms = [one for one in classes if hasattr(one[1], "measure")]
    tables = {
        "`[mechanism]`": mechanisms,
        "a counter": [one for one in classes if one[0] in counters.__all__],
        "`[source]`": sorted(parts.source_kinds().items()),
        "`[[sink]]`": sorted(parts.sink_kinds().items()),
    }
    tables["a part"] = [one for one in classes if one not in mechanisms + tables["a counter"]]
    lines = ["", "| of | kind | keys |", "|---|---|---|"]
    for table, kinds in tables.items():
        given = {"domain"} if kinds is mechanisms else {"domain", "privacy", "horizon"}
        for name, make in kinds:
            keys = [(key, one) for key, one in parts.keys(make).items() if key not in given]
            told = (f"`{key}`" if one.required else f"[`{key}`]" for key, one in keys)
            lines.append(f"| {table} | `{name}` | {', '.join(told) or 'none'} |")
    lines += ["", "### Every key of every mechanism", ""]
    lines += ["| kind | key | takes | where left out |", "|---|---|---|---|"]
    for name, make in mechanisms:
        defaults = inspect.signature(make).parameters
        for key, one in parts.keys(make).items():
            if key != "domain":
                left_out = "it must be there" if one.required else default(defaults[key].default)
                lines.append(f"| `{name}` | `{key}` | {taken(one.hint)} | {left_out} |")
    text = (FOLDER / "stream-toml.md").read_text(encoding="utf-8")
    return text.partition(KINDS)[0] + KINDS + "\n".join(lines) + "\n"


def taken(hint: object) -> str:
    """What a key takes, in words."""
    kinds = parts.fitting(hint)
    if kinds is None:
        return "a part of the list above"
    return ", ".join(f"`{kind}`" for kind in kinds) if kinds else plain_words(hint)


def default(value: object) -> str:
    """What a key is where it is left out, in words."""
    if value is None:
        return "chosen by the mechanism, or none"
    if isinstance(value, bool | int | float | str):
        return f"`{str(value).lower()}`" if isinstance(value, bool) else f"`{value}`"
    if isinstance(value, enum.Enum):
        return f'`{{ kind = "{value.name}" }}`'
    return "its defaults"


def pages() -> dict[Path, str]:
    """Each page that is made, with its text."""
    return {FOLDER / "names.md": reference(), FOLDER / "stream-toml.md": configuration()}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(f"{path.name} written")
