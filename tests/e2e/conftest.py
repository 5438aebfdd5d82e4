"""The command line as a process, and configurations to give it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

collect_ignore = [
    "killing_runs.py",
    "killing_once.py",
    "killing_tabular.py",
]  # scripts, not modules

CALL = "from tailrace.cli import app; app()"
TABLES = {
    "stream": 'path = "ward.tail"\npopulation = "ward"',
    "mechanism": 'kind = "HistogramStream"\nhorizon = 5\n'
    'privacy = { kind = "PureDP", epsilon = 500 }\nunit = { kind = "Event" }',
    "schema": 'sex = { kind = "Categorical", values = ["f", "m"] }',
    "calendar": 'start = 2026-01-01\nperiod = "1 day"',
    "source": 'kind = "Folder"\npath = "incoming"\nfiles = "*.csv"\ntime = "day"',
}


def variables(**more):
    """No colours, wide lines; `tailrace` is on the path."""
    here = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "PATH": f"{here}:{os.environ['PATH']}",
        "COLUMNS": "120",
        "LANG": "C.UTF-8",
        **more,
    }


@pytest.fixture(scope="session")
def environment():
    """The variables of a process that calls `tailrace`, and more of them."""
    return variables


@pytest.fixture(scope="session")
def tailrace():
    """Run a command; what it ends with must be `code`, and never a trace."""

    def call(*arguments, cwd, code=0, stdin="", script=CALL):
        command = [sys.executable, "-c", script, *map(str, arguments)]
        done = subprocess.run(
            command,
            cwd=cwd,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            env=variables(),
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == code, f"{done.returncode}: {done.stderr}"
        return done

    return call


@pytest.fixture(scope="session")
def configure():
    """Write a stream.toml; tables by name, None for none of it, sinks as a list. At this epsilon
    noise is nearly always 0.
    """

    def write(folder, *, name="stream.toml", sinks=(), **tables):
        texts = {table: text for table, text in {**TABLES, **tables}.items() if text is not None}
        parts = [f"[{table}]\n{text}\n" for table, text in texts.items()] + [
            f"[[sink]]\n{sink}\n" for sink in sinks
        ]
        (folder / name).write_text("\n".join(parts))
        (folder / "incoming").mkdir(exist_ok=True)

    return write
