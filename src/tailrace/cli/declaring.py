"""Flags and questions of `init` about what columns hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tailrace.cli import say
from tailrace.cli.asking import among, ask, someone
from tailrace.cli.kinds import Kind
from tailrace.config.template import attribute
from tailrace.domain import Attribute, Categorical
from tailrace.errors import ConfigError

_HOLDS = """\
What may a column hold?
  integer 0 99              whole numbers from 0 to 99
  category f m "not said"   these values
  real 0 18.5 30            numbers, counted between these edges
  boolean                   yes or no
Add outside=other to count all else as one more value, outside=clip to move a number to the nearest
that is allowed."""


def attributes_of(
    kind: Kind, given: Sequence[str], names: Sequence[str], left: Sequence[str]
) -> tuple[tuple[str, Attribute], ...]:
    """Domains of the columns, from flags or from questions."""
    found = _flags(given)
    if not given and someone():
        say.tell(*_HOLDS.splitlines())
        found = _one(names, left) if kind.columns == 1 else _several(left or _typed())
    if not found:
        raise ConfigError(
            "Say what the columns may hold: --column 'age=integer 0 99', once for each column."
        )
    if kind.columns is not None and len(found) > kind.columns:
        raise ConfigError("A panel follows one column: say with one --column what it may hold.")
    return tuple(found.items())


def _flags(given: Sequence[str]) -> dict[str, Attribute]:
    """What --column says, by column."""
    found: dict[str, Attribute] = {}
    for words in given:
        name, sign, rest = words.partition("=")
        if not sign or not name:
            raise ConfigError("--column takes NAME=KIND, for example --column 'age=integer 0 99'.")
        if name in found:
            raise ConfigError("--column names a column twice: say once what it may hold.")
        found[name] = attribute(rest)
    return found


def beside(
    given: Sequence[str], names: Sequence[str], *, asked: bool
) -> tuple[tuple[str, Attribute], ...]:
    """Attributes of places, from flags or from questions; there may be none."""
    if given:
        return tuple(_flags(given).items())
    if not asked or not someone():
        return ()
    question = "What else is published of each place? (type, priority: names with commas, or none)"
    answer = ask(None, "--column", question, "none", _listed(names), offer="none")
    if answer:
        say.tell(*_HOLDS.splitlines())
    return tuple(
        (name, ask(None, "--column", f"  {name}", "category fire police", attribute))
        for name in answer
    )


def _listed(names: Sequence[str]) -> Callable[[str], list[str]]:
    """Read names or numbers of columns, with commas between, or none."""

    def read(text: str) -> list[str]:
        return [] if text == "none" else [among(names)(one.strip()) for one in text.split(",")]

    return read


def _one(names: Sequence[str], left: Sequence[str]) -> dict[str, Attribute]:
    """The column that is followed."""
    only = left[0] if len(left) == 1 else None
    name = ask(None, "--column", "Which column is followed?", "work", among(names), offer=only)
    return {name: ask(None, "--column", f"  {name}", "category yes no", attribute)}


def _several(names: Sequence[str]) -> dict[str, Attribute]:
    found: dict[str, Attribute] = {}
    while not found:
        say.tell("Which are published? (skip: not this one)")
        for name in names:
            made = ask(None, "--column", f"  {name}", "skip", _or_skip, offer="skip")
            if made is not None:
                found[name] = made
    return found


def _or_skip(text: str) -> Attribute | None:
    return None if text == "skip" else attribute(text)


def _typed() -> list[str]:
    answer = say.ask("Columns to publish, with commas between them")
    return [name.strip() for name in answer.split(",")]


def aliases_of(
    given: Sequence[str], attributes: Mapping[str, Attribute], *, asked: bool
) -> dict[str, dict[str, str]]:
    """Other spellings of values, by column, from flags or from questions."""
    listed = {name: one for name, one in attributes.items() if isinstance(one, Categorical)}
    found: dict[str, dict[str, str]] = {}
    if given and not listed:
        raise ConfigError("--alias is for the values of a category, and no column is one.")
    read = _spelt(listed)
    answers = [read(text) for text in given]
    question = "Is a value spelt in other ways, too? (city: NYC = New York, or none)"
    while listed and not given and asked and someone():
        answer = ask(None, "--alias", question, "none", read, offer="none")
        if answer is None:
            break
        answers.append(answer)
        question = "And another one?"
    for column, spellings in filter(None, answers):
        found.setdefault(column, {}).update(spellings)
    return found


def _spelt(
    listed: Mapping[str, Categorical],
) -> Callable[[str], tuple[str, dict[str, str]] | None]:
    """Read `city: NYC = New York, N.Y. = New York`."""

    def read(text: str) -> tuple[str, dict[str, str]] | None:
        if text == "none":
            return None
        name = next((one for one in listed if text.startswith(f"{one}:")), None)
        if name is None:
            raise ConfigError(
                "An alias begins with its column, for example 'city: NYC = New York'; categories "
                f"are {', '.join(listed)}."
            )
        values = {str(value) for value in listed[name].values}
        found = {}
        for pair in text[len(name) + 1 :].split(","):
            spelling, sign, value = (part.strip() for part in pair.partition("="))
            if not sign or not spelling or value not in values or spelling in values:
                raise ConfigError(
                    f"An alias stands for a value of {name}, and is none itself: 'SPELLING = "
                    "VALUE'."
                )
            found[spelling] = value
        return name, found

    return read
