"""Make parts of their tables, by their classes' signatures.

`{ kind = "Block", size = 8 }` is `Block(size=8)`; `[source]` and `[[sink]]` are read alike.

Everything that a stored stream can be made of (`tailrace.registry.parts`) can be written in a
configuration; what it takes is read off its signature, so a new mechanism, counter, loss or unit
needs no change here.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import os
import re
import typing
from collections.abc import Callable, Mapping
from pathlib import Path as Folder
from typing import Any

from tailrace import counters, domain, sinks, sources
from tailrace.config.hints import element, fits, hints_of, is_path, plain_words, union, without_none
from tailrace.config.lines import Path
from tailrace.config.problem import Problem, label, missing_key, quoted, unknown_key, unknown_kind
from tailrace.config.spaces import FILES
from tailrace.counting.memory import Missing
from tailrace.domain import geometry
from tailrace.errors import ConfigError, Error
from tailrace.privacy.guarantee import KINDS
from tailrace.registry import parts, with_plugged
from tailrace.sources.settings import Unfit

# TOML has no null: this stands for it under a key that must be there and may stay open (the horizon
# of an endless stream)
_NONE = "none"
_SQLITE = "sqlite:///"
_CHOICES = {
    policy.name for policy in Missing
}  # members of enumerations, which a table names by their kind
_SPACES = (domain, geometry)  # the modules of domains
_EXAMPLES = {
    "horizon": "365",
    "low": "0",
    "high": "99",
    "end": "99",
    "column": '"id"',
    "delta": "1e-6",
}


@dataclasses.dataclass(frozen=True)
class Key:
    """What a class takes under one name."""

    hint: Any
    required: bool
    # None unless it is set: by the mechanism, where that takes the same.
    filled: bool = False
    example: str | None = None


def classes() -> Mapping[str, Callable[..., Any]]:
    """Everything that a `kind` may name."""
    known = {
        **parts(),
        **_declared(),
    }  # a domain is made by its class, and not from what its to_dict wrote
    return {
        name: make
        for name, make in known.items()
        if name in {*KINDS, *_CHOICES}
        or (
            inspect.isclass(make)
            and not getattr(make, "_is_protocol", False)
            and not _is_source(make)
            and not _is_sink(make)
        )
    }


@functools.cache
def source_kinds() -> dict[str, type[sources.Settings]]:
    """The settings of every source by its kind, ours and plugged in."""
    return with_plugged(sources.KINDS, _is_source)


@functools.cache
def sink_kinds() -> dict[str, type[sinks.Sink]]:
    """The class of every sink by its kind, ours and plugged in."""
    return with_plugged(sinks.KINDS, _is_sink)


def _is_source(make: Any) -> bool:
    return inspect.isclass(make) and issubclass(make, sources.Settings)


def _is_sink(make: Any) -> bool:
    return inspect.isclass(make) and all(hasattr(make, name) for name in ("holds", "put"))


def domains() -> dict[str, Callable[..., Any]]:
    """The classes of domains by the name of their table: `schema`, `box`, `region`, `roads`."""
    return {name.lower(): classes()[name] for name in parts() if name in _declared()}


def _declared() -> dict[str, Any]:
    """Domains and what they are made of."""
    return {name: getattr(module, name) for module in _SPACES for name in module.__all__}


def space(name: str, table: Mapping[str, Any], folder: Folder) -> Any:
    """The domain that the table `[name]` describes; a geometry lies in a file beside the
    configuration.
    """
    make: Any = domains()[name]
    if make not in FILES:
        return build(make, table, (name,))
    described = build(FILES[make], table, (name,))
    try:
        return described.opened(folder)
    except Error as error:
        raise Problem((name, "path"), f"[{name}]: {error}") from None


def mechanism(table: Mapping[str, Any], space: Any, place: Path) -> Any:
    """The mechanism of `[mechanism]`, over the domain `space` that is described at `place`."""
    where: Path = ("mechanism",)
    make, rest = _chosen(table, where, _mechanisms())
    wanted = keys(make)["domain"].hint
    fitting = [name for name, kind in domains().items() if kind in union(wanted)]
    if fitting and type(space) not in union(wanted):
        instead = " or ".join(f"[{name}]" for name in fitting)
        raise Problem(
            place,
            f"{label(place)} does not fit {table['kind']}; describe the columns in {instead}.",
        )
    return build(make, rest, where, given={"domain": (space, place)})


def edge(
    kinds: Mapping[str, Callable[..., Any]], table: Mapping[str, Any], where: Path, folder: Folder
) -> Any:
    """The source or sink of the table at `where`, one of `kinds`, in a file of `folder`."""
    make, rest = _chosen(table, where, list(kinds), kinds)
    return settings(make, rest, where, folder)


def settings(
    make: Callable[..., Any], table: Mapping[str, Any], where: Path, folder: Folder
) -> Any:
    """As `build`; no text may be empty, and paths are relative to `folder`."""
    known = keys(make)
    full = {
        name: _in_full(value, name, known[name].hint, (*where, name), folder)
        if isinstance(value, str) and name in known
        else value
        for name, value in table.items()
    }
    return build(make, full, where)


def _in_full(text: str, name: str, hint: Any, where: Path, folder: Folder) -> Any:
    if not text.strip() or "\0" in text:
        raise Problem(where, f"{label(where)} must not be empty, nor hold a zero character.")
    if is_path(hint):
        return _beside(text, folder)
    file = text.removeprefix(_SQLITE)
    if name == "url" and file not in ("", text):
        return f"{_SQLITE}{_beside(file, folder)}"
    return text


def _beside(path: str, folder: Folder) -> Folder:
    return Folder(os.path.abspath(os.path.join(folder, path)))


def build(
    make: Callable[..., Any],
    table: Mapping[str, Any],
    where: Path,
    given: Mapping[str, tuple[Any, Path]] | None = None,
) -> Any:
    """What a class makes of the table at `where`; `given` are arguments that stand elsewhere, with
    their places.
    """
    return _build(make, table, where, given or {}, frozenset())


def _build(
    make: Callable[..., Any],
    table: Mapping[str, Any],
    where: Path,
    given: Mapping[str, tuple[Any, Path]],
    above: frozenset[str],
) -> Any:
    """`above`: what the parts that this one belongs to take themselves, and fill in here."""
    known = {name: key for name, key in keys(make).items() if name not in given}
    own = {name: key for name, key in known.items() if not (key.filled and name in above)}
    others = _others(make)
    for name in table:
        if name in known and name not in own:
            raise Problem(
                (*where, name),
                f"{label(where)} takes its {name} from [{where[0]}]; remove it here.",
            )
        if name not in own and others is None:
            raise unknown_key(where, name, own)
    for name, key in own.items():
        if key.required and name not in table:
            raise missing_key(where, name, key.example or example(key.hint, name))
    inside = above | known.keys()
    values = {
        name: _value(value, own[name].hint if name in own else others, (*where, name), inside)
        for name, value in table.items()
    }
    try:
        return make(**{name: value for name, (value, _) in given.items()}, **values)
    except Unfit as unfit:
        place = where if unfit.key is None else (*where, unfit.key)
        raise Problem(place, f"{label(place)} {unfit.why}") from None
    except ConfigError as error:
        written = {name: (key.hint, table[name]) for name, key in own.items() if name in table}
        raise _refused(str(error), where, written, given) from None
    except (Error, TypeError, ValueError, ArithmeticError, LookupError):
        name = getattr(make, "__name__", "it")
        raise Problem(
            where, f"{label(where)}: {name} cannot be made of these values; see its documentation."
        ) from None


def keys(make: Callable[..., Any]) -> dict[str, Key]:
    """What a class takes by name, apart from what only other code sets (fields that are not
    compared).
    """
    if not inspect.isclass(make):
        return {}
    hints = hints_of(make)
    fields = dataclasses.fields(make) if dataclasses.is_dataclass(make) else ()
    hidden = {field.name for field in fields if not field.compare}
    examples = {field.name: field.metadata.get("example") for field in fields}
    taken = {
        name: parameter
        for name, parameter in inspect.signature(make).parameters.items()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD and name not in hidden
    }
    return {
        name: Key(hints.get(name, Any), required=True, example=examples.get(name))
        if parameter.default is inspect.Parameter.empty
        else Key(
            without_none(hints.get(name, Any)), required=False, filled=parameter.default is None
        )
        for name, parameter in taken.items()
    }


def example(hint: Any, name: str = "") -> str:
    """Something that may be written where the hint is."""
    names = _fitting(hint)
    if names is None or names:
        kind = (names or _unclaimed())[0]
        needed = [
            (key, taken.hint) for key, taken in keys(classes()[kind]).items() if taken.required
        ]
        return (
            "{ "
            + ", ".join(
                [f'kind = "{kind}"', *(f"{key} = {example(inner, key)}" for key, inner in needed)]
            )
            + " }"
        )
    for option in union(hint):
        if typing.get_origin(option) is typing.Literal:
            return quoted([str(typing.get_args(option)[0])])
    if fits([], hint):
        item = union(element(hint))[0]
        return '["a", "b"]' if item is str else "[1, 2]"
    plain = ((bool, "true"), (float, "1.0"), (int, "10"))
    return _EXAMPLES.get(name) or next(
        (text for kind, text in plain if kind in union(hint)), f'"{name}"'
    )


def _others(make: Callable[..., Any]) -> Any:
    """The hint of arguments of any name, where a class takes such; None where it does not."""
    if not inspect.isclass(make):
        return None
    found = [
        p.name
        for p in inspect.signature(make).parameters.values()
        if p.kind is inspect.Parameter.VAR_KEYWORD
    ]
    return hints_of(make).get(found[0], Any) if found else None


def _value(value: Any, hint: Any, where: Path, above: frozenset[str]) -> Any:
    if isinstance(value, dict):
        names = _fitting(hint)
        if names == []:
            raise Problem(where, f"{label(where)} must be {plain_words(hint)}, not a table.")
        make, rest = _chosen(value, where, names)
        return _build(make, rest, where, {}, above)
    if value == _NONE and type(None) in union(hint) and str not in union(hint):
        return None
    if not fits(value, hint):
        plain = _fitting(hint) == []
        wanted = plain_words(hint) if plain else f"a table with a kind, for example {example(hint)}"
        raise Problem(where, f"{label(where)} must be {wanted}.")
    if isinstance(value, list):
        inner = element(hint)
        return tuple(
            _value(item, inner, (*where, number), above) for number, item in enumerate(value)
        )
    return value


def _chosen(
    table: Mapping[str, Any],
    where: Path,
    names: list[str] | None,
    among: Mapping[str, Callable[..., Any]] | None = None,
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The class that a table's kind names, one of `names` (None: any), and the other keys."""
    among = classes() if among is None else among
    told = _unclaimed() if names is None else names
    if "kind" not in table:
        raise Problem(
            where, f"{label(where)} needs the key 'kind', which is one of {quoted(told)}."
        )
    kind = table["kind"]
    if not isinstance(kind, str) or kind not in (among if names is None else names):
        raise unknown_kind(where, kind, told)
    return among[kind], {name: value for name, value in table.items() if name != "kind"}


def _fitting(hint: Any) -> list[str] | None:
    """The kinds that a hint allows; None where it allows any."""
    found: list[str] = []
    for option in union(hint):
        if option is Any or getattr(option, "_is_protocol", False):
            return None
        if inspect.isclass(option) and issubclass(option, enum.Enum):
            found += [member.name for member in option if member.name in classes()]
        elif inspect.isclass(option):
            found += [name for name, make in classes().items() if make is option]
    return found


def _mechanisms() -> list[str]:
    return sorted(name for name, make in classes().items() if hasattr(make, "measure"))


def _unclaimed() -> list[str]:
    """The kinds that are no loss, unit, domain or mechanism: what a hint of Any most likely wants,
    counters first.
    """
    taken = {*KINDS, *_CHOICES, *_declared(), *_mechanisms()}
    return sorted(
        (name for name in classes() if name not in taken),
        key=lambda name: (name not in counters.__all__, name),
    )


def _refused(
    message: str,
    where: Path,
    written: Mapping[str, tuple[Any, Any]],
    given: Mapping[str, tuple[Any, Path]],
) -> Problem:
    """A constructor's own sentence, at the first key that it names: itself, by a kind it takes, or
    by a key inside it.
    """
    for word in re.findall(r"\w+", message):
        if word in given:
            place = given[word][1]
            return Problem(place, f"{label(place)}: {message}")
        for name, (hint, value) in written.items():
            names = _fitting(hint)
            inside = value if isinstance(value, dict) else ()
            if word == name or word in inside or word in (_unclaimed() if names is None else names):
                return Problem((*where, name), f"{label(where)}: {message}")
    return Problem(where, f"{label(where)}: {message}")
