"""Durable files, state as bytes, and the store."""
