"""What a command stands on: its console, files, tables, plots and clock, and how it ends."""
