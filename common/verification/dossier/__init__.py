"""A dossier: what officers, boards and registries ask of a released file, from signed facts."""
