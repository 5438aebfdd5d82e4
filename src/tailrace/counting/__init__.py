"""Private side: rows in, exact integers out. No noise here."""
