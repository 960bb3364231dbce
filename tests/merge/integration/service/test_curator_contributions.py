from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pytest

from dppca.common.attestation.acknowledgements import AcknowledgedContribution, read_acknowledgement
from dppca.common.attestation.envelopes import Claim
from dppca.common.attestation.parties import KnownParties
from dppca.common.attestation.releases import sign_release
from dppca.common.attestation.signatures import make_signer
from dppca.common.study import Study
from dppca.common.transport.tls import Identity, Role
from dppca.common.wire import federation_pb2 as pb
from dppca.curator.study.study_record import Header, LedgerHead
from tests.support.callers import CONFLICT, TOO_LONG, UPLOAD, refused
from tests.support.census import header_of, make_release, nobody, sign_document, with_receipt
from tests.support.curator import Curator
from tests.support.envelopes import claim
from tests.support.party import Party, to_wire, upload
from tests.support.patience import WAIT_S
from tests.support.studies import make_study


def test_a_second_release_is_refused(study: Study, owners: dict[str, Party]) -> None:
    owner = owners["owner-1"]
    owner.contribute_next(make_release(study))
    other = make_release(study, seed=9)
    assert refused(lambda: owner.contribute_next(other)) == CONFLICT


def test_a_contribution_is_acknowledged_with_the_curators_signature_the_same_each_time(
    study: Study, owners: dict[str, Party], curator: Curator
) -> None:
    release, length = make_release(study), owners["owner-1"].next_ledger_length()
    first = owners["owner-1"].contribute(release, ledger_length=length)
    again = owners["owner-1"].contribute(release, ledger_length=length + 1)
    assert (first.already_stored, again.already_stored) == (False, True)
    assert first.acknowledgement == again.acknowledgement
    taken, signed_by = read_acknowledgement(
        first.acknowledgement, KnownParties(curator.authority.pem)
    )
    assert signed_by == Identity("hub", Role.CURATOR)
    assert taken == AcknowledgedContribution(
        study_digest=study.digest,
        owner="owner-1",
        release_id=release.release_id.hex(),
        n_rows=release.n_rows,
        payload_sha256=release.receipt.claims.payload_sha256,
    )


def _with_document(header: Header, **fields: object) -> Header:
    """The header with a receipt that may be none."""
    document = header.release.receipt.document() | fields
    return replace(
        header, release=replace(header.release, envelope=sign_document(document, nobody()))
    )


UPLOADS: dict[str, Callable[[Header, bytes], list[pb.ContributeRequest]]] = {
    "no header": lambda header, payload: list(upload(None, payload)),
    "two headers": lambda header, payload: [*upload(header, b""), *upload(header, payload)],
    "short head": lambda header, payload: list(
        upload(replace(header, chain=LedgerHead(2, b"short")), payload)
    ),
    "other fields": lambda header, payload: list(
        upload(_with_document(header, comment="trust me"), payload)
    ),
}


@pytest.mark.parametrize("kind", UPLOADS)
def test_a_bad_upload_is_refused_and_a_good_one_then_taken(
    kind: str, study: Study, owners: dict[str, Party], curator: Curator
) -> None:
    release = make_release(study)
    header = header_of(release, ledger_length=owners["owner-1"].next_ledger_length())
    bad = UPLOADS[kind](header, release.payload())
    assert refused(lambda: owners["owner-1"].send(bad)) == UPLOAD
    assert not owners["owner-1"].result(study, wait_s=0).contributed
    good = upload(header, release.payload())
    assert not owners["owner-1"].send(good).already_stored
    curator.until_nothing_arrives()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda h: with_receipt(h, study_digest="0" * 64), ("NOT_FOUND", "UnknownStudyError")),
        (lambda h: with_receipt(h, epsilon="0.1"), ("FAILED_PRECONDITION", "SchemaMismatchError")),
        (lambda h: replace(with_receipt(h, n_entries=1 << 40), n_bytes=1 << 43), TOO_LONG),
        (lambda h: _with_document(h, software="x" * 70_000), TOO_LONG),
    ],
)
def test_a_header_is_refused_before_any_byte_is_taken(
    change: Callable[[Header], Header],
    expected: tuple[str, str],
    study: Study,
    owners: dict[str, Party],
) -> None:
    release = make_release(study)
    header = header_of(release, ledger_length=owners["owner-1"].next_ledger_length())
    sent = threading.Event()

    def parts() -> Iterator[pb.ContributeRequest]:
        yield pb.ContributeRequest(header=to_wire(change(header)))
        assert sent.wait(WAIT_S)  # the refusal must not need another message

    try:
        assert refused(lambda: owners["owner-1"].send(parts())) == expected
    finally:
        sent.set()


def test_a_release_is_taken_only_if_the_caller_signed_its_receipt(
    study: Study, owners: dict[str, Party], curator: Curator
) -> None:
    release, owner = make_release(study), owners["owner-1"]
    header = header_of(release, ledger_length=owner.next_ledger_length())
    receipt = release.receipt.canonical_bytes()
    mine = sign_release("owner-1", receipt, owner.signer)
    twin = curator.authority.issue(Role.OWNER, "owner-1")
    for envelope in (
        b"",
        b"\xff" * 1000,
        sign_release("owner-2", receipt, owners["owner-2"].signer),
        mine.replace(b'"payload":"', b'"payload":"e30'),
        claim(release.receipt.document(), owner.signer, kind=Claim.ROWS),
        sign_release("owner-1", receipt, make_signer(twin)),
    ):
        said = replace(header, release=replace(header.release, envelope=envelope))
        parts = iter(list(upload(said, release.payload())))
        call = partial(owner.federation.Contribute, parts, timeout=WAIT_S)
        assert refused(call)[1] in ("SignatureError", "UploadError")
    assert not owner.result(study, wait_s=0).contributed


def test_a_ledger_that_became_shorter_is_refused(
    study: Study, owners: dict[str, Party], operator: Party
) -> None:
    owner = owners["owner-1"]
    owner.ledger_length += 5
    owner.contribute_next(make_release(study))
    other = make_study(name=f"{study.name}-2")
    operator.create(other)
    for length, head in ((owner.ledger_length - 1, b"h"), (owner.ledger_length, b"i")):
        header = header_of(make_release(other), ledger_length=length, ledger_head=head * 32)
        parts = list(upload(header, make_release(other).payload()))
        assert refused(partial(owner.send, parts)) == ("FAILED_PRECONDITION", "ChainError")


def test_a_long_contribution_arrives_in_pieces_that_are_never_all_in_memory(
    curator: Curator, operator: Party, owners: dict[str, Party]
) -> None:
    attributes = [
        {"name": f"a{number}", "type": "numeric", "lower": 0, "upper": 1} for number in range(1500)
    ]
    study = make_study(
        name="wide",
        owners=["owner-1", "owner-2"],
        schema={"max_rows_per_person": 1, "resolution_bits": 6, "attributes": attributes},
    )
    operator.create(study)
    release = make_release(study)
    payload = release.payload()
    assert len(payload) > 9_000_000
    before, length = curator.peak_kib(), owners["owner-1"].next_ledger_length()
    parts = partial(upload, header_of(release, ledger_length=length), payload, chunk_bytes=1 << 20)
    owners["owner-1"].send(parts())
    assert curator.peak_kib() - before < 40_000
    assert owners["owner-1"].send(parts()).already_stored
