"""Where rows come from: one-method adapters that give a step its batch."""

from tailrace.sources.base import Batch, Source
from tailrace.sources.examine import Examination, examine
from tailrace.sources.folder import NamedFiles, OrderedFiles, Shelf, TimedFiles, named_shelf
from tailrace.sources.frames import Frames
from tailrace.sources.lines import Lines
from tailrace.sources.reading import Reader
from tailrace.sources.sql import SqlTable
from tailrace.sources.used import Used

__all__ = [
    "Batch",
    "Examination",
    "Frames",
    "Lines",
    "NamedFiles",
    "OrderedFiles",
    "Reader",
    "Shelf",
    "Source",
    "SqlTable",
    "TimedFiles",
    "Used",
    "examine",
    "named_shelf",
]
