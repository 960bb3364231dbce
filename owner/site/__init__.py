"""A site: its settings and policy, its keys, and the studies it keeps."""
