"""Bases that several of the papers' methods share, and the federation does not use."""
