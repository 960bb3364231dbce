"""What a site is: its settings and policy, its keys, the studies it keeps."""
