"""Fit values to type hints, and ask for them."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import operator
import os
import types
import typing
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from tailrace.config.problem import quoted

_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text in quotes"}
_WORDS[Path] = _WORDS[str]
_MANY = {bool: "truth values", int: "whole numbers", float: "numbers", str: "texts in quotes"}


def hints_of(make: Callable[..., Any]) -> dict[str, Any]:
    """The type of everything that a class takes, by name."""
    found: dict[str, Any] = {}
    for source in (
        make,
        getattr(make, "__init__", None),
    ):  # fields first: an __init__ of its own says what it takes
        try:
            found |= typing.get_type_hints(source)
        except (
            NameError,
            TypeError,
        ):  # the generated __init__ of a derived class, whose fields are known already
            continue
    return found


def union(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a hint, in order.

    >>> union(int | None)
    (<class 'int'>, <class 'NoneType'>)
    """
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return tuple(option for part in typing.get_args(hint) for option in union(part))
    return (hint,)


def without_none(hint: Any) -> Any:
    """The hint of a key that is left out where it is None, since TOML cannot write that."""
    return functools.reduce(
        operator.or_, [option for option in union(hint) if option is not type(None)]
    )


def is_path(hint: Any) -> bool:
    """Whether a text under this hint is the path of a file or folder.

    >>> is_path(Path), is_path(str)
    (True, False)
    """
    return any(option is Path or typing.get_origin(option) is os.PathLike for option in union(hint))


def element(hint: Any) -> Any:
    """What a list under this hint may hold.

    >>> from collections.abc import Sequence
    >>> element(Sequence[float] | None)
    <class 'float'>
    """
    held = [
        arg
        for option in union(hint)
        if _is_list(option)
        for arg in typing.get_args(option)
        if arg is not ...
    ]
    return functools.reduce(operator.or_, held) if held else Any


def fits(value: Any, hint: Any) -> bool:
    """Whether a plain value may stand where the hint is; the items of a list are asked about one by
    one.
    """
    return any(_fits(value, option) for option in union(hint))


def _fits(value: Any, option: Any) -> bool:
    if option is Any:
        return True
    if typing.get_origin(option) is typing.Literal:
        return any(
            value == choice and type(value) is type(choice) for choice in typing.get_args(option)
        )
    if isinstance(value, list):
        return _is_list(option)
    if isinstance(value, Path):
        return is_path(option)
    if option is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return inspect.isclass(option) and type(value) is option


def plain_words(hint: Any) -> str:
    """What to write, in words.

    >>> plain_words(int | None)
    'a whole number or "none"'
    """
    options = union(hint)
    if Decimal in options or Fraction in options:
        options = (float,)  # a fraction may be written as a text too, which need not be told
    words = [_WORDS[option] for option in options if option in _WORDS]
    for option in options:
        if typing.get_origin(option) is typing.Literal:
            words.append(f"one of {quoted(map(str, typing.get_args(option)))}")
    if any(map(_is_list, options)):
        held = [_MANY[option] for option in union(element(hint)) if option in _MANY]
        words.append(f"a list of {' or '.join(held)}" if held else "a list")
    if type(None) in options and str not in options:
        words.append('"none"')
    return " or ".join(words) or "something else"


def _is_list(option: Any) -> bool:
    origin = typing.get_origin(option) or option
    return (
        inspect.isclass(origin)
        and issubclass(origin, collections.abc.Sequence)
        and origin is not str
    )
