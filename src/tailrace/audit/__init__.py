"""Attacks on guarantees: published versions fail, ours pass."""

from tailrace.audit.attack import Finding, attack
from tailrace.audit.linear import proved_loss, response

__all__ = ["Finding", "attack", "proved_loss", "response"]
