"""Parts by name, and by the names that they had before."""

from tailrace import Box, Event, PureDP, Trajectories
from tailrace.config.parts import build
from tailrace.mechanisms.trajectories import DayClock
from tailrace.registry import FORMER
from tailrace.stream.directory import configuration, mechanism_of

CITY = Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=4)
CLOCK = {"start": 0, "end": 10}
TRIPS = Trajectories(
    domain=CITY,
    privacy=PureDP(epsilon=1),
    unit=Event(),
    trajectory="trip",
    order="at",
    timing=DayClock(**CLOCK),
)


def test_a_stream_kept_under_a_former_name_opens():
    assert FORMER["Clock"] == "DayClock"
    plain = configuration(TRIPS)
    assert plain["timing"]["kind"] == "DayClock"
    plain["timing"]["kind"] = "Clock"
    assert mechanism_of({"mechanism": plain}) == TRIPS


def test_a_configuration_may_name_a_part_as_before():
    table = {
        "privacy": {"kind": "PureDP", "epsilon": 1},
        "unit": {"kind": "Event"},
        "trajectory": "trip",
        "order": "at",
    }
    given = {"domain": (CITY, ("box",))}
    for kind in ("Clock", "DayClock"):
        timed = {**table, "timing": {"kind": kind, **CLOCK}}
        assert build(Trajectories, timed, ("mechanism",), given) == TRIPS
