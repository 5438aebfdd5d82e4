"""Output of the command line: sentences, tables, JSON and exit codes.

| code | meaning |
|---|---|
| 0 | done |
| 1 | a file or folder cannot be written or read, or memory is short |
| 2 | the command was not understood |
| 3 | the configuration cannot be used |
| 4 | data of the wrong shape |
| 5 | a stream, ledger or database cannot be used as it is |
| 6 | a cap of the ledger does not allow the charge |
| 7 | all is released, but a sink could not take it |
| 8 | a step or a sink is late (`status --fail-if-late`) |
| 9 | rows are lost or never came (`check --strict`) |
| 10 | a claim is refuted (`audit`) |
| 70 | a fault of Tailrace itself |
| 130 | stopped by the user |
"""

from __future__ import annotations

import contextlib
import io
import json
import signal
import sys
import threading
import traceback
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from typer.core import TyperGroup

from tailrace import errors
from tailrace.errors import ConfigError, DataError, Error, Uncapped, without_password
from tailrace.storage.durable import place, write_file

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table

_CODES = {ConfigError: 3, DataError: 4, errors.BudgetExceeded: 6, errors.SinkError: 7}
LATE, MISSING, REFUTED = 8, 9, 10
# controls, marks that reorder text, halves of letters, line ends
_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def plain(text: object) -> str:
    """Text without control characters and passwords.

    >>> plain("cleared\\x1b[2J postgresql://me:secret@host/ward")
    'cleared\\\\x1b[2J postgresql://me:***@host/ward'
    """
    letters = ((one, unicodedata.category(one)) for one in without_password(str(text)))
    return "".join(ascii(one)[1:-1] if kind in _UNSEEN else one for one, kind in letters)


class Commands(TyperGroup):
    """Commands that end with a sentence and a code, never with a trace."""

    def invoke(self, ctx: Any) -> Any:
        with _sentences():
            return super().invoke(ctx)


def tell(*lines: object, err: bool = False) -> None:
    """Print lines as plain text."""
    for line in lines:
        typer.echo(plain(line), err=err)


def ask(question: str, default: str | None = None) -> str:
    """The answer of somebody who sits there."""
    return typer.prompt(plain(question), default=default)


def write_new(path: Path, data: bytes, *, check: Callable[[Path], object] | None = None) -> None:
    """Write a new file whole; remove it again if `check` refuses it."""
    if path.exists():
        raise ConfigError(f"{path} is there already: choose another name with --to.")
    partial = path.with_name(f".{path.name}.partial")
    try:
        write_file(partial, data)
    except OSError:
        refuse(f"{path} cannot be written: see whether its folder is there and may be written to.")
    try:
        if check is not None:
            check(partial)
    except ConfigError as error:
        partial.unlink()
        raise ConfigError(str(error).replace(partial.name, path.name)) from None
    place(partial, path, "file")


def refuse(sentence: str, code: int = 1) -> NoReturn:
    """Say what is wrong, in one sentence, and stop."""
    tell(sentence, err=True)
    raise typer.Exit(code)


@contextlib.contextmanager
def _sentences() -> Iterator[None]:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # for letters that a terminal's encoding lacks
            stream.reconfigure(errors="backslashreplace")
    try:
        with _warned():
            yield
    except (typer.Exit, SystemExit):
        raise
    except (KeyboardInterrupt, typer.Abort):  # typer's own, where a question stays unanswered
        refuse("Stopped. Nothing is lost: run again to go on.", 130)
    except Error as error:
        refuse(str(error), _CODES.get(type(error), 5))
    except OSError as error:
        why = (error.strerror or "the disk refuses").lower()
        refuse(f"{error.filename or 'A file'} cannot be used: {why}.")
    except MemoryError:
        refuse(
            "There is not enough memory; nothing is lost. Free some, or split what is read into "
            "smaller files."
        )
    except BaseException as error:  # a panic of Polars is no Exception
        if type(error).__name__ == "PanicException":
            broke = "Polars broke down on a file or table; nothing is lost."
            refuse(f"{broke} See whether it is damaged.", 4)
        # Typer's, for a command that was not understood.
        if hasattr(error, "format_message"):
            vars(error)["message"] = plain(vars(error).get("message", ""))
            raise
        if not isinstance(error, Exception):
            raise
        where = traceback.extract_tb(error.__traceback__)[-1]
        at = f"{type(error).__name__} at {where.filename.rsplit('/', 1)[-1]}:{where.lineno}"
        fault = f"A fault of Tailrace itself ({at}); nothing is lost."
        refuse(f"{fault} Please report it with this line.", 70)


@contextlib.contextmanager
def _warned() -> Iterator[None]:
    """Warnings of our own as sentences."""

    def show(message: Warning | str, category: type[Warning], *place: Any) -> None:
        ours = issubclass(category, Uncapped)
        tell(message, err=True) if ours else shown(message, category, *place)

    with warnings.catch_warnings():
        warnings.simplefilter("always", Uncapped)
        shown, warnings.showwarning = warnings.showwarning, show
        yield


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Tell whoever waits at a terminal that loops are compiled."""
    if not sys.stderr.isatty():
        yield
        return
    from numba.core import event

    class Waiting(event.Listener):
        told = False

        def on_start(self, event: object) -> None:  # noqa: ARG002
            if not self.told:
                tell("Compiling for this machine, which is done once ...", err=True)
            self.told = True

        def on_end(self, event: object) -> None: ...

    with event.install_listener("numba:compile", Waiting()):
        yield


def interruptible() -> None:
    """Let Ctrl-C end a wait, which Polars would have resumed."""
    if threading.current_thread() is threading.main_thread():
        signal.siginterrupt(signal.SIGINT, True)


def show(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; cells are shown as they are."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold")
    for name in header:
        table.add_column(name, overflow="fold")
    _print(table, rows)


def facts(pairs: Sequence[tuple[str, str]]) -> None:
    """Print names and values, one pair a line."""
    from rich.table import Table

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    _print(table, pairs)


def _print(table: Table, rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.text import Text

    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    Console().print(table)


def releasing(things: str, *, doing: str = "Releasing", **options: Any) -> Progress:
    """A bar that counts the things released, or otherwise done."""
    from rich import progress as bars

    columns = (bars.BarColumn(), bars.MofNCompleteColumn(), bars.TextColumn(things))
    return bars.Progress(doing, *columns, bars.TimeRemainingColumn(), **options)


def as_json(value: Any, *, indent: int | None = 2) -> None:
    """Print JSON in ASCII, for scripts, with DEL escaped too."""
    text = without_password(json.dumps(value, indent=indent))
    typer.echo(text.replace("\x7f", "\\u007f"))


def share(part: int, whole: int) -> str:
    """A count and its share, for the curator."""
    return f"{part:,} ({part / whole:.1%})" if whole else "0"
