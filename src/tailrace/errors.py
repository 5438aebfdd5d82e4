"""Every error that Tailrace raises.

    Error
    ├── ConfigError          a parameter cannot be used as given
    ├── DataError            data of the wrong shape: a type, a column, a length
    ├── BudgetExceeded       a ledger's cap does not allow the charge
    ├── HorizonReached       a step beyond the horizon the guarantee covers
    └── StateError           a state, key or path cannot be used as it is
        ├── NoiseReused      a second draw from one noise path
        ├── Mismatch         a saved state belongs to another configuration
        ├── BehindLedger     a directory stands behind, or beside, its ledger's mark
        ├── SinkError        all is released, but a sink could not take it
        └── Corrupt          a saved state is damaged

    Uncapped                 a warning: a population is charged again, and has no cap

A message says what was expected, what was found and what to do. It names parameters, columns and
limits, never a data value.
"""

import re

# of a url, also of one that was taken for a path; or as a setting of it
_PASSWORD = re.compile(r"""(:/{1,2}[^\s:/]*:)\S+(?=@)|(password=)[^\s&"'\\]+""")


def without_password(text: str) -> str:
    """The text, with the password of a url blotted out.

    >>> without_password("postgresql://me:secret@host/ward")
    'postgresql://me:***@host/ward'
    """
    return _PASSWORD.sub(lambda found: f"{found[1] or found[2]}***", text)


class Error(Exception):
    """Any error raised by Tailrace."""


class ConfigError(Error, ValueError):
    """A parameter cannot be used as given."""


class DataError(Error, ValueError):
    """Data of the wrong shape; their content never raises.

    A shape is a type, a column, a length.
    """


class BudgetExceeded(Error):
    """A ledger's cap does not allow the charge."""


class HorizonReached(Error):
    """A step lies beyond the horizon of the guarantee.

    Raised before any noise is drawn.
    """


class StateError(Error):
    """A state, key or path cannot be used."""


class NoiseReused(StateError):
    """A second draw from one noise path.

    The same noise on two data sets reveals their difference.
    """


class Mismatch(StateError):
    """A saved state belongs to another configuration."""


class BehindLedger(StateError):
    """A directory stands behind, or beside, its ledger's mark."""


class SinkError(StateError):
    """All is released, but a sink could not take it."""


class Corrupt(StateError):
    """A saved state is damaged."""


class Uncapped(UserWarning):
    """A population has several charges and no cap.

    What its streams lose adds up.
    """
