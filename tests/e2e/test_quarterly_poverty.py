"""The example runs as its page says, and its answers are near the truth."""

import re
from pathlib import Path

from processes import python

EXAMPLE = Path(__file__).parents[2] / "examples" / "quarterly_poverty.py"


def test_the_four_questions_of_four_quarters(tmp_path):
    done = python(EXAMPLE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    answers = re.findall(r"([\d.]+) \+- ([\d.]+) +\(true: ([\d.]+)\)", done.stdout)
    assert len(answers) == 16
    for value, error, truth in answers:
        assert abs(float(value) - float(truth)) < 5 * float(error)
    assert "not charged to any ledger" in done.stdout
