"""Public data dictionaries, from which a study is drafted; no rows are ever read."""
