"""Shared bases of several of the papers' methods; the federation does not use them."""
