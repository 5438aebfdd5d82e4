"""The command line as a process, scripts that kill processes, and a browser."""

import json
import re
import shutil
from pathlib import Path

import pytest

from processes import CALL, python, run

# scripts, not modules
collect_ignore = ["killing_runs.py", "killing_once.py", "killing_tabular.py"]


@pytest.fixture(scope="session")
def process():
    """Run a command in a process of its own; it must end with `code`, and never with a trace."""

    def call(*arguments, cwd, code=0, stdin="", script=CALL):
        done = python("-c", script, *arguments, cwd=cwd, input=stdin)
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == code, f"{done.returncode}: {done.stderr}"
        return done

    return call


@pytest.fixture(scope="session")
def killing():
    """Run a script of this folder, which prints JSON."""

    def run(script, *arguments):
        done = python(Path(__file__).with_name(script), *arguments)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="session")
def browser():
    """Open a page with a script added, in Chromium; what the script left in `data-told`."""
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("Chromium is not installed")

    def told(page, script, folder):
        moved = folder / "moved.html"
        moved.write_text(page.replace("</body>", f"{script}</body>"))
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=6000"]
        shown = run(program, *options, "--dump-dom", f"file://{moved}").stdout
        return json.loads(re.search(r'data-told="([^"]*)"', shown)[1].replace("&quot;", '"'))

    return told
