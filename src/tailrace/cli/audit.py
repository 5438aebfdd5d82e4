"""`tailrace audit`: does a part lose more than it claims?"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

from rich.console import Console

from tailrace.audit import parts
from tailrace.audit.parts import Case
from tailrace.audit.verdict import COUNTER_RUNS, MECHANISM_RUNS, Verdict, audit
from tailrace.cli import say
from tailrace.config import load
from tailrace.errors import ConfigError
from tailrace.storage.durable import place, write_file


def audit_parts(
    names: list[str], *, runs: int | None, confidence: float, fault: float, json: bool
) -> None:
    """Audit parts by name, all of ours where there is none."""
    if not 0.5 <= confidence < 1:
        raise ConfigError("--confidence must be at least 0.5 and below 1, for example 0.999.")
    if not 0 <= fault < 1:
        raise ConfigError("--fault must be at least 0 and below 1, for example 0.2.")
    if runs is not None and 0 < runs < 100:
        raise ConfigError("--runs must be 0, for the meter alone, or at least 100.")
    cases = [case for name in names or parts.built_in() for case in _cases(name)]
    about: dict[str, Any] = {
        "runs": runs,
        "confidence": confidence,
        "fault": Fraction(str(fault)) if fault else None,
    }
    verdicts = []
    console = Console(stderr=True)
    options: dict[str, Any] = {"transient": True, "disable": not console.is_terminal}
    bar = say.releasing("runs", doing="Auditing", console=console, **options)
    with say.compiling(), bar:
        task = bar.add_task("", total=sum(_work(case, runs, bool(fault)) for case in cases))
        done = 0
        for case in cases:
            verdicts.append(audit(case, **about, tell=lambda many: bar.advance(task, many)))
            done += _work(case, runs, bool(fault))
            bar.update(task, completed=done)
            if not json:
                say.tell(verdicts[-1])
    refuted = [verdict.name for verdict in verdicts if verdict.refuted]
    if json:
        say.as_json([_as_dict(verdict) for verdict in verdicts])
    elif len(verdicts) > 1:
        say.tell("", f"{len(verdicts)} audited, {len(refuted)} refuted.")
    if refuted:
        say.refuse(f"Refuted: {', '.join(refuted)}.", say.REFUTED)


def _cases(name: str) -> list[Case]:
    if name.endswith(".toml") or Path(name).is_file():
        return [parts.case_of(load(Path(name)).mechanism, name)]
    return parts.part_of(name)


def _work(case: Case, runs: int | None, planted: bool) -> int:
    """Runs to expect: three attacks and a planted fault, in two worlds."""
    many = (COUNTER_RUNS if case.counter else MECHANISM_RUNS) if runs is None else runs
    return 2 * many * (3 + planted)


def _as_dict(verdict: Verdict) -> dict[str, Any]:
    meter = verdict.metered
    return {
        "part": verdict.name,
        "claim": str(verdict.claim),
        "refuted": verdict.refuted,
        "confidence": verdict.confidence,
        "broken_promise": meter.broken or None,
        "meter": None
        if meter.broken
        else {"share": meter.share, "pair": meter.pair, "smallest_fault": meter.power},
        "attacks": [
            {
                "pair": attack.pair,
                "kind": attack.found.kind,
                "claimed": attack.claimed,
                "at_least": max(attack.found.at_least, 0.0),
                "event": list(attack.found.often),
                "runs": attack.runs,
                "smallest_fault": None if attack.power >= 1 else attack.power,
            }
            for attack in verdict.attacks
        ],
        "planted": None
        if verdict.planted is None
        else {
            "fault": float(verdict.fault),
            "meter": verdict.planted[0],
            "attack": verdict.planted[1],
        },
    }


def show_gallery(names: list[str], to: Path | None, *, json: bool) -> None:
    """Recompute published flaws, print them and write a page."""
    from tailrace.audit.exhibits import EXHIBITS
    from tailrace.report.gallery import gallery_page
    from tailrace.report.page import OURS

    unknown = [name for name in names if name not in EXHIBITS]
    if unknown:
        raise ConfigError(f"There is no exhibit {unknown[0]}: choose from {', '.join(EXHIBITS)}.")
    target = Path("gallery.html") if to is None else to
    if target.exists() and OURS.encode() not in target.read_bytes()[:1000]:
        raise ConfigError(f"{target} is there and is no page of ours: choose another with --to.")
    console, found = Console(stderr=True), []
    options: dict[str, Any] = {"transient": True, "disable": not console.is_terminal}
    bar = say.releasing("exhibits", doing="Computing", console=console, **options)
    with say.compiling(), bar:
        for name in bar.track(names or list(EXHIBITS)):
            found.append((EXHIBITS[name], EXHIBITS[name].points()))
    if json:
        say.as_json(
            [
                {
                    "name": exhibit.name,
                    "measure": exhibit.y,
                    "evidence": exhibit.evidence,
                    "points": [[x, str(a) if a == float("inf") else a, b] for x, a, b in points],
                }
                for exhibit, points in found
            ]
        )
    else:
        rows = [(one.name, one.place, *one.summary(points)) for one, points in found]
        say.show("Published flaws", ("exhibit", "where", "published", "ours"), rows)
    partial = target.with_name(f".{target.name}.partial")
    write_file(partial, gallery_page(found).encode())
    place(partial, target, "report")
    say.tell(f"Wrote the gallery to {target}.", err=json)
