"""Processes that tests start, and how long they may take."""

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from typer.testing import CliRunner

from tailrace.cli import app

# Seconds after which a process is taken to hang: a hundred times what the longest takes.
PATIENCE = 3600
CALL = "from tailrace.cli import app; app()"


def variables(**more):
    """No colours, wide lines; `tailrace` is on the path."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "COLUMNS": "120", "LANG": "C.UTF-8", **more}


@contextlib.contextmanager
def piped(text):
    """Let file descriptor 0, which lines are read from, be this text."""
    before = os.dup(0)
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        os.dup2(file.fileno(), 0)
        try:
            yield
        finally:
            os.dup2(before, 0)
            os.close(before)


def call(*arguments, cwd=".", code=0, stdin=""):
    """Call a command of Tailrace in this process; it must end with `code`."""
    variables = {"COLUMNS": "120", "LANG": "C.UTF-8"}
    with contextlib.chdir(cwd), piped(stdin):
        done = CliRunner().invoke(app, [*map(str, arguments)], env=variables)
    assert done.exit_code == code, f"{done.exit_code}: {done.output}"
    return done


def run(*command, **options):
    """Run a command to its end, and keep what it prints as text."""
    given = {"capture_output": True, "text": True, "timeout": PATIENCE, "env": variables()}
    return subprocess.run([*map(str, command)], **{**given, **options})


def python(*arguments, **options):
    """Run Python to its end."""
    return run(sys.executable, *arguments, **options)
