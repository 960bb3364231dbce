"""Contract tests read the source by one tree of each file (`tools.syntax`)."""

from collections.abc import Iterator

import pytest

from tools.syntax import forget


@pytest.fixture(scope="package", autouse=True)
def trees() -> Iterator[None]:
    """Free the trees once the last of these tests has run."""
    yield
    forget()
