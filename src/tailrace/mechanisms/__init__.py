"""Mechanisms: one file, one family of algorithms."""

from tailrace.mechanisms.histogram import HistogramStream

__all__ = ["HistogramStream"]
