"""What is promised: losses, units, neighbours, budgets, guarantees."""
