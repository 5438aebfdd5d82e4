"""Durable streams: one release per step, whatever happens."""
