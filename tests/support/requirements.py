"""Programs and data that a test needs and that `make install` does not provide."""

import os
from typing import NoReturn

import pytest


def miss(what: str, remedy: str) -> NoReturn:
    """Skip a test, naming the missing program and the remedy; fail it if ``CI=true``."""
    message = f"needs {what}: {remedy}"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)
