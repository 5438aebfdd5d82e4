"""Panels: people who report at every step, or at some."""

from tailrace.mechanisms.panel.reshape import from_long, from_wide

__all__ = ["from_long", "from_wide"]
