"""The declared domain: public, never read off the data.

Rows become cell numbers, and cells rows, on every engine.
"""

from tailrace.domain.attributes import Attribute, Categorical, Integer, Real
from tailrace.domain.box import Box
from tailrace.domain.codes import Codes, from_dict
from tailrace.domain.columns import Frame
from tailrace.domain.schema import Schema

__all__ = [
    "Attribute",
    "Box",
    "Categorical",
    "Codes",
    "Frame",
    "Integer",
    "Real",
    "Schema",
    "from_dict",
]
