"""Synthetic rows from results, and the trees that are grown on them for a further study."""
