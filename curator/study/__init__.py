"""Decisions of a curator about studies and uploads: pure."""
