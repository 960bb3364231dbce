"""Shared parts of commands: console, files, tables, plots, clock and exit handling."""
