"""`tailrace ledger deployment`: an entry for the public registry of deployments.

The Differential Privacy Deployments Registry (registry.opendp.org) asks for tiers of answers: what
is published and by whom (1); flavour, unit, loss and model (2); domain, what is not protected,
accounting and implementation (3). The ledger and the releases know all but the first.
"""

from __future__ import annotations

import json as encoding
from pathlib import Path
from typing import Any

from tailrace.ask import Releases, open_releases
from tailrace.cli import say
from tailrace.cli.status import Place
from tailrace.errors import StateError
from tailrace.ledger import Entry
from tailrace.privacy.loss import ZCDP, ApproxDP, Loss, PureDP
from tailrace.privacy.unit import Event, Window
from tailrace.storage.store import peek

_FLAVOURS = {PureDP: "Pure DP", ApproxDP: "Approximate DP", ZCDP: "zCDP"}
_OWN = "TO BE FILLED IN by the curator"


def write_deployment(stream: Path, to: Path | None) -> None:
    """Write a stream's entry as JSON, to a file or to the terminal."""
    place = Place.of(stream)
    (about,) = peek(place.folder / "private", "about")
    entries = place.ledger.entries()
    entry = next((one for one in entries if one.id == about["entry"]), None)
    if entry is None:
        raise StateError(f"{place.folder.name} has no entry in its ledger: nothing was charged.")
    same = [one for one in entries if one.population == entry.population]
    told = described(entry, same, open_releases(place.folder))
    if to is None:
        return say.as_json(told)
    say.write_new(to, (encoding.dumps(told, indent=2) + "\n").encode())
    return say.tell(f"Wrote {to}. Fill in what only you know, then offer it to the registry.")


def described(entry: Entry, same: list[Entry], releases: Releases) -> dict[str, Any]:
    """All that ledger and releases know of a deployment, by the registry's tiers."""
    promise = entry.guarantee
    unit = "Event" if isinstance(promise.unit, Event) else "User"
    span = promise.unit.steps if isinstance(promise.unit, Window) else None
    return {
        "tier_1": {
            "name": _OWN,
            "data_curator": _OWN,
            "intended_use": _OWN,
            "region": _OWN,
            "description": "Synthetic data, released step by step, with "
            f"{', '.join(releases.domain.columns)}.",
            "population": entry.population,
            "publication_date": entry.created,
            "steps_released": releases.step,
        },
        "tier_2": {
            "flavour": _FLAVOURS[type(promise.loss)],
            "privacy_unit": f"{unit}-level",
            "privacy_loss": _loss(promise.loss),
            "model": "Central",
        },
        "tier_3": {
            "privacy_unit_in_full": promise.short,
            "unit_within_steps": span,
            "neighbours": promise.neighbours.name,
            "guarantee": str(promise),
            "data_domain": releases.said("codebook"),
            "unprotected": "columns and their values, the number of steps and their calendar, and "
            "all settings: they are public and were not chosen from the data",
            "continual_release": {"horizon": promise.horizon, "adaptive": True},
            "post_processing": "tables and answers are functions of the noisy measurements",
            "composition": f"{len(same)} stream(s) of this population are charged; what they lose "
            "adds up",
            "charges": [one.guarantee.short for one in same],
            "mechanism": releases.said("mechanism"),
            "implementation": f"Tailrace {releases.version}; exact integer noise from the system's "
            "randomness; a ledger that refuses copies and old backups",
            "justification": _OWN,
        },
    }


def _loss(loss: Loss) -> dict[str, float]:
    names = ("epsilon", "delta") if not isinstance(loss, ZCDP) else ("rho",)
    return {name: float(getattr(loss, name)) for name in names if hasattr(loss, name)}
