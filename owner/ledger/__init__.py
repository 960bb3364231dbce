"""A site's ledger: its charges and the releases they paid for."""
