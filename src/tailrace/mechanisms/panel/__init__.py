"""Panels: people who report one value at every step."""
