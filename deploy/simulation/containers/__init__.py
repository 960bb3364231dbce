"""Parties as separate hosts: containers of the image, each on its own network.

``dppca-simulate compose`` writes a folder, ``docker compose up`` runs it, ``dppca-simulate report``
reads it. From the bottom: `topology` (the compose file of M owners), `folder` (that file with a
study and rows), `answer` (the report of a folder that has run).
"""

DEFAULT_IMAGE = "dppca:local"
"""The image that `make image` builds."""
