"""Comparison of synthetic rows with the site's own: figures, page, plots. Site-only."""
