"""PrivStream: a PrivTree whose leaves are counted continually."""
