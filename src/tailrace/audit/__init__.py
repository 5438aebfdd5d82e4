"""Attacks on guarantees: published versions that fail, ours that pass, and the tools that tell them
apart.
"""

from tailrace.audit.attack import Finding, attack
from tailrace.audit.linear import proved_loss, response

__all__ = ["Finding", "attack", "proved_loss", "response"]
