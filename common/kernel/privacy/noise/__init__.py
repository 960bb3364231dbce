"""Exact draws of discrete noise from random bytes."""
