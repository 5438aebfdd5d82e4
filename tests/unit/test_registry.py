"""Parts by name, and by the names that they had before."""

from processes import python
from tailrace import Box, Event, PureDP, Trajectories
from tailrace.config.parts import build
from tailrace.mechanisms.trajectories import DayClock
from tailrace.registry import FORMER, Named, parts
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


def test_parts_are_the_same_when_they_are_imported_one_by_one():
    named, known = Named(), parts()
    assert list(named) == list(known) and "Nothing" not in named
    # A policy is made anew by each call.
    assert all(named[name] == part or named[name]() is part() for name, part in known.items())


def test_a_stream_imports_no_more_than_its_own_parts(tmp_path):
    done = python(
        "-c",
        "import sys, tailrace as tr\n"
        "from tailrace.stream.directory import configuration\n"
        "budget, ages = tr.PureDP(epsilon=1), tr.Schema(age=tr.Integer(0, 9))\n"
        "parts = dict(domain=ages, privacy=budget, unit=tr.Event(), horizon=3)\n"
        "configuration(tr.HistogramStream(**parts))\n"
        "assert not {'tailrace.papers', 'tailrace.mechanisms.trajectories'} & {*sys.modules}",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-500:]
