"""The command line as a user meets it: a process, its exit code, what it prints and what it leaves."""

import re
import subprocess
import sys

import pytest


def tailrace(*arguments, cwd):
    command = [sys.executable, "-c", "from tailrace.cli import app; app()", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)


def test_the_demo_leaves_a_report_that_needs_no_network(tmp_path):
    done = tailrace("demo", "--to", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = (tmp_path / "out" / "report.html").read_text()
    assert "Whoever sees everything published over 365 steps" in report
    assert report.count("<svg") == 2
    assert not re.findall(r"(?:src|href)\s*=|@import|url\(", report), "nothing is loaded from elsewhere"
    assert set(re.findall(r"https?://[^\"\s]+", report)) == {"http://www.w3.org/2000/svg"}
    printed = done.stdout
    assert "out/report.html" in printed and "Whoever sees" in printed
    for counter in ("Simple", "Block of 8", "Binary tree", "ours, pure", "Toeplitz, delta 1e-6"):
        assert counter in printed


def test_measured_errors_in_the_demo_are_close_to_the_predicted_ones(tmp_path):
    printed = tailrace("demo", cwd=tmp_path).stdout
    rows = re.findall(r"│ (\d+\.\d+) +│ (\d+\.\d+) +│ (\d\.\d+)", printed)
    assert len(rows) == 5
    for predicted, measured, _ in rows:
        assert float(measured) == pytest.approx(float(predicted), rel=0.15)
    assert float(rows[3][2]) < 0.6, "ours, against the simple counter at the same epsilon"


def test_help_shows_an_example_for_every_command(tmp_path):
    listed = tailrace("--help", cwd=tmp_path)
    assert listed.returncode == 0
    assert "Example: tailrace demo" in tailrace("demo", "--help", cwd=tmp_path).stdout


def test_version_and_unknown_commands(tmp_path):
    assert re.fullmatch(r"tailrace \d+\.\d+\.\d+\n", tailrace("--version", cwd=tmp_path).stdout)
    wrong = tailrace("nonsense", cwd=tmp_path)
    assert wrong.returncode == 2 and "Traceback" not in wrong.stderr


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    wrong = tailrace("demo", "--to", "file/below", cwd=tmp_path)
    assert wrong.returncode == 1
    assert "Traceback" not in wrong.stderr
    assert wrong.stderr.strip().splitlines() == [
        "The report cannot be written to file/below: choose a folder with --to."
    ]


def test_starting_does_not_import_the_slow_parts(tmp_path):
    code = "import sys, tailrace.cli; print([m for m in ('numba', 'scipy', 'rich.progress') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
