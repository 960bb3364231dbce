"""Estimates with honest intervals, from what a study has released: see `face`."""
