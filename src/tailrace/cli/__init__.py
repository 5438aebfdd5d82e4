"""The command line: each command is a sentence over the library."""

from tailrace.cli.main import app

__all__ = ["app"]
