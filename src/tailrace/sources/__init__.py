"""Where rows come from: one-method adapters that give a step its batch."""

from tailrace.sources.base import Batch, Feed, Portion, Source
from tailrace.sources.examine import Examination, examine
from tailrace.sources.folder import (
    FolderSource,
    NamedFiles,
    OrderedFiles,
    Shelf,
    TimedFiles,
    named_shelf,
)
from tailrace.sources.frames import Frames
from tailrace.sources.lines import Lines, LinesSource
from tailrace.sources.reading import Reader
from tailrace.sources.settings import Given, Settings
from tailrace.sources.spark import SparkFeed, SparkSource
from tailrace.sources.sql import SqlSource, SqlTable
from tailrace.sources.topic import Topic, TopicSource
from tailrace.sources.used import Used

__all__ = [
    "Batch",
    "Examination",
    "Feed",
    "FolderSource",
    "Frames",
    "Given",
    "Lines",
    "LinesSource",
    "NamedFiles",
    "OrderedFiles",
    "Portion",
    "Reader",
    "Settings",
    "Shelf",
    "Source",
    "SparkFeed",
    "SparkSource",
    "SqlSource",
    "SqlTable",
    "TimedFiles",
    "Topic",
    "TopicSource",
    "Used",
    "examine",
    "named_shelf",
]

# The kinds of `[source]`; those of other distributions come through `tailrace.registry`.
KINDS = {
    "Folder": FolderSource,
    "Lines": LinesSource,
    "Spark": SparkSource,
    "SqlTable": SqlSource,
    "Topic": TopicSource,
}
