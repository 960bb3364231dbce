"""Exact integer sums of coded rows and of their products."""
