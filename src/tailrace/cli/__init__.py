"""The command line: one file a command."""

from tailrace.cli.main import app

__all__ = ["app"]
