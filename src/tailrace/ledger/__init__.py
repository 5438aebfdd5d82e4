"""The ledger: what each population has been charged."""

from tailrace.ledger.ledger import Entry, Ledger, Mark, population_name
from tailrace.ledger.spending import Cap, Spent

__all__ = ["Cap", "Entry", "Ledger", "Mark", "Spent", "population_name"]
