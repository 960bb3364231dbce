"""Fixtures that every kind of test may use."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import common.transport  # noqa: F401 - before any test module imports gRPC

ROOT = Path(__file__).resolve().parent.parent


def pytest_configure() -> None:
    """Let what tests start be interrupted.

    A job in the background of a shell ignores SIGINT, and hands that down to all that it starts.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Folder of the real data sets: `DPPCA_DATA`, else beside the checkout."""
    folder = Path(os.environ.get("DPPCA_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        message = f"no data sets at {folder}: set DPPCA_DATA"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return folder
