"""Conformance and scale of every counter over long horizons."""

import pytest

from tailrace import checks

pytestmark = pytest.mark.slow

HORIZONS = (79, 365)


def test_conformance(counter):
    checks.check_counter(counter, rows=3)
