"""Commands of ``dppca-owner``; each is a module that is imported when it runs."""
