"""A stream of journeys, killed at durable writes and resumed each time, releases the same journeys
to the last bit, and is charged once.
"""

import pytest

from tailrace import Stream
from tailrace.ledger import Ledger
from tailrace.storage.codec import pack


def everything(folder):
    """Tables, state arrays and marks."""
    with Stream.open(folder / "city.tail") as stream:
        releases = [stream.release(step) for step in range(1, stream.step + 1)]
        tables = [release.table.to_dict(as_series=False) for release in releases]
        state = stream._standing.state
    entries = [(e.guarantee, e.mark) for e in Ledger(folder / "tailrace.ledger").entries()]
    held = [pack(state.public), pack(state.private)]
    return {"tables": tables, "held": held, "closes": state.public.closes.tolist()} | {
        "entries": entries
    }


@pytest.mark.slow
def test_killed_and_resumed_nothing_differs(killing, tmp_path):
    killing("killing_trips.py", "unbroken", tmp_path / "unbroken")
    kills = killing("killing_trips.py", "at_writes", tmp_path / "broken")["kills"]
    whole, broken = everything(tmp_path / "unbroken"), everything(tmp_path / "broken")
    assert kills >= 4
    assert len(whole["closes"]) >= 3 and len(whole["tables"]) == 6 and whole["tables"][-1]["trip"]
    assert len(whole["entries"]) == 1 and whole == broken
