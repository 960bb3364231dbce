"""Files that must not change by accident, each beside the script that made it."""
