"""Losses of published versions and of ours, as multiples of the claim.

Each function gives points (x, published, ours) of one exhibit (`exhibits.py`); an infinite loss is
an outcome that is possible in one of two neighbouring worlds only. Exact unless the exhibit says
that it was measured.
"""
