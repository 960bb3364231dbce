"""Parties as hosts of their own: containers of the image, on networks of their own.

Read from the bottom: `topology` (the compose file of M owners), `folder` (that file with a study
and rows), `up` (``docker compose up`` and ``down`` in such a folder), `answer` (what a run left
there), `driver` (one study in containers).
"""

DEFAULT_IMAGE = "dppca:local"
"""What `make image` makes."""
