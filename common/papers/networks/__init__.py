"""Noised Bayesian networks: DP-SUBN3 over several parties, and PrivBayes over one table."""
