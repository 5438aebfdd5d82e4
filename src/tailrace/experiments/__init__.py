"""Experiments: each paper's tables and figures, ours beside the published."""

from __future__ import annotations

import importlib

from tailrace.experiments.paper import Paper

PAPERS = ("spatial", "panels", "trajectories", "tabular", "snapshots")


def paper(name: str) -> Paper:
    """The paper of that name, with its exhibits."""
    return importlib.import_module(f"tailrace.experiments.{name}").PAPER
