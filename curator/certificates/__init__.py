"""The certificate authority: keys, requests, revocation."""
