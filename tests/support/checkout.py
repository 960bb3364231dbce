"""Root folder of this checkout, so that no test counts the folders above it."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SEEDED = os.pathsep.join(map(str, (ROOT / "tests/support/seeded_noise", ROOT)))
"""A ``PYTHONPATH`` with which commands draw the same noise in every run."""
