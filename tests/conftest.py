"""Fixtures that every kind of test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import common.transport  # noqa: F401 - before any test module imports gRPC

ROOT = Path(__file__).resolve().parent.parent


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
