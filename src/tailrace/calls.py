"""Wrong calls of public names, told in one sentence.

`told` stands above a public class or function. A call that works is not looked at. Where a call
fails, its arguments are held against the signature and its hints: one that is missing, unknown,
given by position, a class without its brackets, or of another type is named, with a proper one.
A class that refuses a call by itself keeps its own sentence.
"""

from __future__ import annotations

import collections.abc
import contextlib
import enum
import functools
import inspect
import numbers
import types
import typing
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from tailrace.errors import ConfigError, Error

Args = tuple[Any, ...]
_Made = TypeVar("_Made", bound=Callable[..., Any])
_MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_WORDS = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a text",
    bytes: "bytes",
    types.NoneType: "None",
    np.ndarray: "an array of numbers",
}


def told(made: _Made) -> _Made:
    """Decorate a public class or function to explain wrong calls."""
    kind = inspect.isclass(made)
    inner = vars(made)["__init__"] if kind else made

    @functools.wraps(inner)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return inner(*args, **kwargs)
        except Exception as error:
            own = args[1:] if kind else args
            sentence = _sentence(made, own, kwargs, isinstance(error, Error))
            if sentence is None:
                raise
            raise ConfigError(sentence) from None

    if kind:
        setattr(made, "__init__", call)  # noqa: B010 - a type checker thinks of instances
    return typing.cast("_Made", made if kind else call)


def _sentence(made: Any, args: Args, kwargs: dict[str, Any], refused: bool) -> str | None:
    """Say what is wrong with a call that failed, unless it was refused in words of its own."""
    name, signature = made.__name__, inspect.signature(made)
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return _unbound(made, args, kwargs)
    hints = hints_of(made)
    for argument, value in bound.items():
        if signature.parameters[argument].kind in _MANY:
            continue
        options = alternatives(hints.get(argument, Any))
        if _lacks_brackets(value, options):
            given = f"{argument}={value.__name__} of {name}"
            return f"{given} lacks its brackets: write {argument}={_example(value)}."
        if not refused and not _fits(value, options):
            return f"{argument} of {name} must be {_words(options)}."
    return None


def _lacks_brackets(value: Any, options: tuple[Any, ...]) -> bool:
    ours = inspect.isclass(value) and value.__module__.startswith("tailrace")
    return ours and value in options and not issubclass(value, enum.Enum)


def _unbound(made: Any, args: Args, kwargs: dict[str, Any]) -> str:
    name, signature = made.__name__, inspect.signature(made)
    known = signature.parameters
    unknown = [argument for argument in kwargs if argument not in known]
    listed = ", ".join(known) or "none"
    if unknown:
        return f"{name} has no argument '{unknown[0]}': it has {listed}."
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    placed = [one for one in known.values() if one.kind in by_place]
    if len(args) > len(placed):
        which = "further" if placed else "its"
        example = _example_of(name, signature)
        return f"{name} takes {which} arguments by name: {example} (it has {listed})."
    twice = [one.name for one in placed[: len(args)] if one.name in kwargs]
    if twice:
        return f"{name} was given {twice[0]}= twice, by place and by name."
    missing = [one for one in _required(signature)[len(args) :] if one not in kwargs]
    words = _words(alternatives(hints_of(made).get(missing[0], Any)))
    return f"{name} needs {missing[0]}={f': {words}' if words else ''}."


def hints_of(made: Any) -> dict[str, Any]:
    """The known types of what a class or function takes, by name."""
    found: dict[str, Any] = {}
    sources = [*reversed(made.__mro__), made.__init__] if inspect.isclass(made) else [made]
    for source in sources:
        for name, hint in inspect.get_annotations(source).items():
            held = {"__annotations__": {name: hint}, "__module__": source.__module__}
            alone = type("Alone", (), held)
            # Some names are imported for type checkers only.
            with contextlib.suppress(NameError):
                found |= typing.get_type_hints(alone)
    return found


def alternatives(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a hint, in order.

    >>> alternatives(int | None)
    (<class 'int'>, <class 'NoneType'>)
    """
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return tuple(option for part in typing.get_args(hint) for option in alternatives(part))
    return (hint,)


def _fits(value: Any, options: Iterable[Any]) -> bool:
    return any(_is(value, option) for option in options)


def _is(value: Any, option: Any) -> bool:
    """Whether a value fits a hint; yes where unknown."""
    origin, inner = typing.get_origin(option) or option, typing.get_args(option)
    if origin is typing.Literal:
        return any(value is one or (type(value) is type(one) and value == one) for one in inner)
    if origin is collections.abc.Callable:
        return callable(value)
    if not inspect.isclass(origin) or origin in (Any, object):
        return True
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
    if origin in (int, float):
        kind = numbers.Integral if origin is int else numbers.Real
        return isinstance(value, kind) and not isinstance(value, bool | np.bool_)
    if getattr(origin, "_is_protocol", False):
        asked = [name for part in origin.__mro__ for name in vars(part) if not name.startswith("_")]
        return not inspect.isclass(value) and all(hasattr(value, name) for name in asked)
    letters = isinstance(value, str | bytes) and origin not in (str, bytes)
    if letters or not isinstance(value, origin):
        return False
    if not isinstance(value, collections.abc.Sequence) or not inner:
        return True
    return all(_fits(one, alternatives(inner[0])) for one in value)


def _words(options: Iterable[Any]) -> str:
    """The words for a hint's options; none where unknown."""
    each = tuple(options)
    # A text or a decimal may be given too, which need not be told.
    if Fraction in each:
        each = (float, *(option for option in each if option is types.NoneType))
    found = list(dict.fromkeys(words for option in each for words in _named(option)))
    return f"{', '.join(found[:-1])} or {found[-1]}" if len(found) > 1 else "".join(found)


def _named(option: Any) -> list[str]:
    origin, inner = typing.get_origin(option) or option, typing.get_args(option)
    if origin is typing.Literal:
        return [repr(one) for one in inner]
    if not inspect.isclass(origin) or origin in (Any, object):
        return []
    if origin in _WORDS:
        return [_WORDS[origin]]
    if issubclass(origin, enum.Enum):
        return [repr(one).removeprefix("<").partition(":")[0] for one in origin]
    if origin is collections.abc.Callable:
        return ["a function"]
    plain = origin.__module__ in ("builtins", "collections.abc")
    if plain and issubclass(origin, collections.abc.Iterable):
        held = _words(alternatives(inner[0])) if inner else ""
        return [f"a list, each {held}" if held else "a list"]
    ours = origin.__module__.startswith("tailrace")
    return [_example(origin) if ours else f"a {origin.__name__}"]


def _example(made: type) -> str:
    if getattr(made, "_is_protocol", False):
        return f"a {made.__name__}"
    return _example_of(made.__name__, inspect.signature(made))


def _example_of(name: str, signature: inspect.Signature) -> str:
    return f"{name}({', '.join(f'{one}=...' for one in _required(signature))})"


def _required(signature: inspect.Signature) -> list[str]:
    taken = signature.parameters.values()
    return [one.name for one in taken if one.default is one.empty and one.kind not in _MANY]
