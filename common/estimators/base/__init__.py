"""What the private classifiers share: settings, checks, guarantees, noise on weights."""
