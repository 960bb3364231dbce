"""Bayesian networks with noise: DP-SUBN3 over several parties, and PrivBayes over one table."""
