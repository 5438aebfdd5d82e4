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
import types
import typing
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path as Folder
from typing import Any, Literal

from tailrace import counters, domain, sinks, sources
from tailrace.calls import alternatives, hints_of
from tailrace.config.hints import element, fits, is_path, plain_words, without_none
from tailrace.config.lines import Path
from tailrace.config.problem import Problem, label, missing_key, quoted, unknown_key, unknown_kind
from tailrace.counting.memory import Missing
from tailrace.domain import geometry
from tailrace.errors import ConfigError, Error
from tailrace.privacy.guarantee import KINDS
from tailrace.registry import parts, with_plugged
from tailrace.sources.settings import Unfit

Make = Callable[..., Any]
Table = Mapping[str, Any]
Given = Mapping[str, tuple[Any, Path]]
_NOTHING: Given = types.MappingProxyType({})
# TOML has no null: this stands for it where a key must be there, as an endless horizon.
_NONE = "none"
_SQLITE = "sqlite:///"
# The domain of places with attributes, which two tables describe.
_BOTH = "Places"
# Members of an enumeration, which a table names by their kind.
_CHOICES = {policy.name for policy in Missing}
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
    filled: bool
    example: str | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Region:
    """`[region]`: polygons in a file of GeoJSON or GeoParquet."""

    path: Folder
    columns: Sequence[str] = ("lon", "lat")
    cells: int = 1024
    outside: Literal["drop", "nearest"] = "drop"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Roads(_Region):
    """`[roads]`: lines in such a file, or a table of edges beside one of `nodes`."""

    nodes: Folder | None = None
    outside: Literal["drop", "nearest"] | None = None  # type: ignore[assignment]
    reach: float | None = None


_FILES: dict[Any, Any] = {geometry.Region: _Region, geometry.Roads: _Roads}


def classes() -> Mapping[str, Make]:
    """Everything that a `kind` may name."""
    # A domain is made by its class, and not from what its to_dict wrote.
    known = {**parts(), **_declared()}
    named = {*KINDS, *_CHOICES}
    return {name: make for name, make in known.items() if name in named or _is_part(make)}


@functools.cache
def source_kinds() -> dict[str, type[sources.Settings]]:
    """The settings of every source by its kind, ours and plugged in."""
    return with_plugged(sources.KINDS, _is_source)


@functools.cache
def sink_kinds() -> dict[str, type[sinks.Sink]]:
    """The class of every sink by its kind, ours and plugged in."""
    return with_plugged(sinks.KINDS, _is_sink)


def _is_part(make: Any) -> bool:
    other = _is_source(make) or _is_sink(make) or getattr(make, "_is_protocol", False)
    return inspect.isclass(make) and not other


def _is_source(make: Any) -> bool:
    return inspect.isclass(make) and issubclass(make, sources.Settings)


def _is_sink(make: Any) -> bool:
    return inspect.isclass(make) and all(hasattr(make, name) for name in ("holds", "put"))


def domains() -> dict[str, Make]:
    """The classes of domains by the name of their table: `schema`, `box`, `region`, `roads`."""
    named = (name for name in parts() if name in _declared() and name != _BOTH)
    return {name.lower(): classes()[name] for name in named}


def _declared() -> dict[str, Any]:
    """Domains and what they are made of."""
    spaces = (domain, geometry)
    return {name: getattr(module, name) for module in spaces for name in module.__all__}


def space(name: str, table: Table, folder: Folder) -> Any:
    """The domain that the table `[name]` describes; a geometry is read from a file."""
    make: Any = domains()[name]
    if make not in _FILES:
        return build(make, table, (name,))
    described = settings(_FILES[make], table, (name,), folder)
    try:
        return make.read(**vars(described))
    except Error as error:
        raise Problem((name, "path"), f"[{name}]: {error}") from None


def with_attributes(ground: Any, name: str, table: Table) -> Any:
    """The places of the table `[name]` with the attributes of the table `[schema]`."""
    given = {"ground": (ground, (name,)), "schema": (space("schema", table, Folder()), ("schema",))}
    return build(classes()[_BOTH], {}, ("schema",), given=given)


def mechanism(table: Table, space: Any, place: Path) -> Any:
    """The mechanism of `[mechanism]`, over the domain `space` that is described at `place`."""
    where: Path = ("mechanism",)
    make, rest = _chosen(table, where, _mechanisms())
    wanted = keys(make)["domain"].hint
    fitting = [name for name, kind in domains().items() if kind in alternatives(wanted)]
    if type(space) is classes()[_BOTH] and type(space) not in alternatives(wanted):
        why = f"{label(place)} has [schema] beside it, which only SpatialStream takes; keep one."
        raise Problem(place, why)
    if fitting and type(space) not in alternatives(wanted):
        why = f"does not fit {table['kind']}; describe the columns in"
        instead = " or ".join(f"[{name}]" for name in fitting)
        raise Problem(place, f"{label(place)} {why} {instead}.")
    return build(make, rest, where, given={"domain": (space, place)})


def edge(kinds: Mapping[str, Make], table: Table, where: Path, folder: Folder) -> Any:
    """The source or sink of the table at `where`, one of `kinds`, in a file of `folder`."""
    make, rest = _chosen(table, where, list(kinds), kinds)
    return settings(make, rest, where, folder)


def settings(make: Make, table: Table, where: Path, folder: Folder) -> Any:
    """As `build`; no text may be empty, and paths are relative to `folder`."""
    full = dict(table)
    for name, key in keys(make).items():
        if isinstance(table.get(name), str):
            full[name] = _in_full(table[name], name, key.hint, (*where, name), folder)
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
    make: Make, table: Table, where: Path, given: Given = _NOTHING, above: Set[str] = frozenset()
) -> Any:
    """What a class makes of the table at `where`.

    Parameters:
        given: arguments from elsewhere, with their places.
        above: what the parts that this one belongs to take themselves, and fill in here.
    """
    known = {name: key for name, key in keys(make).items() if name not in given}
    own = {name: key for name, key in known.items() if not (key.filled and name in above)}
    others = _others(make)
    for name in table:
        if name in known and name not in own:
            above_it = f"takes its {name} from [{where[0]}]; remove it here."
            raise Problem((*where, name), f"{label(where)} {above_it}")
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
        why = "cannot be made of these values; see its documentation."
        raise Problem(where, f"{label(where)}: {getattr(make, '__name__', 'it')} {why}") from None


def keys(make: Make) -> dict[str, Key]:
    """What a class takes by name, apart from fields that are not compared: code sets these."""
    if not inspect.isclass(make):
        return {}
    hints = hints_of(make)
    fields = dataclasses.fields(make) if dataclasses.is_dataclass(make) else ()
    hidden = {field.name for field in fields if not field.compare}
    examples = {field.name: field.metadata.get("example") for field in fields}
    found = {}
    for name, taken in inspect.signature(make).parameters.items():
        if taken.kind is taken.VAR_KEYWORD or name in hidden:
            continue
        hint, required = hints.get(name, Any), taken.default is taken.empty
        hint = hint if required else without_none(hint)
        found[name] = Key(hint, required, taken.default is None, examples.get(name))
    return found


def example(hint: Any, name: str = "") -> str:
    """Something that may be written where the hint is."""
    names = fitting(hint)
    if names is None or names:
        kind = (names or _unclaimed())[0]
        needed = [(key, one) for key, one in keys(classes()[kind]).items() if one.required]
        pairs = [f"{key} = {one.example or example(one.hint, key)}" for key, one in needed]
        return f"{{ {', '.join([f'kind = {quoted([kind])}', *pairs])} }}"
    for option in alternatives(hint):
        if typing.get_origin(option) is typing.Literal:
            return quoted([str(typing.get_args(option)[0])])
    if fits([], hint):
        item = alternatives(element(hint))[0]
        return '["a", "b"]' if item is str else "[1, 2]"
    plain = {bool: "true", float: "1.0", int: "10"}
    found = [text for kind, text in plain.items() if kind in alternatives(hint)]
    return _EXAMPLES.get(name) or next(iter(found), f'"{name}"')


def _others(make: Make) -> Any:
    """The hint of arguments of any name, where a class takes such; None where it does not."""
    if not inspect.isclass(make):
        return None
    taken = inspect.signature(make).parameters.values()
    found = [one.name for one in taken if one.kind is one.VAR_KEYWORD]
    return hints_of(make).get(found[0], Any) if found else None


def _value(value: Any, hint: Any, where: Path, above: Set[str]) -> Any:
    if isinstance(value, dict):
        names = fitting(hint)
        if names == []:
            raise Problem(where, f"{label(where)} must be {plain_words(hint)}, not a table.")
        make, rest = _chosen(value, where, names)
        return build(make, rest, where, above=above)
    if value == _NONE and type(None) in alternatives(hint) and str not in alternatives(hint):
        return None
    if not fits(value, hint):
        plain = fitting(hint) == []
        wanted = plain_words(hint) if plain else f"a table with a kind, for example {example(hint)}"
        raise Problem(where, f"{label(where)} must be {wanted}.")
    if isinstance(value, list):
        inner = element(hint)
        items = enumerate(value)
        return tuple(_value(item, inner, (*where, number), above) for number, item in items)
    return value


def _chosen(
    table: Table, where: Path, names: list[str] | None, among: Mapping[str, Make] | None = None
) -> tuple[Make, dict[str, Any]]:
    """The class that a table's kind names, one of `names` (None: any), and the other keys."""
    among = classes() if among is None else among
    told = _unclaimed() if names is None else names
    if "kind" not in table:
        which = f"needs the key 'kind', which is one of {quoted(told)}."
        raise Problem(where, f"{label(where)} {which}")
    kind = table["kind"]
    if not isinstance(kind, str) or kind not in (among if names is None else names):
        raise unknown_kind(where, kind, told)
    return among[kind], {name: value for name, value in table.items() if name != "kind"}


def fitting(hint: Any) -> list[str] | None:
    """The kinds that a hint allows; None where it allows any."""
    found: list[str] = []
    for option in alternatives(hint):
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
    """What a hint of Any most likely wants: no loss, unit, domain or mechanism; counters first."""
    taken = {*KINDS, *_CHOICES, *_declared(), *_mechanisms()}
    return sorted(classes().keys() - taken, key=lambda name: (name not in counters.__all__, name))


def _refused(
    message: str, where: Path, written: Mapping[str, tuple[Any, Any]], given: Given
) -> Problem:
    """A constructor's sentence, at the first key that it names: as it is, by a kind or inside."""
    for word in re.findall(r"\w+", message):
        if word in given:
            place = given[word][1]
            return Problem(place, f"{label(place)}: {message}")
        for name, (hint, value) in written.items():
            names = fitting(hint)
            inside = value if isinstance(value, dict) else ()
            if word == name or word in inside or word in (_unclaimed() if names is None else names):
                return Problem((*where, name), f"{label(where)}: {message}")
    return Problem(where, f"{label(where)}: {message}")
