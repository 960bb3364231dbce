"""What several people of a site sign: their keys, their roles, and one statement a release."""
