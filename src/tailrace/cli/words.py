"""Losses and units, read from words of the command line."""

from __future__ import annotations

import shlex
from decimal import Decimal, InvalidOperation

from tailrace.errors import ConfigError
from tailrace.privacy.loss import ApproxDP, Loss, PureDP
from tailrace.privacy.unit import Event, Unit, User


def budget(epsilon: str, delta: str | None) -> Loss:
    """A loss.

    >>> budget("0.5", None)
    PureDP(epsilon='0.5')
    """
    if delta is None:
        return PureDP(epsilon=_number("epsilon", epsilon))
    return ApproxDP(epsilon=_number("epsilon", epsilon), delta=_number("delta", delta))


def protected(words: str) -> Unit:
    """Who is protected.

    >>> protected("user patient 3")
    User(column='patient', events=3, records=None)
    """
    try:
        parts = shlex.split(words)
    except ValueError:
        parts = []
    if parts == ["event"]:
        return Event()
    if len(parts) == 3 and parts[0] == "user" and parts[2].isdecimal():
        return User(column=parts[1], events=int(parts[2]))
    raise ConfigError("unit is 'event', or 'user COLUMN EVENTS', for example 'user patient 3'.")


def _number(name: str, text: str) -> str:
    try:
        Decimal(text)
    except InvalidOperation:
        raise ConfigError(f"{name} must be a number, for example 1 or 0.5.") from None
    return text
