"""Principal components of pooled moments, and what noise does to them."""
