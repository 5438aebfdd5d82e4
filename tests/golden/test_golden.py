"""Releases under a known seed are the same, bit for bit, as when their digests were written."""

import json

import pytest

from golden import cases

GOLDEN = json.loads(cases.KEPT.read_text())
MECHANISMS = cases.mechanisms()
ELSEWHERE = pytest.mark.skipif(
    cases.processor() != GOLDEN["processor"],
    reason="the digests were written on a processor whose floating point differs in the last bit",
)


def test_every_case_has_a_digest():
    assert set(MECHANISMS) == set(GOLDEN["releases"])


def quick(names):
    """Leave the rest to the slow run."""
    return [
        name if name in names else pytest.param(name, marks=pytest.mark.slow) for name in MECHANISMS
    ]


# seconds each, to fit walks on a whole map; those of users are quick
WALKS = {f"trajectories {kind} event" for kind in ("pure", "gaussian", "approx")}
WALKS |= {"trajectories, enough, Event"}
FROM_PANDAS = {name for name in MECHANISMS if name.endswith("pure event")} - WALKS


@ELSEWHERE
@pytest.mark.parametrize("name", quick(set(MECHANISMS) - WALKS))
def test_a_release_is_as_it_was(name):
    assert cases.digest(*MECHANISMS[name], engine=lambda frame: frame) == GOLDEN["releases"][name]


@ELSEWHERE
@pytest.mark.parametrize("name", quick(FROM_PANDAS))
def test_a_release_is_the_same_from_pandas(name):
    assert (
        cases.digest(*MECHANISMS[name], engine=lambda frame: frame.to_pandas())
        == GOLDEN["releases"][name]
    )
