"""Whole studies by real processes with faults, and the invariants that must hold."""
