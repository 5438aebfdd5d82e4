"""Random walks over cells, conditioned on both ends."""
