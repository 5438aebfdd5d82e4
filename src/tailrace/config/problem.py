"""Sentences about a configuration's keys; file and line are added later."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable

from tailrace.config.lines import Path
from tailrace.errors import without_password


class Problem(Exception):
    """One sentence about the key at `where`."""

    def __init__(self, where: Path, sentence: str) -> None:
        super().__init__(sentence)
        self.where, self.sentence = where, sentence


def label(where: Path) -> str:
    """How a key is called: its table in brackets, then the keys below it.

    >>> label(("mechanism", "privacy", "epsilon")), label(("sink", 0, "path"))
    ('[mechanism] privacy.epsilon', '[[sink]] path')
    """
    table, *below = where
    # Its line says which of the [[tables]] it is.
    listed = bool(below) and isinstance(below[0], int)
    keys = ".".join(shown(key) for key in (below[1:] if listed else below) if isinstance(key, str))
    head = f"[[{shown(table)}]]" if listed else f"[{shown(table)}]"
    return f"{head} {keys}".rstrip()


def shown(key: object) -> str:
    """A key as it is written, on one line."""
    text = without_password(str(key))
    bare = re.fullmatch(r"[A-Za-z0-9_-]+", text)
    return text if bare else json.dumps(text, ensure_ascii=not text.isprintable())


def quoted(names: Iterable[str]) -> str:
    """Names as texts of a TOML file: "a", "b"."""
    return ", ".join(json.dumps(name, ensure_ascii=False) for name in names)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The one of the known names that `word` was probably meant to be."""
    names = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), list(names), n=1, cutoff=0.6)
    return names[found[0]] if found else None


def unknown_key(where: Path, key: str, known: Iterable[str]) -> Problem:
    """A table has a key that it should not have."""
    names = list(known)
    meant = nearest(key, names)
    others = f"it has {', '.join(names)}." if names else "remove it."
    fix = f"did you mean '{meant}'?" if meant else others
    return Problem((*where, key), f"{label(where)} has no key '{one_line(key)}'; {fix}")


def missing_key(where: Path, key: str, example: str) -> Problem:
    """A table lacks a key."""
    return Problem(where, f"{label(where)} needs the key '{key}', for example {key} = {example}.")


def unknown_kind(where: Path, kind: object, known: Iterable[str]) -> Problem:
    """A table's `kind` is none that fits."""
    names = sorted(known)
    choice = f"use one of {quoted(names)}." if len(names) > 1 else f"use {quoted(names)}."
    place = (*where, "kind")
    if not isinstance(kind, str):
        return Problem(place, f"{label(place)} must be a text in quotes; {choice}")
    meant = nearest(kind, names)
    among = f" (of {quoted(names)})" if len(names) > 1 else ""
    fix = f"did you mean {quoted([meant])}{among}?" if meant else choice
    return Problem(place, f"{label(where)} has no kind '{one_line(kind)}'; {fix}")


def one_line(text: str) -> str:
    """A name in a sentence: no line breaks, not endless."""
    return json.dumps(without_password(text), ensure_ascii=not text.isprintable())[1:-1][:80]
