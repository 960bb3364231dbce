"""Fixtures that every kind of test may use."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

import dppca.common.transport  # noqa: F401 - before any test module imports gRPC
from tests.support.curator import Curator

# An example that takes long is no fault: limits of time are for hangs.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer

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


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One running PostgreSQL server; each test has tables of its own."""
    from tests.support.postgres import postgres_server  # its driver is an extra

    with postgres_server() as server:
        yield server


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Curator]:
    """One running curator for all tests of a module; each has owners and studies of its own."""
    curator = Curator(tmp_path_factory.mktemp("hub")).start()
    yield curator
    curator.stop()
