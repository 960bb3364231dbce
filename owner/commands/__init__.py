"""The commands of ``dppca-owner``, each in a module that is imported when it runs."""
