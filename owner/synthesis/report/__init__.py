"""Synthetic rows beside the site's own: figures, page, plots. Site-only."""
