"""Pages and charts that open without a network."""
