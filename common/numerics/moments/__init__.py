"""Exact sums of coded rows and of their products, in integers."""
