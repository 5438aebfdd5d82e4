"""Mechanisms: exact counts in, noisy measurements out, one family a folder."""
