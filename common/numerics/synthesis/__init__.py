"""Synthetic rows: from coordinates of components to values that a schema allows."""
