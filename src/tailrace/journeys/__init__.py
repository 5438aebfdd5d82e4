"""Journeys over cells: reading, counting, and walks over graphs.

No noise and no guarantee live here.
"""
