"""Parties as hosts of their own: containers of the image, on networks of their own.

Read from the bottom: `failures` (the engine's errors in our words), `archives` and `addresses`
(pure), `topology` (the compose file of M owners), `folder` (that file with a study and rows),
`removal` and `orphans` (what a run made, and what a killed one left), `project` (a compose file
that runs, to look at and to break), `progress`, `federation` (one study in containers).
"""

DEFAULT_IMAGE = "dppca:local"
"""What `make image` makes."""
