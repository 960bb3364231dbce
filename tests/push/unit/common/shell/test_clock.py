"""Times that another machine says."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dppca.common.errors import PeerError
from dppca.common.shell.clock import read_unix_time


def test_a_time_is_read_or_refused() -> None:
    assert read_unix_time(0) == datetime(1970, 1, 1, tzinfo=UTC)
    for seconds in (1 << 62, -(1 << 62), 253_402_300_800):
        with pytest.raises(PeerError, match="a time that does not exist"):
            read_unix_time(seconds)
