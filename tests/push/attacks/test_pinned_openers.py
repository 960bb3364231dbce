"""Whoever holds an opener's disk, key and software, against a study that pins its people."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from dppca.common.kernel.attestation.components import check_components
from dppca.common.kernel.attestation.envelopes import unchecked_predicate
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.results import largest_envelope
from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.consent.pins import Signed, write_chain
from dppca.common.kernel.consent.roles import Roles, read_roles
from dppca.common.kernel.consent.signed_people import MAX_CONSENT, SignedByPeople
from dppca.common.kernel.consent.statement_terms import StatementTerms
from dppca.common.kernel.consent.statements import encoded, write_statement
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.errors import ReceiptError, SignatureError, UploadError
from dppca.common.kernel.identity.tls import Role
from dppca.common.kernel.study import Study
from dppca.curator.store import SqliteStore
from dppca.curator.study import lifecycle
from dppca.curator.study.openings import (
    OpeningDecision,
    OpeningHeader,
    admit_opening,
    store_opening,
    store_vote,
)
from dppca.curator.study.seen_roles import SeenRoles
from dppca.curator.study.settlement import settle_chain
from dppca.curator.study.study_record import Contribution, LedgerHead, OwnerHistory, StudyRecord
from tests.support.census import header_of
from tests.support.certificates import Authority
from tests.support.envelopes import claim
from tests.support.masked import (
    NOW,
    CertifiedStudy,
    MaskedRecords,
    MaskedRound,
    carry_out,
    header_for,
    make_masked_study,
)
from tests.support.people import ANNA, BERT, CORA, DORA, Someone, roles_of
from tests.support.studies import CENSUS

OPENER, OTHER = "owner-1", "owner-2"
ABSENT = "owner-4"


def roles(owner: str) -> Roles:
    stated = {**roles_of(owner=owner), "form": 1, "version": 1, "previous": "0" * 64}
    return read_roles(canonical_json(stated))


def pins(*owners: str) -> dict[str, Any]:
    return {each: {"needed": 2, "roles": roles(each).sha256} for each in owners}


def consent(
    study: Study, opener: str, set_digest: str, *people: Someone, **changes: Any
) -> dict[str, Any]:
    """What people of an opener signed of a set, as its site sends it."""
    terms = {
        **{key: None for key in StatementTerms.model_fields if key != "also"},
        "version": 1,
        "kind": "opening",
        "owner": opener,
        "study": study.name,
        "study_digest": study.digest,
        "content_digest": set_digest,
        "authority": "a" * 64,
        "roles_sha256": roles(opener).sha256,
        "release_id": "b" * 32,
        "proposed": "2026-05-01T00:00:00+00:00",
        "expires": "2026-05-15T00:00:00+00:00",
        **changes,
    }
    content = write_statement(StatementTerms.model_validate_json(json.dumps(terms)), b"{}")
    signed = Signed(content, tuple(each.sign(encoded(content)) for each in people))
    return {"approval": signed.document, "roles": write_chain(roles(opener), [])}


class PinnedRecords(MaskedRecords):
    """A masked study that pins openers; its contributions came before anybody looked."""

    @cached_property
    def complete(self) -> StudyRecord:
        headers = [header_of(release, owner) for owner, release in self.releases.items()]
        taken = tuple(Contribution(h.release, h.n_bytes, h.chain, 0) for h in headers)
        return replace(lifecycle.create(None, self.made.study, now=NOW), contributions=taken)

    @property
    def set_digest(self) -> str:
        return self.shown(OPENER).digest

    def consent(self, opener: str, *people: Someone, **changes: Any) -> bytes:
        made = consent(self.made.study, opener, self.set_digest, *people, **changes)
        return canonical_json(made)


PLAIN = PinnedRecords(make_masked_study(signatories=pins(OPENER)))
SPARE = PinnedRecords(make_masked_study(4, 4, spares=1, signatories=pins(OPENER)))
BEFOREHAND = {
    "version": 2,
    "kind": "contribution",
    "content_digest": "e" * 64,
    "epsilon": "1",
    "honest": 3,
    "also": {"opening": True, "rows": None},
}
PUBLISHES = {"opening": False, "rows": {"forms": ["coded"], "number": 1}}
Forge = Callable[[PinnedRecords], bytes]


def _other_roles(of: PinnedRecords) -> bytes:
    document = json.loads(of.consent(OPENER, ANNA, BERT))
    document["roles"][0]["document"]["needed"] = 1
    return canonical_json(document)


FORGED: dict[str, tuple[Forge, type[Exception], str]] = {
    "nothing": (lambda _: b"", SignatureError, "lacks signatures"),
    "one person": (lambda of: of.consent(OPENER, ANNA), SignatureError, "1 of 3 people"),
    "a stranger": (lambda of: of.consent(OPENER, ANNA, DORA), SignatureError, "of nobody there"),
    "another set": (
        lambda of: of.consent(OPENER, ANNA, BERT, content_digest="c" * 64),
        SignatureError,
        "something else than this release: content_digest",
    ),
    "another study": (
        lambda of: of.consent(OPENER, ANNA, BERT, study_digest="c" * 64),
        SignatureError,
        "study_digest",
    ),
    "a contribution": (
        lambda of: of.consent(OPENER, ANNA, BERT, kind="contribution"),
        SignatureError,
        "kind",
    ),
    "a price": (
        lambda of: of.consent(OPENER, ANNA, BERT, epsilon="1"),
        SignatureError,
        "epsilon",
    ),
    "owners on whose noise it rests": (
        lambda of: of.consent(OPENER, ANNA, BERT, honest=3),
        SignatureError,
        "honest",
    ),
    "a contribution that opens another study's set": (
        lambda of: of.consent(OPENER, ANNA, BERT, **BEFOREHAND | {"study_digest": "c" * 64}),
        SignatureError,
        "release: study_digest",
    ),
    "a contribution by one that opens": (
        lambda of: of.consent(OPENER, ANNA, **BEFOREHAND),
        SignatureError,
        "1 of 3 people",
    ),
    "a contribution that publishes": (
        lambda of: of.consent(OPENER, ANNA, BERT, **BEFOREHAND | {"also": PUBLISHES}),
        SignatureError,
        "content_digest, epsilon, honest, kind",
    ),
    "another opener's": (
        lambda of: of.consent(OTHER, ANNA, BERT),
        SignatureError,
        "not by the roles that the study pins",
    ),
    "lower roles": (_other_roles, SignatureError, "not by the roles that the study pins"),
    "no JSON": (lambda _: b"{", UploadError, "no JSON"),
    "null": (lambda _: b"null", UploadError, "no JSON"),
    "nested": (lambda _: b"[" * 10_000, UploadError, "no JSON"),
    "too long": (lambda _: b" " * (MAX_CONSENT + 1), UploadError, "too long"),
}


def opening_header(of: PinnedRecords, content: bytes) -> OpeningHeader:
    return replace(header_for(of.made, of.opening(OPENER)), consent=content)


@pytest.mark.parametrize("what", FORGED)
def test_a_curator_takes_no_vote_and_no_opening_that_people_have_not_signed(what: str) -> None:
    forge, error, said = FORGED[what]
    vote = SPARE.vote(OPENER).to_bytes()
    with pytest.raises(error, match=said):
        store_vote(SPARE.sealed, OPENER, vote, now=NOW, consent=forge(SPARE))
    header, opening = opening_header(PLAIN, forge(PLAIN)), PLAIN.opening(OPENER)
    with pytest.raises(error, match=said):
        admit_opening(PLAIN.sealed, OPENER, header, now=NOW)
    with pytest.raises(error, match=said):
        store_opening(PLAIN.sealed, OPENER, header, opening.without_total(), now=NOW)


def test_an_opener_that_nobody_pins_sends_nothing_of_people() -> None:
    opening = PLAIN.opening(OTHER)
    header = header_for(PLAIN.made, opening)
    assert admit_opening(PLAIN.sealed, OTHER, header, now=NOW) is OpeningDecision.ACCEPT
    with pytest.raises(ReceiptError, match="has signatures of people there"):
        admit_opening(PLAIN.sealed, OTHER, replace(header, consent=b"{}"), now=NOW)


def test_what_two_people_signed_is_taken_once_with_the_vote_or_the_opening() -> None:
    content = SPARE.consent(OPENER, ANNA, CORA)
    voted = store_vote(
        SPARE.sealed, OPENER, SPARE.vote(OPENER).to_bytes(), now=NOW, consent=content
    )
    assert [each.content for each in voted.consents] == [content]
    again = store_vote(voted, OPENER, SPARE.vote(OPENER).to_bytes(), now=NOW)
    assert again is voted
    for opener in ("owner-2", "owner-3"):
        voted = store_vote(voted, opener, SPARE.vote(opener).to_bytes(), now=NOW)
    header = opening_header(SPARE, b"")  # the vote had it
    assert admit_opening(voted, OPENER, header, now=NOW) is OpeningDecision.ACCEPT
    header = opening_header(PLAIN, PLAIN.consent(OPENER, ANNA, BERT))
    opening = PLAIN.opening(OPENER).without_total()
    opened, verdict = store_opening(PLAIN.sealed, OPENER, header, opening, now=NOW)
    assert (verdict, len(opened.consents)) == (OpeningDecision.ACCEPT, 1)


def test_what_two_people_signed_beforehand_with_the_contribution_opens_its_set() -> None:
    content = SPARE.consent(OPENER, ANNA, CORA, **BEFOREHAND)
    vote = SPARE.vote(OPENER).to_bytes()
    voted = store_vote(SPARE.sealed, OPENER, vote, now=NOW, consent=content)
    assert [each.content for each in voted.consents] == [content]
    header = opening_header(PLAIN, PLAIN.consent(OPENER, ANNA, BERT, **BEFOREHAND))
    opening = PLAIN.opening(OPENER).without_total()
    _, verdict = store_opening(PLAIN.sealed, OPENER, header, opening, now=NOW)
    assert verdict is OpeningDecision.ACCEPT


def test_openers_sign_under_no_older_roles_than_the_curator_has_seen() -> None:
    """Of a vote, an opening, and an opening's header; one that nobody is pinned for goes on."""
    own = SeenRoles(1, bytes.fromhex(roles(OPENER).sha256))
    vote = SPARE.vote(OPENER).to_bytes()
    header = opening_header(PLAIN, PLAIN.consent(OPENER, ANNA, BERT))
    opening = PLAIN.opening(OPENER).without_total()

    def send(seen: SeenRoles | None) -> None:
        signed = SPARE.consent(OPENER, ANNA, BERT)
        store_vote(SPARE.sealed, OPENER, vote, now=NOW, consent=signed, seen=seen)
        admit_opening(PLAIN.sealed, OPENER, header, now=NOW, seen=seen)
        store_opening(PLAIN.sealed, OPENER, header, opening, now=NOW, seen=seen)

    send(own)
    send(None)
    for seen in (SeenRoles(2, own.sha256), SeenRoles(1, b"b" * 32)):
        for call in (
            lambda seen=seen: send(seen),
            lambda seen=seen: admit_opening(PLAIN.sealed, OPENER, header, now=NOW, seen=seen),
            lambda seen=seen: store_opening(
                PLAIN.sealed, OPENER, header, opening, now=NOW, seen=seen
            ),
        ):
            with pytest.raises(SignatureError, match="which those do not follow"):
                call()
    other = PLAIN.opening(OTHER)
    free = header_for(PLAIN.made, other)
    store_opening(PLAIN.sealed, OTHER, free, other.without_total(), now=NOW, seen=own)


def test_an_opener_that_contributes_nothing_is_remembered_until_an_operator_settles(
    tmp_path: Any,
) -> None:
    header = opening_header(PLAIN, PLAIN.consent(OPENER, ANNA, BERT))
    opening = PLAIN.opening(OPENER)
    opened, _ = store_opening(PLAIN.sealed, OPENER, header, opening.without_total(), now=NOW)
    store, own = SqliteStore(tmp_path), SeenRoles(1, bytes.fromhex(roles(OPENER).sha256))
    alone = replace(opened, contributions=(), openings=())
    store.create(replace(alone, consents=(), sealing=None))
    store.save(alone)
    for _ in range(2):  # also once it is read again
        assert store.history(OPENER) == OwnerHistory(roles=own)
        store.close()
        store = SqliteStore(tmp_path)
    settled = settle_chain(store.history(OPENER), OPENER, by="operator:alice", reason="X", now=NOW)
    assert (settled.seen.length, settled.chain, settled.releases) == (0, None, 0)
    store.settle(OPENER, settled)
    for _ in range(2):
        assert store.history(OPENER) == OwnerHistory(settlements=(settled,))
        store.close()
        store = SqliteStore(tmp_path)
    store.close()
    came = (b"r" * 16, LedgerHead(9, b"h" * 32))
    later = replace(settled, by="operator:bob", releases=1)
    assert OwnerHistory.replay([came], (settled,)).chain == came[1]
    assert OwnerHistory.replay([came], (settled, later)).chain is None


def test_a_store_keeps_what_people_signed_also_one_that_had_no_place_for_it(tmp_path: Any) -> None:
    header = opening_header(PLAIN, PLAIN.consent(OPENER, ANNA, BERT))
    opening = PLAIN.opening(OPENER)
    opened, _ = store_opening(PLAIN.sealed, OPENER, header, opening.without_total(), now=NOW)
    store = SqliteStore(tmp_path)
    store._database.execute("DROP TABLE consents")  # as a store of 0.2.0
    store.close()
    store = SqliteStore(tmp_path)
    PLAIN.keep(store, opened, opening)
    store.close()
    store = SqliteStore(tmp_path)
    assert store.studies()[0].consents == opened.consents
    store.close()


def _done(authority: Authority, *pinned: str) -> MaskedRound:
    """Six owners, four of them openers; the pinned one opens and contributes nothing."""
    made = make_masked_study(
        n_owners=6,
        n_openers=4,
        spares=1,
        quorum=4,
        deadline="2099-01-01T00:00:00Z",
        attributes=CENSUS,
        resolution_bits=6,
        components={"count": 2},
        **({"signatories": pins(*pinned)} if pinned else {}),
    )
    parties = CertifiedStudy(made, authority)
    rng, size = np.random.default_rng(4), made.study.table.layout.n_entries
    came = (f"owner-{place}" for place in (1, 2, 3, 5, 6))
    sums = {owner: rng.integers(-1000, 1000, size) for owner in came}
    return carry_out(parties, sums, n_rows=1000, present=("owner-1", "owner-2", ABSENT))


def _verified(done: MaskedRound, consents: Any) -> Any:
    evidence = replace(done.evidence, consents=consents)
    curator = make_signer(done.parties.authority.issue(Role.CURATOR, "hub"))
    document = unchecked_predicate(done.signed(evidence=evidence).envelope)
    return check_components(claim(document, curator), KnownParties(done.parties.authority.pem))


def test_verifiers_refuse_a_sum_that_an_opener_opened_alone(authority: Authority) -> None:
    done = _done(authority, ABSENT)
    study, digest = done.parties.study, done.votes[0].set_digest
    signed = consent(study, ABSENT, digest, ANNA, BERT)
    checked = _verified(done, {ABSENT: signed})
    assert checked.evidence.consents == {ABSENT: signed}
    assert checked.opening_signatories == (SignedByPeople(ABSENT, 2, 3, 1),)
    assert checked.signatories == ()
    evidence = replace(done.evidence, consents={ABSENT: signed})
    assert len(done.signed(evidence=evidence).envelope) < largest_envelope(study)
    beforehand = consent(study, ABSENT, digest, ANNA, BERT, **BEFOREHAND)
    (people,) = _verified(done, {ABSENT: beforehand}).opening_signatories
    assert people == SignedByPeople(ABSENT, 2, 3, 1)
    for consents, error, said in (
        ({}, SignatureError, "lacks signatures"),
        ({ABSENT: consent(study, ABSENT, digest, ANNA)}, SignatureError, "1 of 3 people"),
        ({ABSENT: consent(study, ABSENT, "c" * 64, ANNA, BERT)}, SignatureError, "content_digest"),
        ({ABSENT: signed, "owner-1": signed}, ReceiptError, "has signatures of people"),
        ({ABSENT: signed, "owner-9": signed}, ReceiptError, "has signatures of people"),
        ({ABSENT: "signed"}, SignatureError, "damaged"),
    ):
        with pytest.raises(error, match=said):
            _verified(done, consents)
    with pytest.raises(ReceiptError, match="has signatures of people"):
        _verified(_done(authority), {ABSENT: signed})
