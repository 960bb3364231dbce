"""Shared parts of the private classifiers: settings, checks, guarantees, noise on weights."""
