"""Every mechanism and published method on small data, and the digest of its releases.

`python tests/golden/cases.py` writes `releases.json` anew: do so only in a commit that says which
release changed and why.
"""

import hashlib
import json
import platform
from pathlib import Path

import numpy as np
import polars as pl
from llvmlite.binding import get_host_cpu_name

import tailrace as tr
from tailrace import papers

KEPT = Path(__file__).with_name("releases.json")
WARD = tr.Schema(
    sex=tr.Categorical(["f", "m"], outside="other"),
    age=tr.Integer(0, 4),
    weight=tr.Real(edges=[0, 50, 100], outside="clip"),
)
SPENT = tr.Schema(
    sex=tr.Categorical(["f", "m"]), age=tr.Integer(0, 4), weight=tr.Amount(0, 100, unit=0.5)
)
GROWING = tr.Schema(sex=tr.Categorical(["f"], outside="other", growing=2), age=tr.Integer(0, 4))
STATUS = tr.Schema(status=tr.Integer(0, 1))
BINS = tr.Schema(bin=tr.Integer(0, 15))
SQUARE = tr.Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=64)
CALLS = tr.Places(SQUARE, tr.Schema(kind=tr.Categorical(["a", "b", "c"]), level=tr.Integer(1, 2)))
# Walks on it take no time.
COARSE = tr.Box(low=(0, 0), high=(1, 1), columns=("x", "y"), cells=16)
PURE, GAUSSIAN, APPROX = tr.PureDP(epsilon=1), tr.ZCDP(rho=0.2), tr.ApproxDP(epsilon=1, delta=1e-6)


def rows(step):
    """Records of a ward: some outside the domain."""
    rng = np.random.default_rng(step)
    return pl.DataFrame(
        {
            "id": rng.integers(0, 60, 200),
            "sex": rng.choice(["f", "m", "x"], 200),
            "age": rng.integers(-1, 6, 200),
            "weight": rng.normal(50, 40, 200),
        }
    )


def people(step):
    """A panel of 100 who report 0 or 1."""
    rng = np.random.default_rng(100 + step)
    return pl.DataFrame(
        {"id": rng.permutation(100), "status": (rng.random(100) < 0.3).astype(np.int64)}
    )


def bins(step):
    """A snapshot of 400 people in 16 bins."""
    rng = np.random.default_rng(200 + step)
    return pl.DataFrame({"id": np.arange(400), "bin": rng.binomial(15, 0.3 + 0.1 * step, 400)})


def points(step):
    """Points that crowd in a corner."""
    rng = np.random.default_rng(300 + step)
    return pl.DataFrame(
        {"id": rng.integers(0, 80, 300), "x": rng.beta(2, 8, 300), "y": rng.beta(3, 3, 300)}
    )


def calls(step):
    """Points with a kind and a level; some of another kind."""
    rng, found = np.random.default_rng(350 + step), points(step)
    kind = rng.choice(["a", "b", "c", "x"], 300, p=[0.6, 0.25, 0.1, 0.05])
    return found.with_columns(kind=pl.Series(kind), level=pl.Series(rng.integers(1, 3, 300)))


def journeys(_):
    """Sixty walks of twelve people."""
    rng = np.random.default_rng(400)
    walk = np.repeat(np.arange(60), rng.integers(2, 15, 60))
    place = rng.normal(0, 0.05, (len(walk), 2)).cumsum(axis=0) % 1
    return pl.DataFrame(
        {
            "trip": walk,
            "time": np.arange(len(walk)),
            "x": place[:, 0],
            "y": place[:, 1],
            "id": walk % 12,
        }
    )


def mechanisms():
    """name -> (mechanism, rows of a step, steps)."""
    event, user = tr.Event(), tr.User(column="id", events=3)
    person, window = tr.User(column="id", records=1), tr.Window(column="id", steps=4, records=1)
    cases = {}
    for name, privacy in (("pure", PURE), ("gaussian", GAUSSIAN), ("approx", APPROX)):
        for unit in (event, user):
            table = {"domain": WARD, "privacy": privacy, "unit": unit, "horizon": 12}
            place = {**table, "domain": SQUARE}
            whose = f"{name} {type(unit).__name__.lower()}"
            cases[f"histogram {whose}"] = tr.HistogramStream(**table), rows, 3
            spent = {**table, "domain": SPENT, "totals_by": ("sex",)}
            cases[f"amounts {whose}"] = tr.HistogramStream(**spent), rows, 3
            cases[f"spatial {whose}"] = tr.SpatialStream(**place), points, 3
            cases[f"spatial retention {whose}"] = tr.SpatialStream(**place, retention=2), points, 3
            call = {**place, "domain": CALLS}
            cases[f"places {whose}"] = tr.SpatialStream(**call), calls, 3
            cases[f"places retention {whose}"] = tr.SpatialStream(**call, retention=2), calls, 3
            cases[f"tabular {whose}"] = tr.TabularStream(**table), rows, 3
            cases[f"privstream {whose}"] = papers.privstream(**place), points, 3
            cases[f"tabular_stream {whose}"] = papers.tabular_stream(**table), rows, 3
            cases[f"streaming_mwem {whose}"] = papers.streaming_mwem(**table), rows, 3
        if privacy is APPROX:
            kinds = {"domain": GROWING, "privacy": privacy, "unit": event, "horizon": 12}
            cases["growing approx event"] = (
                tr.HistogramStream(**kinds, deletes=False),
                rows,
                3,
            )
        panel = {"domain": STATUS, "privacy": privacy, "unit": tr.User(column="id"), "horizon": 6}
        if privacy is not PURE:
            for near in (tr.AddRemove, tr.Replace):
                common = {
                    **panel,
                    "neighbours": near,
                    "people": None if near is tr.AddRemove else 100,
                }
                carried = {**common, "missing": tr.Missing.Carry}
                for kind, parts in (
                    ("", carried),
                    (" joined", common),
                    (" complete", {**common, "complete": True}),
                ):
                    cases[f"panel window{kind} {name} {near}"] = (
                        tr.PanelWindow(**parts, window=2),
                        people,
                        3,
                    )
                    cases[f"panel cumulative{kind} {name} {near}"] = (
                        tr.PanelCumulative(**parts),
                        people,
                        3,
                    )
                cases[f"paper window {name} {near}"] = (
                    papers.panel_window(**common, window=2),
                    people,
                    3,
                )
                cases[f"paper cumulative {name} {near}"] = (
                    papers.panel_cumulative(**common),
                    people,
                    3,
                )
        for unit in (person, window):
            whole = {"domain": BINS, "privacy": privacy, "unit": unit, "horizon": 100}
            whose = f"{name} {type(unit).__name__.lower()}"
            cases[f"snapshot {whose}"] = tr.SnapshotHistogram(**whole), bins, 3
            cases[f"dsft {whose}"] = papers.dsft(**whole, threshold=0.2, releases=2), bins, 3
            cases[f"dsat {whose}"] = papers.dsat(**whole, releases=2), bins, 3
            cases[f"budget_distribution {whose}"] = papers.budget_distribution(**whole), bins, 3
            cases[f"budget_absorption {whose}"] = papers.budget_absorption(**whole), bins, 3
        for unit in (event, tr.User(column="id")):
            once = {
                "domain": SQUARE,
                "privacy": privacy,
                "unit": unit,
                "trajectory": "trip",
                "order": "time",
            }
            whose = f"{name} {type(unit).__name__.lower()}"
            many = {**once, "privacy": tr.PureDP(epsilon=200)}
            cases[f"trajectories, enough, {type(unit).__name__}"] = (
                tr.Trajectories(**many),
                journeys,
                1,
            )
            cases[f"trajectories {whose}"] = tr.Trajectories(**once), journeys, 1
            cases[f"paper trajectories {whose}"] = papers.trajectories(**once), journeys, 1
        for unit in (event, tr.User(column="id", events=2)):
            trips = {"domain": COARSE, "privacy": privacy, "unit": unit, "horizon": 8}
            whose = f"{name} {type(unit).__name__.lower()}"
            stream = tr.JourneyStream(**trips, trajectory="trip", order="time")
            cases[f"journeys {whose}"] = stream, journeys, 4
    return cases


def digest(mechanism, rows, steps, engine):
    """Of all that a stream releases: tables, changes and the public state."""
    found = hashlib.blake2b(digest_size=16)
    with tr.Stream(mechanism, noise=tr.Noise.insecure(1)) as stream:
        for step in range(1, steps + 1):
            gone = rows(step - 1).head(20) if mechanism.deletes and step > 1 else None
            release = stream.push(engine(rows(step)), None if gone is None else engine(gone))
            for table in (release.rows, release.added, release.removed):
                _add(found, table.cells)
                for name, values in table.columns.items():
                    found.update(name.encode())
                    _add(found, values)
            _flat(found, stream._standing.state.public)
    return found.hexdigest()


def _flat(found, part):
    """Add a state's arrays in the order of their fields."""
    if isinstance(part, np.ndarray):
        _add(found, part)
    else:
        for item in part if isinstance(part, tuple) else vars(part).values():
            _flat(found, item)


def _add(found, values):
    found.update(str(values.shape).encode())
    found.update(
        repr(values.tolist()).encode()
        if values.dtype == object
        else np.ascontiguousarray(values).tobytes()
    )


def processor():
    """A digest of this machine's floating point: vector instructions differ in the last bit of exp,
    log and sums, and compiled loops are made for the processor that is there.
    """
    x = np.random.default_rng(0).random((64, 64)) + 0.5
    parts = (
        np.exp(x),
        np.log(x),
        np.power(x, 1.7),
        np.sin(x),
        x @ x,
        x.sum(axis=0),
        np.linalg.solve(x, x[0]),
    )
    found = [*(part.tobytes() for part in parts), get_host_cpu_name().encode()]
    return hashlib.blake2b(b"".join(found), digest_size=8).hexdigest()


def write():
    """Every digest, and the processor they were made on."""
    made = {name: digest(*case, engine=lambda frame: frame) for name, case in mechanisms().items()}
    kept = {"processor": processor(), "machine": platform.machine(), "releases": made}
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    write()
