"""Fit values to type hints, and ask for them."""

from __future__ import annotations

import functools
import inspect
import operator
import os
import typing
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from tailrace.calls import alternatives
from tailrace.config.problem import quoted

_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text in quotes"}
_WORDS[Path] = _WORDS[str]
_MANY = {bool: "truth values", int: "whole numbers", float: "numbers", str: "texts in quotes"}


def without_none(hint: Any) -> Any:
    """The hint of a key that is left out where it is None, since TOML cannot write that."""
    return _joined(option for option in alternatives(hint) if option is not type(None))


def is_path(hint: Any) -> bool:
    """Whether a text under this hint is the path of a file or folder.

    >>> is_path(Path), is_path(str)
    (True, False)
    """
    paths = (Path, os.PathLike)
    return any((typing.get_origin(one) or one) in paths for one in alternatives(hint))


def element(hint: Any) -> Any:
    """What a list under this hint may hold.

    >>> from collections.abc import Sequence
    >>> element(Sequence[float] | None)
    <class 'float'>
    """
    lists = filter(_is_list, alternatives(hint))
    held = [one for option in lists for one in typing.get_args(option) if one is not ...]
    return _joined(held) if held else Any


def _joined(options: Iterable[Any]) -> Any:
    return functools.reduce(operator.or_, options)


def fits(value: Any, hint: Any) -> bool:
    """Whether a plain value fits a hint, apart from the items of a list."""
    return any(_fits(value, option) for option in alternatives(hint))


def _fits(value: Any, option: Any) -> bool:
    if option is Any:
        return True
    if typing.get_origin(option) is typing.Literal:
        return any(value == one and type(value) is type(one) for one in typing.get_args(option))
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
    options = alternatives(hint)
    # A fraction may be written as a text too, which need not be told.
    if Decimal in options or Fraction in options:
        options = (float,)
    words = [_WORDS[option] for option in options if option in _WORDS]
    for option in options:
        if typing.get_origin(option) is typing.Literal:
            words.append(f"one of {quoted(map(str, typing.get_args(option)))}")
    if any(map(_is_list, options)):
        held = [_MANY[option] for option in alternatives(element(hint)) if option in _MANY]
        words.append(f"a list of {' or '.join(held)}" if held else "a list")
    if type(None) in options and str not in options:
        words.append('"none"')
    return " or ".join(words) or "something else"


def _is_list(option: Any) -> bool:
    origin = typing.get_origin(option) or option
    return inspect.isclass(origin) and issubclass(origin, Sequence) and origin is not str
