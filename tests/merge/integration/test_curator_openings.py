"""The curator's part of a masked sum, over the wire: sealed, shown, voted for, opened."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from dppca.common.kernel.aggregation.sum_messages import Opening
from dppca.common.kernel.attestation.envelopes import unchecked_predicate
from dppca.common.kernel.attestation.results import Result, result_from_bytes
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.signing import Purpose, sign
from dppca.common.transport.codec import state_from_wire
from dppca.curator.study import lifecycle
from tests.support.callers import CONFLICT, STATE, TOO_LONG, UPLOAD, refused
from tests.support.curator import Curator, far_moment
from tests.support.federations import MaskedHub, MaskedSite, MaskedSites
from tests.support.masked import noised_sum

UNSIGNED = ("INVALID_ARGUMENT", "SignatureError")


@pytest.fixture
def sealed(sites: MaskedSites) -> MaskedSites:
    """One that all have contributed to, and that is sealed."""
    sites.contribute()
    sites.until_sealed()
    return sites


def state(sites: MaskedSites) -> StudyState:
    return state_from_wire(sites.wait(wait_s=0).state)


def finished(sites: MaskedSites, *owners: str) -> Result:
    """The result, which is the sum over these owners, or over all."""
    assert state_from_wire(sites.end().state) is StudyState.DECOMPOSED
    result = result_from_bytes(sites.openers[0].party.components(sites.study), sites.study)
    expected = noised_sum(sites.made, owners or sites.study.owners)
    np.testing.assert_array_equal(result.pooled, expected)
    return result


def signed(site: MaskedSite, opening: Opening) -> bytes:
    """An opening with a signature of the site's own."""
    key = site.made.keys[site.name]
    bare = replace(opening, signature=b"")
    return replace(bare, signature=sign(key, Purpose.OPENING, bare.signed())).to_bytes()


def test_an_opener_that_never_comes_ends_the_study_and_nothing_more_is_opened(
    movable: Curator,
) -> None:
    late = MaskedHub(movable).join(name="never-opened", open_by=far_moment())
    late.contribute()
    late.until_sealed()
    first, second = late.openers
    made = first.make_opening()
    first.party.open(late.study, opening=made.to_bytes())
    kept = second.make_opening().to_bytes()
    movable.move_clock()
    answer = late.end()
    assert state_from_wire(answer.state) is StudyState.ABORTED
    assert answer.reason == lifecycle.OPENERS_REASON
    assert refused(lambda: second.party.open(late.study, opening=kept)) == STATE
    assert refused(lambda: second.party.sealed(late.study)) == STATE
    assert first.party.open(late.study, opening=made.to_bytes()).already_stored
    assert refused(lambda: first.party.components(late.study)) == STATE


def test_openings_that_do_not_fit_end_the_study(sealed: MaskedSites) -> None:
    first, second = sealed.openers
    made = first.make_opening()
    spoiled = replace(made, total=bytes(len(made.total)))
    assert not first.party.open(sealed.study, opening=signed(first, spoiled)).already_stored
    honest = second.make_opening().to_bytes()
    second.party.open(sealed.study, opening=honest)
    answer = sealed.end()
    assert state_from_wire(answer.state) is StudyState.ABORTED
    assert answer.reason == lifecycle.GARBLED_REASON
    assert refused(lambda: first.party.open(sealed.study, opening=made.to_bytes())) == STATE
    assert second.party.open(sealed.study, opening=honest).already_stored


def test_a_refused_opening_changes_nothing(hub: MaskedHub, sealed: MaskedSites) -> None:
    """One for each kind of answer: the rules themselves are tested where they are."""
    first, study = sealed.openers[0], sealed.study
    made = first.make_opening()
    whole = made.to_bytes()
    signature = sign(first.made.keys["owner-3"], Purpose.OPENING, made.signed())
    attempts: list[tuple[bytes, dict[str, object], tuple[str, str]]] = [
        (signed(first, replace(made, set_digest="0" * 64)), {}, CONFLICT),
        (signed(first, replace(made, streams=(1,))), {}, UPLOAD),
        (replace(made, signature=signature).to_bytes(), {}, UNSIGNED),
        (whole + bytes(100), {}, TOO_LONG),
        (bytes(len(whole)), {}, UPLOAD),
        (whole, {"total_bytes": 1 << 40}, TOO_LONG),
        (whole, {"sha256": b"x"}, UPLOAD),
        (whole, {"study_digest": b"x"}, ("INVALID_ARGUMENT", "InputError")),
    ]
    for content, changes, expected in attempts:
        call = partial(first.party.open, study, opening=content, **changes)  # type: ignore[arg-type]
        assert refused(call) == expected
    assert list(sealed.wait(wait_s=0).missing_openers) == ["owner-1", "owner-2"]
    first.party.open(study, opening=whole)
    sealed.openers[1].open()
    finished(sealed)


class TestSpares:
    """Four openers of which one may be gone for good: three votes first, then each stream once."""

    @pytest.fixture
    def sealed(self, hub: MaskedHub) -> MaskedSites:
        sites = hub.join(4, 4, spares=1)
        sites.contribute()
        sites.until_sealed()
        return sites

    def test_one_opener_may_never_come(self, sealed: MaskedSites) -> None:
        here = [each for each in sealed.openers if each.name != "owner-1"]
        for each in here:
            each.vote()
        for each in here[:2]:
            each.open()
        finished(sealed)
        signed = here[0].party.signed_components(sealed.study)
        document = unchecked_predicate(signed.envelope)
        assert len(document["sum"]["votes"]) == 3
        assert len(document["sum"]["openings"]) == 2
        late = here[2].ask()
        assert (state_from_wire(late.state), list(late.wanted)) == (StudyState.DECOMPOSED, [])
