"""An estimate prints two significant digits of its error, and its value to the same place."""

import math

import pytest

from tailrace.mechanisms.base import Estimate


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.1234, 0.0056, "0.1234 +- 0.0056"),
        (0.1, 0.04, "0.100 +- 0.040"),
        (0.5, 0.000123, "0.50000 +- 0.00012"),
        (12.3456, 1.5, "12.3 +- 1.5"),
        (12.3456, 9.96, "12 +- 10"),
        (0.5, 0.0996, "0.50 +- 0.10"),
        (70123.4, 812.3, "70123 +- 812"),
        (7e9, 12.7, "7000000000 +- 13"),
        (-3.14159, 0.5, "-3.14 +- 0.50"),
        (1234.0, 0.0, "1234 +- 0"),
        (0.25, 0, "0.25 +- 0"),
        (0.0, math.inf, "0 +- inf"),
        (math.nan, math.nan, "nan +- nan"),
        (math.inf, 2.0, "inf +- 2.0"),
        (1e-20, 1e-22, "1e-20 +- 1.0e-22"),
    ],
)
def test_the_text_of_an_estimate(value, error, text):
    assert str(Estimate(value, error)) == text


@pytest.mark.parametrize("exponent", range(-12, 13))
def test_no_error_above_zero_prints_as_zero(exponent):
    for lead in (1.0, 2.5, 9.94, 9.96):
        error = lead * 10.0**exponent
        value, printed = str(Estimate(0.123456789, error)).split(" +- ")
        assert float(printed) == pytest.approx(error, rel=0.05)
        assert float(value) == pytest.approx(0.123456789, abs=max(error, 1e-6))
