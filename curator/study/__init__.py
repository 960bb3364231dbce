"""What a curator decides about studies and uploads: pure."""
