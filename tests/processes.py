"""Processes that tests start, and how long they may take."""

import contextlib
import os
import subprocess
import sys
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


def call(*arguments, cwd=".", code=0):
    """Call a command of Tailrace in this process; it must end with `code`."""
    variables = {"COLUMNS": "120", "LANG": "C.UTF-8"}
    with contextlib.chdir(cwd):
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
