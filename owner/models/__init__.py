"""Classifiers trained at a site: how each is trained, kept, loaded and used."""
