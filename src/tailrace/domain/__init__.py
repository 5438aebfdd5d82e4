"""The declared domain: public, never read off the data.

Rows become cell numbers, and cells rows, on every engine.
"""

from tailrace.domain.amounts import Amount
from tailrace.domain.attributes import Categorical, Integer, Real
from tailrace.domain.box import Box
from tailrace.domain.codes import Codes, attributes_of, from_dict
from tailrace.domain.columns import Frame
from tailrace.domain.schema import Attribute, Schema

__all__ = [
    "Amount",
    "Attribute",
    "Box",
    "Categorical",
    "Codes",
    "Frame",
    "Integer",
    "Real",
    "Schema",
    "attributes_of",
    "from_dict",
]
