"""Write docs/reference/names.md, and the list of kinds at the end of stream-toml.md.

Both are made of the classes: signatures and first sentences.

python docs/make_reference.py
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
from pathlib import Path

import tailrace
from tailrace import (
    ask,
    audit,
    checks,
    counters,
    metrics,
    models,
    papers,
    queries,
    sinks,
    snapshots,
    sources,
    spark,
    trajectories,
)
from tailrace.config import parts
from tailrace.config.hints import plain_words
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
            ours = [base for base in reversed(thing.__mro__) if "tailrace" in base.__module__]
            methods = {name: body for base in ours for name, body in vars(base).items()}
            for method, body in sorted(methods.items()):
                function = inspect.unwrap(getattr(body, "__func__", body))
                own = (
                    inspect.isfunction(function) and function.__name__ == method
                )  # not a default that is a function
                if own and not method.startswith("_") and function.__doc__:
                    lines.append(f"- `{method}`: {first_paragraph(function)}")
            if lines[-1]:
                lines.append("")
    return lines


def reference() -> str:
    lines = ["# Every public name", "", "Made by `docs/make_reference.py` from the docstrings.", ""]
    lines += section("tailrace", "", tailrace.__all__, tailrace)
    lines += section("tailrace.counters", "counters.", counters.__all__, counters)
    lines += section("tailrace.models", "models.", models.__all__, models)
    lines += section("tailrace.snapshots", "snapshots.", snapshots.__all__, snapshots)
    lines += section("tailrace.trajectories", "trajectories.", trajectories.__all__, trajectories)
    lines += section("tailrace.papers", "papers.", papers.__all__, papers)
    lines += section("tailrace.checks", "checks.", checks.__all__, checks)
    lines += section("tailrace.audit", "audit.", audit.__all__, audit)
    lines += section("tailrace.sources", "sources.", sources.__all__, sources)
    lines += section("tailrace.sinks", "sinks.", sinks.__all__, sinks)
    lines += section("tailrace.ask", "ask.", ask.__all__, ask)
    lines += section("tailrace.metrics", "metrics.", metrics.__all__, metrics)
    lines += section("tailrace.queries", "queries.", queries.__all__, queries)
    lines += section("tailrace.spark", "spark.", spark.__all__, spark)
    lines += ["The commands have [a page of their own](command-line.md).", ""]
    return "\n".join(lines).rstrip() + "\n"


def configuration() -> str:
    """The page of stream.toml, its list of kinds made anew."""
    own = set(parts.domains().values())
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
