"""Synthetic rows: from component coordinates to values that a schema allows."""
