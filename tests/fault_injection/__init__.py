"""Whole studies by real processes, to which faults are done, and what must hold afterwards."""
