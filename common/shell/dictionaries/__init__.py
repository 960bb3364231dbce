"""Public data dictionaries, for drafts of studies and for mappings; no rows are ever read."""
