"""The command line as a process, scripts that kill processes, and a browser."""

import json
import re
import shutil
from pathlib import Path

import pytest

from processes import CALL, python, run

# scripts, not modules
collect_ignore = ["killing_runs.py", "killing_once.py", "killing_tabular.py", "killing_trips.py"]


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
    """Open a page with a script added, in Chromium; what the script left in `data-told`.

    A word of the page or of Chromium on the console is a failure.
    """
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("Chromium is not installed")

    def told(page, script, folder, width=1200):
        moved = folder / "moved.html"
        moved.write_text(page.replace("</body>", f"{script}</body>"))
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=6000"]
        options += ["--enable-logging=stderr", f"--window-size={width},1000"]
        done = run(program, *options, "--dump-dom", f"file://{moved}")
        said = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
        # Reading the canvas again and again is the test's own doing.
        assert all("willReadFrequently" in line for line in said), said
        found = re.search(r'data-told="([^"]*)"', done.stdout)
        assert found, done.stderr[-2000:]
        return json.loads(found[1].replace("&quot;", '"'))

    return told
