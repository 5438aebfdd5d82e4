"""Questions in words, such as `count where district = 3`.

    question    count | share | total of amount | mean of amount, then perhaps: where condition and
                condition ...
    condition   column = value | column between value and value | column in (value, value, ...)

Names and values with blanks or signs in them stand in quotes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tailrace.config.problem import nearest, one_line
from tailrace.domain import Categorical, Integer, Schema, attributes_of
from tailrace.errors import ConfigError

_TOKEN = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([=(),])|([^\s=(),"']+))""")
_WHATS = ("count", "share", "total", "mean")
_FORM = (
    "A question is written like: count where district = 3 and age between 60 and 79, or: share "
    "where sex in (f, m), or: mean of price where district = 3."
)


@dataclass(frozen=True)
class Question:
    """What is asked of the records that match.

    Their count, share, or the total or mean `of` an amount.
    """

    where: Mapping[str, Any]
    what: str = "count"
    of: str = ""

    @property
    def share(self) -> bool:
        """Whether their share is asked for."""
        return self.what == "share"


def read_question(text: str, domain: Any) -> Question:
    """Read a question about the columns of a domain.

    >>> from tailrace import Categorical, Integer, Schema
    >>> ward = Schema(sex=Categorical(["f", "m"]), age=Integer(0, 99))
    >>> read_question("count where sex = f and age between 60 and 79", ward).where
    {'sex': 'f', 'age': (60, 79)}
    """
    words = _Words(_tokens(text))
    what = next((one for one in _WHATS if words.take(one)), None)
    if what is None:
        raise ConfigError(_FORM)
    amounts = domain.amounts if isinstance(domain, Schema) else {}
    of = _amount(words, what, amounts) if what in ("total", "mean") else ""
    where: dict[str, Any] = {}
    if words.take("where"):
        while True:
            column, wanted = _condition(words, domain.bins if amounts else domain)
            if column in where:
                raise ConfigError(f"'{column}' is asked for twice: say it in one condition.")
            where[column] = wanted
            if not words.take("and"):
                break
    if not words.over:
        raise ConfigError(_FORM)
    return Question(where, what, of)


def _amount(words: _Words, what: str, amounts: Mapping[str, Any]) -> str:
    """The amount that a total or mean is of."""
    if not words.take("of"):
        raise ConfigError(f"A {what} is of an amount: {what} of price where district = 3.")
    column = words.value()
    if column not in amounts:
        there = f"there are {', '.join(amounts)}." if amounts else "this stream has none."
        raise ConfigError(f"There is no amount '{one_line(column)}': {there}")
    return column


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Words, and whether each stood in quotes."""
    found, at, text = [], 0, text.strip()
    while at < len(text):
        one = _TOKEN.match(text, at)
        if one is None:
            raise ConfigError(f"{_FORM} A quote is not closed.")
        double, single, sign, word = one.groups()
        quoted = double if double is not None else single
        found.append((quoted, True) if quoted is not None else (sign or word, False))
        at = one.end()
    return found


class _Words:
    def __init__(self, tokens: list[tuple[str, bool]]) -> None:
        self._tokens, self._at = tokens, 0

    @property
    def over(self) -> bool:
        return self._at >= len(self._tokens)

    def take(self, word: str) -> bool:
        """Step over a word of the grammar, if it comes next."""
        here = not self.over and not self._tokens[self._at][1]
        here = here and self._tokens[self._at][0].lower() == word
        self._at += here
        return here

    def value(self) -> str:
        """A name or value."""
        if self.over or (not self._tokens[self._at][1] and self._tokens[self._at][0] in "=(),"):
            raise ConfigError(_FORM)
        self._at += 1
        return self._tokens[self._at - 1][0]


def _condition(words: _Words, domain: Any) -> tuple[str, Any]:
    column = words.value()
    if column not in domain.columns:
        meant = nearest(column, domain.columns)
        there = f"did you mean '{meant}'?" if meant else f"there are {', '.join(domain.columns)}."
        raise ConfigError(f"There is no column '{one_line(column)}': {there}")
    if words.take("="):
        return column, _typed(words.value(), column, domain)
    if words.take("between"):
        low = _typed(words.value(), column, domain)
        if not words.take("and"):
            raise ConfigError(f"A range of '{column}' is written: {column} between 60 and 79.")
        return column, (low, _typed(words.value(), column, domain))
    if words.take("in") and words.take("("):
        found = [_typed(words.value(), column, domain)]
        while words.take(","):
            found.append(_typed(words.value(), column, domain))
        if words.take(")"):
            return column, found
    raise ConfigError(
        f"After '{column}' comes = VALUE, between LOW and HIGH, or in (VALUE, VALUE)."
    )


def _typed(text: str, column: str, domain: Any) -> Any:
    """A value as the column holds it."""
    attribute = attributes_of(domain).get(column)
    if isinstance(attribute, Categorical):
        for value in attribute.values:
            if str(value) == text or (
                isinstance(value, bool) and str(value).lower() == text.lower()
            ):
                return value
        return text
    try:
        return int(text) if isinstance(attribute, Integer) else float(text)
    except ValueError:
        kind = "a whole number" if isinstance(attribute, Integer) else "a number"
        raise ConfigError(f"A value of '{column}' is {kind}.") from None
