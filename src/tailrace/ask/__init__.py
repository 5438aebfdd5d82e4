"""Ask published releases: tables, changes and answers with standard errors.

Nothing private is needed: a public folder, here or at an address, holds all of it.
"""

from tailrace.ask.answers import Marginal
from tailrace.ask.plot import Figure, plot
from tailrace.ask.question import Question, read_question
from tailrace.ask.releases import Releases, open_releases

__all__ = [
    "Figure",
    "Marginal",
    "Question",
    "Releases",
    "open_releases",
    "plot",
    "read_question",
]
