"""Synthetic rows and their tables."""
