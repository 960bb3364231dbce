"""The commands of ``dppca-curator``, by what they are about."""
