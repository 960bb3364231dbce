"""The curator's part of a masked sum, over the wire: sealed, shown, voted for, opened."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from dppca.common.aggregation.sum_messages import Opening
from dppca.common.attestation.components import check_envelope, check_result
from dppca.common.attestation.parties import KnownParties
from dppca.common.attestation.sums import require_sum
from dppca.common.messages import StudyState
from dppca.common.results import Result, result_from_bytes
from dppca.common.signing import Purpose, sign
from dppca.common.study import Study
from dppca.common.transport.channels import CHUNK_BYTES
from dppca.common.transport.codec import state_from_wire
from dppca.common.transport.tls import Role
from dppca.common.wire import federation_pb2 as pb
from dppca.curator.study import lifecycle
from tests.support.callers import refused
from tests.support.curator import Curator, far_moment
from tests.support.federations import MaskedHub, MaskedSite, MaskedSites
from tests.support.masked import noised_sum
from tests.support.party import Party
from tests.support.patience import WAIT_S

NOT_READY = ("FAILED_PRECONDITION", "NotReadyError")
STATE = ("FAILED_PRECONDITION", "StudyStateError")
UPLOAD = ("INVALID_ARGUMENT", "UploadError")
CONFLICT = ("ALREADY_EXISTS", "ConflictError")
DENIED = ("PERMISSION_DENIED", "PermissionDeniedError")
UNSIGNED = ("INVALID_ARGUMENT", "SignatureError")
TOO_LONG = ("RESOURCE_EXHAUSTED", "LimitError")


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


def show(hub: MaskedHub, study: Study) -> pb.ShowStudyResponse:
    request = pb.ShowStudyRequest(name=study.name)
    return hub.curator.operator().admin.ShowStudy(request, timeout=WAIT_S)


def signed(site: MaskedSite, opening: Opening) -> bytes:
    """An opening with a signature of the site's own."""
    key = site.made.keys[site.name]
    bare = replace(opening, signature=b"")
    return replace(bare, signature=sign(key, Purpose.OPENING, bare.signed())).to_bytes()


def test_components_follow_from_one_sum_over_all_owners(
    hub: MaskedHub, sealed: MaskedSites
) -> None:
    first, second = sealed.openers
    answered = first.open()
    assert (list(answered.wanted), answered.already_stored) == ([], False)
    assert state_from_wire(answered.state) is StudyState.SEALED
    second.open()
    result = finished(sealed)
    assert result.receipt is not None
    checked = check_envelope(json.loads(result.receipt), KnownParties(hub.curator.authority.pem))
    check_result(result, checked)
    assert checked.evidence is not None
    blobs = hub.curator.state / "blobs"
    require_sum(sealed.study, checked.releases, checked.evidence, result.pooled, blobs)


def test_openings_larger_than_one_message_come_in_whole_chunks(hub: MaskedHub) -> None:
    wide = [
        {"name": f"x{number}", "type": "numeric", "lower": 0, "upper": 1} for number in range(520)
    ]
    sites = hub.join(name="wide-openings", attributes=wide)
    assert 8 * sites.study.table.layout.n_entries > CHUNK_BYTES
    sites.contribute()
    sites.until_sealed()
    for opener in sites.openers:
        opener.open(piece_bytes=CHUNK_BYTES)
    finished(sites)


def test_whoever_waits_learns_which_openers_are_missing(
    hub: MaskedHub, sealed: MaskedSites
) -> None:
    first, second = sealed.openers
    waiting = sealed.wait(wait_s=0)
    assert list(waiting.missing_openers) == ["owner-1", "owner-2"]
    assert list(waiting.contributed) == list(sealed.study.owners)
    second.open()
    assert list(sealed.wait(wait_s=0).missing_openers) == ["owner-1"]
    assert refused(lambda: first.party.components(sealed.study)) == NOT_READY
    shown = show(hub, sealed.study)
    assert shown.set_digest.hex() == first.shown().digest
    assert shown.sealed_s > 0
    assert [(each.opener, each.opened_s > 0, each.voted_s) for each in shown.owners] == [
        (True, False, 0),
        (True, True, 0),
        (False, False, 0),
        (False, False, 0),
    ]
    first.open()
    finished(sealed)
    assert list(sealed.end().missing_openers) == []


def test_before_the_seal_nothing_is_shown_or_opened(sites: MaskedSites) -> None:
    first = sites.openers[0]
    sites.contribute("owner-1", "owner-2", "owner-3")
    assert refused(first.ask) == NOT_READY
    assert refused(lambda: first.party.sealed(sites.study)) == NOT_READY
    assert refused(lambda: first.party.open(sites.study, opening=bytes(500))) == NOT_READY
    assert refused(lambda: first.party.open(sites.study, vote=b"x")) == NOT_READY
    assert state(sites) is StudyState.OPEN


def test_after_the_seal_no_upload_is_taken_and_the_set_stays(movable: Curator) -> None:
    hub = MaskedHub(movable)
    late = hub.join(name="sealed-at-the-deadline", quorum=3, deadline=far_moment())
    late.contribute("owner-1", "owner-2", "owner-4")
    assert state(late) is StudyState.OPEN
    movable.move_clock()
    late.until_sealed()
    shown = [each.shown() for each in late.openers]
    assert [entry.statement.owner for entry in shown[0].entries] == [
        "owner-1",
        "owner-2",
        "owner-4",
    ]
    assert shown[0].digest == shown[1].digest
    assert refused(late["owner-3"].contribute) == STATE
    assert late["owner-1"].contribute().already_stored
    assert late.openers[0].shown() == shown[0]
    for opener in late.openers:
        opener.open()
    result = finished(late, "owner-1", "owner-2", "owner-4")
    assert result.header.missing == ("owner-3",)
    assert refused(late["owner-3"].contribute) == STATE


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


def test_only_openers_are_shown_a_set_or_may_open(hub: MaskedHub, sealed: MaskedSites) -> None:
    study = sealed.study
    parties: list[tuple[Party, tuple[str, str]]] = [
        (sealed["owner-3"].party, DENIED),
        (hub.curator.party("stranger"), ("NOT_FOUND", "UnknownStudyError")),
        (hub.curator.operator(), DENIED),
        (hub.curator.connect(hub.curator.authority.issue(Role.CURATOR, "hub")), DENIED),
    ]
    content = sealed.openers[0].make_opening().to_bytes()
    for party, expected in parties:
        assert refused(lambda: party.sealed(study)) == expected  # noqa: B023
        assert refused(lambda: party.open(study, opening=content)) == expected  # noqa: B023
        assert refused(lambda: party.open(study)) == expected  # noqa: B023
    second = sealed.openers[1].party
    assert refused(lambda: second.open(study, opening=content)) == UPLOAD
    assert list(sealed.wait(wait_s=0).missing_openers) == ["owner-1", "owner-2"]


def test_an_opening_of_another_set_study_or_stream_is_refused(
    hub: MaskedHub, sealed: MaskedSites
) -> None:
    first, study = sealed.openers[0], sealed.study
    made = first.make_opening()
    other = hub.join()
    other.contribute()
    other.until_sealed()
    elsewhere = other.openers[0].make_opening().to_bytes()
    half = made.to_bytes()
    for content, expected in (
        (elsewhere, UPLOAD),
        (signed(first, replace(made, set_digest="0" * 64)), CONFLICT),
        (signed(first, replace(made, terms=other.made.terms.digest)), UPLOAD),
        (signed(first, replace(made, streams=(1,))), UPLOAD),
        (signed(first, replace(made, streams=(0, 0))), UPLOAD),
        (signed(first, replace(made, streams=())), UPLOAD),
        (
            replace(
                made, signature=sign(first.made.keys["owner-3"], Purpose.OPENING, made.signed())
            ).to_bytes(),
            UNSIGNED,
        ),
        (replace(made, total=bytes(len(made.total))).to_bytes(), UNSIGNED),
        (half[:-8], UPLOAD),
        (half + bytes(100), TOO_LONG),
        (half[:-8] + bytes(8), UPLOAD),
        (bytes(len(half)), UPLOAD),
    ):
        assert refused(lambda: first.party.open(study, opening=content)) == expected  # noqa: B023
    for changes, expected in (
        ({"total_bytes": 1 << 40}, TOO_LONG),
        ({"total_bytes": 8}, UPLOAD),
        ({"total_bytes": 0}, UPLOAD),
        ({"sha256": b"x"}, UPLOAD),
        ({"sha256": bytes(32)}, UPLOAD),
        ({"study_digest": b"x"}, ("INVALID_ARGUMENT", "InputError")),
    ):
        assert (
            refused(lambda: first.party.open(study, opening=half, **changes))  # noqa: B023
            == expected
        )
    assert list(sealed.wait(wait_s=0).missing_openers) == ["owner-1", "owner-2"]
    first.party.open(study, opening=half)
    sealed.openers[1].open()
    finished(sealed)


def test_a_study_with_whole_noise_is_neither_shown_nor_opened(
    study: Study, owners: dict[str, Party]
) -> None:
    for call in (lambda: owners["owner-1"].sealed(study), lambda: owners["owner-1"].open(study)):
        assert refused(call) == STATE


class TestSpares:
    """Four openers of which one may be gone for good: three votes first, then each stream once."""

    @pytest.fixture
    def sealed(self, hub: MaskedHub) -> MaskedSites:
        sites = hub.join(4, 4, spares=1)
        sites.contribute()
        sites.until_sealed()
        return sites

    @pytest.mark.parametrize("gone", ["owner-1", "owner-3"])
    def test_one_opener_may_never_come(self, sealed: MaskedSites, gone: str) -> None:
        here = [each for each in sealed.openers if each.name != gone]
        for each in here:
            each.vote()
        for each in here[:2]:
            each.open()
        result = finished(sealed)
        assert result.receipt is not None
        document = json.loads(result.receipt)["receipt"]
        assert len(document["sum"]["votes"]) == 3
        assert len(document["sum"]["openings"]) == 2
        late = here[2].ask()
        assert (state_from_wire(late.state), list(late.wanted)) == (StudyState.DECOMPOSED, [])

    def test_who_comes_second_is_told_what_is_still_wanted(self, sealed: MaskedSites) -> None:
        one, two, three, _ = sealed.openers
        for each in (one, two, three):
            each.vote()
        mine = one.make_opening()
        two.open()
        answered = one.party.open(sealed.study, opening=mine.to_bytes())
        left = tuple(s for s, h in enumerate(one.terms.holders) if "owner-2" not in h)
        assert (tuple(answered.wanted), answered.already_stored) == (left, False)
        assert state(sealed) is StudyState.SEALED
        assert tuple(one.make_opening().streams) == left
        one.open()
        finished(sealed)
        late = one.party.open(sealed.study, opening=mine.to_bytes())
        assert (list(late.wanted), late.already_stored) == ([], False)

    def test_a_vote_for_another_set_or_of_another_opener_is_refused(
        self, hub: MaskedHub, sealed: MaskedSites
    ) -> None:
        one, two, three, _ = sealed.openers
        made = two.make_vote()
        key = sealed.made.keys["owner-2"]
        elsewhere = replace(made, set_digest="0" * 64)
        elsewhere = replace(elsewhere, signature=sign(key, Purpose.VOTE, elsewhere.signed()))
        forged = replace(
            made, signature=sign(sealed.made.keys["owner-3"], Purpose.VOTE, made.signed())
        )
        for party, content, expected in (
            (one.party, made.to_bytes(), UPLOAD),
            (two.party, elsewhere.to_bytes(), CONFLICT),
            (two.party, forged.to_bytes(), UNSIGNED),
            (two.party, made.to_bytes()[:-1], UPLOAD),
            (two.party, bytes(2000), TOO_LONG),
            (three.party, b"no vote", UPLOAD),
        ):
            assert (
                refused(
                    lambda: party.open(sealed.study, vote=content)  # noqa: B023
                )
                == expected
            )
        assert [each.voted_s for each in show(hub, sealed.study).owners] == [0] * 4
        two.party.open(sealed.study, vote=made.to_bytes())
        assert refused(lambda: two.party.open(sealed.study, vote=elsewhere.to_bytes())) == CONFLICT
