"""The conformance suite, public so that plug-ins can use it."""

from tailrace.checks.counter import check_counter
from tailrace.checks.mechanism import check_mechanism
from tailrace.checks.sink import check_sink
from tailrace.checks.source import check_source
from tailrace.checks.spy import Drawn, Spy

__all__ = ["Drawn", "Spy", "check_counter", "check_mechanism", "check_sink", "check_source"]
