"""Whoever holds a site's disk, key and software, against a study that pins the site's people.

The attacker signs as the site, and sends what its ledger would never let out.
"""

import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from dppca.common.kernel.attestation import contributions
from dppca.common.kernel.attestation.components import check_components, sign_result
from dppca.common.kernel.attestation.contributions import SignedRelease, open_release
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.consent.pins import require_consent
from dppca.common.kernel.consent.roles import read_roles
from dppca.common.kernel.consent.signed_people import SignedByPeople
from dppca.common.kernel.consent.statements import encoded, read_signable, write_approval
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.errors import (
    ConflictError,
    ReceiptError,
    SchemaMismatchError,
    SignatureError,
    StudyError,
)
from dppca.common.kernel.identity.tls import Role
from dppca.common.kernel.privacy.release import Release, calibrate
from dppca.common.kernel.study import Study
from dppca.common.verification.approving import ReadProposal, describe_statement
from dppca.curator.store import SqliteStore
from dppca.curator.study import admission, lifecycle
from dppca.curator.study.aggregate import aggregate
from dppca.curator.study.seen_roles import SeenRoles, require_as_seen
from dppca.curator.study.study_record import (
    Contribution,
    Header,
    LedgerHead,
    OwnerHistory,
    Settlement,
)
from dppca.owner.ledger.approvals import Approvals
from dppca.owner.ledger.database import open_ledger
from dppca.owner.ledger.entries import Reservation
from dppca.owner.ledger.pins import find_consent_of, require_pinned, require_seen
from tests.support.census import sign_document
from tests.support.certificates import new_authority
from tests.support.checkout import ROOT
from tests.support.ledgers import NOW, drawn, ledger_files, request_of
from tests.support.people import (
    ANNA,
    BERT,
    CORA,
    DORA,
    Someone,
    begin_roles,
    proposed,
    record_of,
    roles_of,
    seen,
    sign,
    someone,
)
from tests.support.studies import make_study

OWNER, CURATOR = "owner-1", "hub"
DAY = datetime(2026, 5, 1, tzinfo=UTC)


@cache
def authority() -> Any:
    return new_authority()


@cache
def signer(name: str = OWNER, role: Role = Role.OWNER) -> Any:
    return make_signer(authority().issue(role, name))


class Site:
    """A site whose ledger has roles, and one release of a study that pins its first ones."""

    def __init__(self, *, changes: int = 0, needed: int = 2, **study: Any) -> None:
        with TemporaryDirectory() as folder:
            path, lock = ledger_files(Path(folder) / "site")
            with open_ledger(path, lock=lock) as ledger:
                begin_roles(ledger, path.parent, owner=OWNER)
                first = ledger.history().approvals.roles[0]
                pin = {"needed": needed, "roles": first.sha256}
                self.study = make_study("small", signatories={OWNER: pin}, **study)
                for number in range(changes):
                    people = (ANNA, BERT, someone(20 + number))
                    digest = ledger.propose_roles(roles_of(people, owner=OWNER), now=NOW)
                    sign(ledger, digest, *people)
                request = seen(request_of(self.study))

                def call() -> Reservation:
                    return ledger.reserve(request, release_id=b"i" * 16, now=NOW)

                digest = proposed(ledger, call)
                sign(ledger, digest, ANNA, BERT)
                self.release: Release = drawn(self.study, call())
                self.statement = record_of(ledger, digest).statement.content
                self.approvals: Approvals = ledger.history().approvals
                self.digest = digest

    @property
    def consent(self) -> dict[str, Any]:
        found = find_consent_of(self.approvals, self.study, OWNER, self.digest)
        assert found is not None
        return found


@cache
def honest() -> Site:
    return Site()


@cache
def changed() -> Site:
    return Site(changes=2)


def sent(site: Site, consent: object, *, study: Study | None = None) -> Header:
    """What a curator gets of a site, whoever wrote it."""
    receipt = site.release.receipt.canonical_bytes()
    envelope = contributions.sign_release(OWNER, receipt, signer(), consent)  # type: ignore[arg-type]
    release = open_release(envelope, OWNER, KnownParties(authority().pem))
    return Header(release, len(site.release.payload()), LedgerHead(99, b"h" * 32))


def admit(site: Site, header: Header, study: Study | None = None) -> Any:
    study = study or site.study
    record = lifecycle.create(None, study, now=DAY)
    return admission.admit(record, header, OwnerHistory(), calibration=calibrate(study), now=DAY)


@pytest.mark.parametrize("site", [honest, changed], ids=["the pinned roles", "later roles"])
def test_what_two_people_signed_is_taken_and_goes_into_the_result(
    site: Callable[[], Site],
) -> None:
    made = site()
    header = sent(made, made.consent)
    assert admit(made, header) is admission.UploadDecision.ACCEPT
    assert made.consent == made.consent  # the same bytes each time
    version = made.approvals.roles[-1].document.version
    (found,) = _result_of(made, header.release).signatories
    assert found == SignedByPeople(OWNER, 2, 3, version)


def _result_of(site: Site, release: SignedRelease) -> Any:
    """What a stranger finds in a result that a curator signed, of this release alone."""
    study = site.study
    header = Header(release, len(site.release.payload()), LedgerHead(99, b"h" * 32))
    kept = Contribution(header.release, header.n_bytes, header.chain, 0)
    result = aggregate(study, calibrate(study), [kept], [site.release.packed])
    signed = sign_result(result, study, calibrate(study), [release], signer(CURATOR, Role.CURATOR))
    return check_components(signed.envelope, KnownParties(authority().pem))


def edited(change: Callable[[dict[str, Any]], object]) -> Callable[[Site], Any]:
    def make(site: Site) -> Any:
        consent = json.loads(canonical_json(site.consent))
        replaced = change(consent)
        return consent if replaced is None else replaced

    return make


def resigned(*people: Someone, statement: bytes | None = None) -> Callable[[Site], Any]:
    """The release's statement, or another, signed by these people alone."""

    def make(site: Site) -> Any:
        content = statement or site.statement
        ordered = sorted(people, key=lambda each: each.key.point)
        envelope = write_approval(content, [each.sign(encoded(content)) for each in ordered])
        return {**site.consent, "approval": json.loads(envelope)}

    return make


def restated(**terms: Any) -> Callable[[Site], Any]:
    """A statement with other terms, which both people have signed elsewhere."""

    def make(site: Site) -> Any:
        document = json.loads(site.statement)
        document["predicate"].update(terms)
        return resigned(ANNA, BERT, statement=canonical_json(document))(site)

    return make


def twice(consent: dict[str, Any]) -> None:
    consent["approval"]["signatures"][1] = consent["approval"]["signatures"][0]


def two_forms(site: Site) -> Any:
    content = site.statement
    both = [ANNA.sign(encoded(content)), ANNA.sign(encoded(content), other_form=True)]
    return {**site.consent, "approval": json.loads(write_approval(content, both))}


def invented(site: Site) -> Any:
    """Roles of the attacker's own keys, said to be the site's."""
    stated = {**roles_of((DORA, someone(9)), owner=OWNER), "form": 1, "version": 1}
    document = {**stated, "previous": "0" * 64}
    return {**resigned(DORA, someone(9))(site), "roles": [{"document": document}]}


def appended(site: Site) -> Any:
    """A second version of the roles that one of the first people alone has signed."""
    first = site.consent["roles"][0]["document"]
    following = {
        **roles_of((ANNA, DORA), owner=OWNER),
        "form": 1,
        "version": 2,
        "previous": site.study.signatories[OWNER].roles,  # type: ignore[index]
    }
    record = next(iter(changed().approvals.records.values()))
    document = json.loads(record.statement.content)
    document["predicate"] |= {
        "roles_sha256": sha256(canonical_json(first)).hexdigest(),
        "content_digest": sha256(canonical_json(following)).hexdigest(),
    }
    content = canonical_json(document)
    ordered = sorted((ANNA, DORA), key=lambda each: each.key.point)
    signed = [each.sign(encoded(content), "roles@dppca") for each in ordered]
    later = {"document": following, "approval": json.loads(write_approval(content, signed))}
    statement = json.loads(site.statement)
    statement["predicate"]["roles_sha256"] = document["predicate"]["content_digest"]
    made = resigned(ANNA, DORA, statement=canonical_json(statement))(site)
    return {**made, "roles": [{"document": first}, later]}


def forked(site: Site) -> Any:
    """A version of the roles that follows other ones than the pinned."""
    consent = json.loads(canonical_json(changed().consent))
    first = site.consent["roles"][0]
    return {**site.consent, "roles": [first, consent["roles"][2]]}


def nested(depth: int) -> list[Any]:
    return [nested(depth - 1)] if depth else []


HOSTILE: dict[str, tuple[Callable[[Site], Any], str]] = {
    "nothing": (lambda _: None, "lacks signatures"),
    "one signature": (resigned(ANNA), "1 of 3"),
    "one signature twice": (edited(twice), "signed twice"),
    "both forms of one signature": (two_forms, "signed twice"),
    "one person and a stranger": (resigned(ANNA, DORA), "of nobody there"),
    "two strangers under roles of their own": (invented, "first roles are others"),
    "roles that one person changed": (appended, "too few people"),
    "a statement of another release": (restated(release_id="0" * 32), "release_id"),
    "a statement of another study": (restated(study_digest="0" * 64), "study_digest"),
    "a statement of another price": (restated(epsilon="9"), "epsilon"),
    "a statement of another kind": (restated(kind="rows"), "kind"),
    "a statement of another site": (restated(owner="owner-2"), "owner"),
    "a statement of other noise": (restated(mechanism="gaussian"), "mechanism"),
    "a statement under other roles": (restated(roles_sha256="1" * 64), "roles_sha256"),
    "signatures over other bytes": (
        edited(lambda each: each["approval"].update(payload="e30=")),
        "damaged",
    ),
    "another key in it": (edited(lambda each: each.update(more=1)), "damaged"),
    "no roles": (edited(lambda each: each.update(roles=[])), "damaged"),
    "a name beside a signature": (
        edited(lambda each: each["approval"]["signatures"][0].update(keyid="x")),
        "damaged",
    ),
    "roles of another branch": (forked, "damaged|next roles"),
    "lists in lists": (edited(lambda each: each.update(roles=nested(900))), "damaged"),
    "text": (lambda _: "yes", "damaged"),
    "a number": (lambda _: 2, "damaged"),
    "much": (edited(lambda each: each.update(more="x" * 50_000)), "damaged"),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_whatever_else_is_sent_is_refused_by_curator_and_verifier(name: str) -> None:
    make, said = HOSTILE[name]
    site = honest()
    header = sent(site, make(site))
    with pytest.raises(SignatureError, match=said):
        admit(site, header)
    with pytest.raises(SignatureError, match=said):
        _result_of(site, header.release)


def test_two_keys_of_one_person_are_one() -> None:
    stated = roles_of((ANNA, BERT), owner=OWNER)
    stated["people"][0]["keys"].append(CORA.key.line)
    roles = read_roles(canonical_json({**stated, "form": 1, "version": 1, "previous": "0" * 64}))
    statement = json.loads(honest().statement)
    statement["predicate"]["roles_sha256"] = roles.sha256
    content = canonical_json(statement)
    for people, said in (((ANNA, CORA), "one twice"), ((ANNA, BERT), None)):
        consent = resigned(*people, statement=content)(honest())
        consent["roles"] = [{"document": json.loads(roles.content)}]
        asked: dict[str, Any] = {"owner": OWNER, "roles_sha256": roles.sha256}
        with pytest.raises(SignatureError, match=said) if said else nullcontext():
            require_consent(consent, needed=2, terms={}, **asked)


def test_a_pin_of_more_people_than_signed_is_refused() -> None:
    site = honest()
    pins = site.study.signatories
    assert pins is not None
    more = pins[OWNER].model_copy(update={"needed": 3})
    study = site.study.model_copy(update={"signatories": {OWNER: more}})
    with pytest.raises(StudyError, match="roles here ask for 2"):
        require_pinned(site.approvals, study, OWNER)


def test_roles_left_out_of_the_chain_are_missed() -> None:
    site = changed()
    consent = site.consent
    for roles in (consent["roles"][:1], consent["roles"][:2], consent["roles"][1:]):
        with pytest.raises(SignatureError):
            admit(site, sent(site, {**consent, "roles": roles}))


def test_a_study_that_pins_nobody_takes_no_signatures_and_asks_for_none() -> None:
    site, plain = honest(), make_study("small")
    request = request_of(plain)
    assert (plain.signatories, "signatories" in plain.canonical_bytes().decode()) == (None, False)
    release = drawn(plain, _reservation(request))
    made = replace_release(site, release)
    assert admit(made, sent(made, None), plain) is admission.UploadDecision.ACCEPT
    with pytest.raises(SchemaMismatchError, match="has signatures"):
        admit(made, sent(made, site.consent), plain)


def _reservation(request: Any) -> Any:
    with TemporaryDirectory() as folder:
        path, lock = ledger_files(Path(folder) / "site")
        with open_ledger(path, lock=lock) as ledger:
            return ledger.reserve(request, release_id=b"i" * 16, now=NOW)


def replace_release(site: Site, release: Release) -> Site:
    made = object.__new__(Site)
    made.__dict__.update(site.__dict__, release=release)
    return made


def test_a_site_refuses_a_pin_that_it_cannot_meet_before_it_reads_a_row() -> None:
    site, nobody = honest(), Approvals()
    with pytest.raises(StudyError, match="no roles"):
        require_pinned(nobody, site.study, OWNER)
    require_pinned(nobody, site.study, "owner-2")
    require_pinned(site.approvals, site.study, OWNER)
    others = {OWNER: {"needed": 2, "roles": "9" * 64}}
    with pytest.raises(StudyError, match="other roles"):
        require_pinned(site.approvals, make_study("small", signatories=others), OWNER)
    with pytest.raises(StudyError, match="before its roles"):
        find_consent_of(site.approvals, site.study, OWNER, "")


def test_a_site_refuses_before_a_charge_what_a_curator_that_saw_its_roles_refuses() -> None:
    site, plain = changed(), make_study("small")
    for approvals, study, seen_version in (
        (Approvals(), plain, 0),
        (site.approvals, plain, 0),
        (site.approvals, site.study, 1),
        (site.approvals, site.study, 3),
    ):
        require_seen(approvals, study, OWNER, seen_version)
    with pytest.raises(StudyError, match="pins nobody of owner-1"):
        require_seen(site.approvals, plain, OWNER, 1)
    with pytest.raises(StudyError, match=r"version 4; the newest here are of version 3\."):
        require_seen(site.approvals, site.study, OWNER, 4)
    with pytest.raises(StudyError, match=r"the newest here are of version 0\."):
        require_seen(Approvals(), site.study, OWNER, 1)


def test_roles_that_change_again_and_again_ask_for_a_new_pin() -> None:
    site = Site(changes=15)
    with pytest.raises(StudyError, match="changed too often"):
        require_pinned(site.approvals, site.study, OWNER)


@pytest.mark.parametrize(
    "pin",
    [
        {"needed": 1, "roles": "0" * 64},
        {"needed": 21, "roles": "0" * 64},
        {"needed": True, "roles": "0" * 64},
        {"needed": 2, "roles": "0" * 63},
        {"needed": 2, "roles": "A" * 64},
        {"needed": 2},
    ],
    ids=str,
)
def test_a_pin_that_asks_for_nothing_is_none(pin: dict[str, Any]) -> None:
    with pytest.raises(StudyError):
        make_study("small", signatories={OWNER: pin})


def test_a_pin_is_of_an_owner() -> None:
    with pytest.raises(StudyError, match="stranger, who are not among owners"):
        make_study("small", signatories={"stranger": {"needed": 2, "roles": "0" * 64}})
    with pytest.raises(StudyError):
        make_study("small", signatories={})


def test_two_copies_of_a_site_release_once() -> None:
    """Case 31: both copies have the statement, and each draws noise of its own."""
    site = honest()
    first, twin = sent(site, site.consent), replace_release(site, redrawn(site))
    assert twin.release.payload() != site.release.payload()
    second = sent(twin, site.consent)
    record = lifecycle.create(None, site.study, now=DAY)
    noise = calibrate(site.study)
    record, _ = admission.contribute(record, first, OwnerHistory(), calibration=noise, now=DAY)
    with pytest.raises(ConflictError, match="another release"):
        admission.admit(record, second, OwnerHistory(), calibration=noise, now=DAY)


def redrawn(site: Site) -> Release:
    receipt = site.release.receipt
    made = Reservation(
        receipt.ledger_sequence, "", site.release.release_id, request_of(site.study), site.digest
    )
    return drawn(site.study, made, seed=2)


def test_a_second_certificate_for_the_sites_name_contributes_where_nobody_is_pinned() -> None:
    """Case 50: with a pin it lacks the people; else a curator remembers that people sign there.

    Where it has never seen any, that is the known limit.
    """
    site, thief = honest(), make_signer(authority().issue(Role.OWNER, OWNER))
    receipt = site.release.receipt.canonical_bytes()
    envelope = contributions.sign_release(OWNER, receipt, thief)
    release = open_release(envelope, OWNER, KnownParties(authority().pem))
    header = Header(release, len(site.release.payload()), LedgerHead(99, b"h" * 32))
    with pytest.raises(SignatureError, match="lacks signatures"):
        admit(site, header)
    plain = make_study("small")
    made = drawn(plain, Reservation(1, "", b"j" * 16, request_of(plain)))
    envelope = contributions.sign_release(OWNER, made.receipt.canonical_bytes(), thief)
    alone = open_release(envelope, OWNER, KnownParties(authority().pem))
    header = Header(alone, len(made.payload()), LedgerHead(99, b"h" * 32))
    record, noise = lifecycle.create(None, plain, now=DAY), calibrate(plain)
    knows = OwnerHistory(roles=SeenRoles.of(site.consent))
    for history, is_taken in ((OwnerHistory(), True), (knows, False)):
        with nullcontext() if is_taken else pytest.raises(SignatureError, match="pins nobody at"):
            admission.admit(record, header, history, calibration=noise, now=DAY)


def test_a_study_pins_the_people_whom_the_curator_has_seen_sign() -> None:
    """Case 48: fewer than it has seen."""
    site, plain = honest(), make_study("small")
    seen = {OWNER: SeenRoles.of(site.consent)}
    with pytest.raises(StudyError, match=f"people sign for what leaves {OWNER}: pin them"):
        lifecycle.create(None, plain, now=DAY, seen=seen)
    stored = lifecycle.create(None, plain, now=DAY)
    assert lifecycle.create(stored, plain, now=DAY, seen=seen) is stored, "made before"
    assert lifecycle.create(None, site.study, now=DAY, seen=seen).study == site.study


def test_roles_that_come_to_ask_for_one_person_do_not_lower_a_pin() -> None:
    """Two people agreed that one is enough; the study has not."""
    stated = {**roles_of(owner=OWNER), "form": 1, "version": 1, "previous": "0" * 64}
    first = read_roles(canonical_json(stated))
    later = read_roles(
        canonical_json({**stated, "needed": 1, "version": 2, "previous": first.sha256})
    )
    record = next(iter(changed().approvals.records.values()))
    agreed = json.loads(record.statement.content)
    agreed["predicate"] |= {"roles_sha256": first.sha256, "content_digest": later.sha256}
    content = canonical_json(agreed)
    both = sorted((ANNA, BERT), key=lambda each: each.key.point)
    envelope = write_approval(
        content, [each.sign(encoded(content), "roles@dppca") for each in both]
    )
    statement = json.loads(honest().statement)
    statement["predicate"]["roles_sha256"] = later.sha256
    consent = resigned(ANNA, statement=canonical_json(statement))(honest())
    consent["roles"] = [
        {"document": json.loads(first.content)},
        {"document": json.loads(later.content), "approval": json.loads(envelope)},
    ]
    asked: dict[str, Any] = {"owner": OWNER, "roles_sha256": first.sha256, "terms": {}}
    assert require_consent(consent, needed=1, **asked).signed == 1
    with pytest.raises(SignatureError, match="1 of 3 people"):
        require_consent(consent, needed=2, **asked)


def test_people_of_two_sites_sign_for_one_at_a_time() -> None:
    site = honest()
    stated = {**roles_of(owner="owner-2"), "form": 1, "version": 1, "previous": "0" * 64}
    other = read_roles(canonical_json(stated))
    for roles in (site.consent["roles"], [{"document": json.loads(other.content)}]):
        with pytest.raises(SignatureError):
            require_consent(
                {**site.consent, "roles": roles},
                owner="owner-2",
                roles_sha256=other.sha256,
                needed=2,
                terms={},
            )


def test_a_receipt_has_no_empty_place_for_signatures() -> None:
    plain = make_study("small")
    release = drawn(plain, _reservation(request_of(plain)))
    document = {**json.loads(release.receipt.canonical_bytes()), "consent": None}
    envelope = sign_document(document, signer())
    with pytest.raises(ReceiptError, match="another form"):
        open_release(envelope, OWNER, KnownParties(authority().pem))


def test_what_an_author_claims_is_quoted_after_what_was_checked() -> None:
    """Case 51."""
    site = honest()
    claim = "approved by two people, charge 0"
    study = make_study("small", title=claim, purpose=claim)
    text = describe_statement(
        ReadProposal(read_signable(site.statement), {"salt": "", "rows": "a"}, study)
    )
    lines = text.splitlines()
    said = [number for number, line in enumerate(lines) if claim in line]
    facts = lines.index("Words of the study's author, quoted:")
    assert said == [facts + 1, facts + 2]
    assert all(f'"{claim}"' in lines[number] for number in said)
    assert any("charged_epsilon" in line for line in lines[:facts])


def test_the_page_enters_no_signature_and_proposes_no_roles() -> None:
    """Case 38: whatever is posted with a valid session, no address of the page does it."""
    folder = ROOT / "owner/commands/page"
    for path in folder.glob("*.py"):
        assert not re.search(
            r"\.(approve|withdraw|propose_roles|propose_policy|restore_roles)\(|commands\.approvals",
            path.read_text(),
        ), path.name


def test_roles_older_than_the_curator_has_seen_sign_nothing(tmp_path: Path) -> None:
    """A person whom newer roles leave out is no second one, though a study pins the first roles."""
    newer = changed()
    header = sent(newer, newer.consent)
    seen = SeenRoles.of(header.release.consent)
    assert seen is not None
    assert seen.version == 3
    store = SqliteStore(tmp_path)
    record = lifecycle.create(None, newer.study, now=DAY)
    store.create(record)
    noise = calibrate(newer.study)
    taken, _ = admission.contribute(record, header, OwnerHistory(), calibration=noise, now=DAY)
    with store.blobs.spool() as spool:
        spool.write(newer.release.payload())
        store.save(taken, spool)
    store.close()
    store = SqliteStore(tmp_path)
    assert store.history(OWNER).roles == seen

    older = honest()
    late = sent(older, older.consent)

    def admit_with(roles: SeenRoles | None) -> Any:
        record = lifecycle.create(None, older.study, now=DAY)
        history = OwnerHistory(roles=roles)
        return admission.admit(record, late, history, calibration=noise, now=DAY)

    branch = SeenRoles(2, b"b" * 32)  # version 3 names another one as its previous
    with pytest.raises(SignatureError, match="which those do not follow"):
        require_as_seen(OWNER, newer.consent, branch)
    own = SeenRoles.of(late.release.consent)
    require_as_seen(OWNER, newer.consent, own)
    for roles in (seen, SeenRoles(1, b"b" * 32)):
        with pytest.raises(SignatureError, match="under roles of version 1"):
            admit_with(roles)
    for known in (None, own):
        assert admit_with(known) is admission.UploadDecision.ACCEPT

    chain = LedgerHead(99, b"h" * 32)
    for by, kept in ((f"owner:{OWNER}", seen), ("operator:alice", None)):
        store.settle(OWNER, Settlement(0, by, "", chain, chain, 1))
        assert store.history(OWNER).roles == kept
        store.close()
        store = SqliteStore(tmp_path)
        assert store.history(OWNER).roles == kept
    store.close()
