"""Parties as hosts of their own: containers of the image, on networks of their own.

Read from the bottom: `failures` (the engine's errors in our words), `archives` and `addresses`
(pure), `engine` (what of Docker is used, and its removal), `cluster` (a curator and its owners, to
drive and to break), `federation` (one study in a cluster), `leftovers` (what a killed run left).
"""
