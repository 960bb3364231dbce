"""A site's audit bundle: its form, what a site writes, and what an auditor checks elsewhere."""
