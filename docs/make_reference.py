"""Write docs/reference/names.md from the docstrings: every public name, its signature and its first
sentence.

python docs/make_reference.py
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
from pathlib import Path

import tailrace
from tailrace import (
    audit,
    checks,
    counters,
    models,
    papers,
    sinks,
    snapshots,
    sources,
    trajectories,
)

TARGET = Path(__file__).parent / "reference" / "names.md"


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
            for method, body in sorted(vars(thing).items()):
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
    lines += ["The commands have [a page of their own](command-line.md).", ""]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
    print(f"{TARGET.name} written")
