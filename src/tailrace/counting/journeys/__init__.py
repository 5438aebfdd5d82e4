"""Reading trajectories, and counting where they go."""
