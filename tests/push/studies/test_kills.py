"""A kill of each party, in whole studies by real processes; all others are in the merge tier."""

from __future__ import annotations

import pytest

from dppca.common.testbed import HOSTS
from tests.fault_injection.processes import process_runtime
from tests.fault_injection.spec import parse_fault
from tests.fault_injection.suite import Suite


@pytest.mark.parametrize(
    "written", ["curator:kill@store", "opener-1:kill@destroy", "owner-2:kill@draw"]
)
def test_a_party_that_is_killed_goes_on_and_every_promise_is_kept(written: str) -> None:
    outcome = Suite(process_runtime, hosts=HOSTS).run_case(parse_fault(written))
    assert outcome.problems == ()
    assert outcome.end is outcome.expected.end
