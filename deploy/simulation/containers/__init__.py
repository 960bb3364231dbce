"""Parties as separate hosts: containers of the image, each on its own network.

Read from the bottom: `topology` (the compose file of M owners), `folder` (that file with a study
and rows), `up` (``docker compose up`` and ``down`` in such a folder), `answer` (reads the results
there), `driver` (one study in containers).
"""

DEFAULT_IMAGE = "dppca:local"
"""The image that `make image` builds."""
