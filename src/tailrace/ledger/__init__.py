"""The ledger: the charges of each population."""

from tailrace.ledger.ledger import Entry, Ledger, Mark, population_name
from tailrace.ledger.spending import Cap, Spent

__all__ = ["Cap", "Entry", "Ledger", "Mark", "Spent", "population_name"]
