"""What this software makes beside what a user would take instead, on the same rows."""
