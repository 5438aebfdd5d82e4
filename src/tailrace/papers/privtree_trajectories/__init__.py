"""Trajectories over the cells of a PrivTree."""
