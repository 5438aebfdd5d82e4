"""Tables of many columns, kept up to date."""
