"""PPCA-DP-MH and its parts: tables of several parties, noised moments, synthetic rows."""
