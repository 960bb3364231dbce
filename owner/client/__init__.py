"""The site's client for its curator."""
