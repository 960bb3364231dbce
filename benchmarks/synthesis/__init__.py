"""What synthetic rows are worth on public data."""
