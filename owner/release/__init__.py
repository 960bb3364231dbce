"""What may leave a site, and the one path on which it does: reserve, draw, commit, send."""
