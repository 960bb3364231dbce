from dataclasses import replace

import pytest

from dppca.common.kernel.aggregation.terms import Terms
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.errors import NotReadyError, StudyError, StudyStateError
from dppca.curator.study.sealed_set import (
    make_terms,
    missing_openers,
    require_sealed,
    wanted_streams,
)
from tests.support.masked import MaskedRecords, make_masked_study
from tests.support.studies import make_study

MASKED = MaskedRecords(make_masked_study(5, 5, spares=1, colluders=2))


def test_terms_are_the_studys_and_read_once() -> None:
    assert make_terms(MASKED.made.study) == Terms.from_study(MASKED.made.study)
    assert make_terms(make_masked_study(5, 5, spares=1, colluders=2).study) is make_terms(
        MASKED.made.study
    )
    with pytest.raises(StudyError, match="trust: aggregate"):
        make_terms(make_study())


@pytest.mark.parametrize("state", sorted(set(StudyState) - {StudyState.SEALED}))
def test_nothing_is_wanted_of_anybody_but_while_sealed(state: StudyState) -> None:
    record = replace(MASKED.voted, state=state)
    assert missing_openers(record) == ()
    assert wanted_streams(record, "owner-1") == ()


def test_a_set_is_there_once_sealed_and_not_after_an_abort() -> None:
    assert require_sealed(MASKED.sealed) == MASKED.sealed.sealing
    with pytest.raises(NotReadyError, match="waits for 0 owners or its deadline"):
        require_sealed(MASKED.complete)
    with pytest.raises(StudyStateError, match="was aborted: why"):
        require_sealed(replace(MASKED.sealed, state=StudyState.ABORTED, reason="why"))
