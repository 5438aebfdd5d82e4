"""Releases under a known seed are the same, bit for bit, as when their digests were written."""

import importlib.util
import json
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("golden_cases", Path(__file__).with_name("cases.py"))
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)

GOLDEN = json.loads(cases.KEPT.read_text())
MECHANISMS = cases.mechanisms()
ELSEWHERE = pytest.mark.skipif(
    cases.processor() != GOLDEN["processor"],
    reason="the digests were written on a processor whose floating point differs in the last bit",
)


def test_every_case_has_a_digest():
    assert set(MECHANISMS) == set(GOLDEN["releases"])


@ELSEWHERE
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_release_is_as_it_was(name):
    assert cases.digest(*MECHANISMS[name], engine=lambda frame: frame) == GOLDEN["releases"][name]


QUICK = [name for name in MECHANISMS if name.endswith("pure event")]
REST = [pytest.param(name, marks=pytest.mark.slow) for name in MECHANISMS if name not in QUICK]


@ELSEWHERE
@pytest.mark.parametrize("name", [*QUICK, *REST])
def test_a_release_is_the_same_from_pandas(name):
    assert (
        cases.digest(*MECHANISMS[name], engine=lambda frame: frame.to_pandas())
        == GOLDEN["releases"][name]
    )
