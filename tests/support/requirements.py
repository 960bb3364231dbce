"""Programs and data that a test needs and that `make install` does not provide."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def miss(what: str, remedy: str) -> NoReturn:
    """End a test that cannot run here: the summary names the missing program and the remedy.

    With ``CI=true`` all must be present, and the test fails.
    """
    message = f"needs {what}: {remedy}"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)
