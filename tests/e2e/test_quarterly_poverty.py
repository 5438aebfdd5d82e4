"""The example runs as its page says, and its answers are near the truth."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "quarterly_poverty.py"


def test_the_four_questions_of_four_quarters(tmp_path):
    done = subprocess.run(
        [sys.executable, EXAMPLE], capture_output=True, text=True, cwd=tmp_path, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers = re.findall(r"([\d.]+) \+- ([\d.]+) +\(true: ([\d.]+)\)", done.stdout)
    assert len(answers) == 16
    for value, error, truth in answers:
        assert abs(float(value) - float(truth)) < 5 * float(error)
    assert "not charged to any ledger" in done.stdout
