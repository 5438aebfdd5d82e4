"""Pages and plots that open without a network: HTML and SVG written here, no scripts from elsewhere."""
