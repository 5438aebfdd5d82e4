"""Journeys over cells: reading them, the graph of cells they move on, and walks over it. No noise and no guarantee live here."""
