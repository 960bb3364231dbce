"""What this site has spent, and the releases it was spent on."""
