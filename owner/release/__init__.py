"""Releases of a site, all on one path: reserve, draw, commit, send."""
