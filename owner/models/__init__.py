"""Classifiers trained at a site: training, files, loading and use."""
