"""Commands of ``dppca-curator``, by subject."""
