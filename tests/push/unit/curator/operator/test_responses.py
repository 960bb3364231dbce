"""What operators are told of a study in short."""

from typing import Any

import pytest

from dppca.common.kernel.errors import PeerError
from dppca.common.transport.codec import read_message
from dppca.common.wire import federation_pb2 as pb
from dppca.curator.operator.responses import ListedStudy


def _listed(**fields: Any) -> ListedStudy:
    return read_message(ListedStudy, pb.StudySummary(state=pb.STUDY_STATE_OPEN, **fields))


@pytest.mark.parametrize("amount", ["-1", "0", "NaN", "1e999", "many", "\x1b[2J"])
@pytest.mark.parametrize("field", ["epsilon", "delta"])
def test_an_amount_that_no_study_can_have_is_refused(field: str, amount: str) -> None:
    with pytest.raises(PeerError, match="amount that no study can have") as raised:
        _listed(**{field: amount})
    assert "\x1b" not in str(raised.value)


def test_owners_that_may_have_no_certificate_are_named_with_what_to_do() -> None:
    assert _listed(missing=pb.NameList(first=["a"], total=1)).hint == ""
    hint = _listed(unheard=pb.NameList(first=["a", "b\x1b"], total=9)).hint
    assert r"since the curator was started: a, b\x1b and 7 more. `dppca-curator pki list`" in hint
