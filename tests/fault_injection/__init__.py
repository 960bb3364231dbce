"""Faults done to a whole study, one at a time, and a check of what each left behind."""
