"""How the command line speaks: tables and JSON for people and scripts, one sentence for what is wrong, and exit codes.

| code | meaning |
|---|---|
| 0 | done |
| 1 | a file or folder cannot be written or read |
| 2 | the command was not understood |
| 3 | the configuration cannot be used |
| 4 | data of the wrong shape |
| 5 | a stream, ledger or database cannot be used as it is |
| 6 | a cap of the ledger does not allow the charge |
| 70 | a fault of Tailrace itself |
| 130 | stopped by the user |
"""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import traceback
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import typer

from tailrace.errors import BudgetExceeded, ConfigError, DataError, Error

_CODES = {ConfigError: 3, DataError: 4, BudgetExceeded: 6}


def refuse(sentence: str, code: int = 1) -> NoReturn:
    """Say what is wrong, in one sentence, and stop."""
    typer.echo(sentence, err=True)
    raise typer.Exit(code)


@contextlib.contextmanager
def sentences() -> Iterator[None]:
    """Turn every error into a sentence and a code; a trace might quote data."""
    try:
        yield
    except (typer.Exit, SystemExit):
        raise
    except (KeyboardInterrupt, typer.Abort):  # typer's own, where a question stays unanswered
        refuse("Stopped. Nothing is lost: run again to go on.", 130)
    except Error as error:
        refuse(str(error), _CODES.get(type(error), 5))
    except OSError as error:
        refuse(f"{error.filename or 'A file'} cannot be used: {(error.strerror or 'the disk refuses').lower()}.")
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{type(error).__name__} at {where.filename.rsplit('/', 1)[-1]}:{where.lineno}"
        refuse(f"A fault of Tailrace itself ({place}); nothing is lost. Please report it with this line.", 70)


def interruptible() -> None:
    """Let Ctrl-C end a wait: once Polars is loaded, the system would take the wait up again, and again."""
    if threading.current_thread() is threading.main_thread():
        signal.siginterrupt(signal.SIGINT, True)


def show(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table; a name with brackets in it is shown as it is."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold")
    for name in header:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)


def facts(pairs: Sequence[tuple[str, str]]) -> None:
    """Names and what they are, one a line."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in pairs:
        table.add_row(Text(name, style="bold"), Text(value))
    Console().print(table)


def as_json(value: Any) -> None:
    """For scripts."""
    typer.echo(json.dumps(value, indent=2))


def share(part: int, whole: int) -> str:
    """A count and its share, for the curator."""
    return f"{part:,} ({part / whole:.1%})" if whole else "0"
