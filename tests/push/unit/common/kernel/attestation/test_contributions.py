"""Acknowledgements: what a curator signs, what is not taken for one, and what one proves."""

from dataclasses import asdict, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.kernel.attestation.contributions import (
    MAX_BYTES,
    AcknowledgedContribution,
    acknowledge,
    compare,
    read_acknowledgement,
    read_study_digest,
)
from dppca.common.kernel.attestation.envelopes import Claim, sign_statement
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.results import Share
from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.errors import (
    AlteredError,
    ContradictionError,
    ReceiptError,
    SettingError,
    SignatureError,
)
from dppca.common.kernel.identity.revoked import RevocationList
from dppca.common.kernel.identity.tls import Role, parse_certificate
from tests.support.certificates import Authority, new_authority

AUTHORITY = new_authority()
CURATOR = make_signer(AUTHORITY.issue(Role.CURATOR, "hub"))
TAKEN = AcknowledgedContribution("ab" * 32, "owner-1", "cd" * 16, 100, "ef" * 32)
SHARE = Share("owner-1", TAKEN.release_id, TAKEN.n_rows, TAKEN.payload_sha256)


def _report(*owners: Share, study_digest: str = TAKEN.study_digest) -> Any:
    return SimpleNamespace(study_digest=study_digest, countersigned_by="hub", owners=owners)


REPORT = _report(SHARE)


def _acknowledged(authority: Authority = AUTHORITY, role: Role = Role.CURATOR) -> bytes:
    return acknowledge(TAKEN, make_signer(authority.issue(role, "hub")))


ACKNOWLEDGED = _acknowledged()


def test_an_acknowledgement_is_the_same_each_time_and_says_who_signed_what() -> None:
    assert acknowledge(TAKEN, CURATOR) == acknowledge(TAKEN, CURATOR)
    found, curator = read_acknowledgement(ACKNOWLEDGED, KnownParties(AUTHORITY.pem))
    assert (found, curator.name) == (TAKEN, "hub")
    assert read_study_digest(ACKNOWLEDGED) == TAKEN.study_digest
    for other in (b"", b"[]", b"{}", b'{"payload":"AA=="}', b"\xff"):
        assert read_study_digest(other) is None
    assert compare(ACKNOWLEDGED, REPORT, KnownParties(AUTHORITY.pem)).owner == "owner-1"


def test_an_acknowledgement_counts_only_by_a_curator_of_the_authority_in_good_standing() -> None:
    with pytest.raises(SignatureError, match="authority"):
        compare(ACKNOWLEDGED, REPORT, KnownParties(new_authority().pem))
    with pytest.raises(SignatureError, match="who is not a curator"):
        compare(_acknowledged(role=Role.OPERATOR), REPORT, KnownParties(AUTHORITY.pem))
    with pytest.raises(SettingError, match="--ca"):
        compare(ACKNOWLEDGED, REPORT, KnownParties(None))
    credentials = AUTHORITY.issue(Role.CURATOR, "hub")
    stolen = acknowledge(TAKEN, make_signer(credentials))
    serial = parse_certificate(credentials.certificate).serial_number
    revoked = RevocationList(1, {serial: datetime(2026, 6, 1, tzinfo=UTC)})
    with pytest.raises(SignatureError, match="revoked"):
        compare(stolen, REPORT, KnownParties(AUTHORITY.pem, revoked=revoked))


@pytest.mark.parametrize("field", ["release_id", "payload_sha256"])
def test_any_other_release_in_its_place_is_a_contradiction(field: str) -> None:
    listed = replace(SHARE, **{field: "00" * 16})
    with pytest.raises(ContradictionError, match="in its place"):
        compare(ACKNOWLEDGED, _report(listed), KnownParties(AUTHORITY.pem))
    with pytest.raises(ContradictionError, match="leaves owner-1 out"):
        compare(ACKNOWLEDGED, _report(), KnownParties(AUTHORITY.pem))


def test_an_acknowledgement_of_another_study_says_nothing_of_this_one() -> None:
    other = _report(SHARE, study_digest="00" * 32)
    with pytest.raises(SettingError, match="of study abab"):
        compare(ACKNOWLEDGED, other, KnownParties(AUTHORITY.pem))


@given(
    field=st.sampled_from(sorted(asdict(TAKEN))), value=st.one_of(st.none(), st.text(), st.floats())
)
def test_an_acknowledgement_says_nothing_else_than_it_must(field: str, value: Any) -> None:
    try:
        content = acknowledge(replace(TAKEN, **{field: value}), CURATOR)
    except ValueError:  # what canonical JSON does not take
        return
    try:
        found, _ = read_acknowledgement(content, KnownParties(AUTHORITY.pem))
    except ReceiptError:
        return
    assert type(getattr(found, field)) is type(getattr(TAKEN, field))


# A changed byte can make the serial number negative, which `cryptography` still reads, with a word.
@pytest.mark.filterwarnings("ignore:Parsed a serial number")
@given(place=st.integers(0, 4000), by=st.integers(1, 255))
def test_no_changed_byte_of_an_acknowledgement_changes_what_it_says(place: int, by: int) -> None:
    content = bytearray(ACKNOWLEDGED)
    content[place % len(content)] ^= by
    try:
        read = read_acknowledgement(bytes(content), KnownParties(AUTHORITY.pem))
    except (ReceiptError, SignatureError):
        return
    # One certificate can be written in several ways: spare bits of its encoding, line breaks.
    assert read == read_acknowledgement(ACKNOWLEDGED, KnownParties(AUTHORITY.pem))
    assert ACKNOWLEDGED.index(b"BEGIN CERTIFICATE") < place % len(content)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"n_rows": True}, ReceiptError),
        ({"more": 1}, ReceiptError),
        ({"payload_sha256": "b" * 64}, AlteredError),
    ],
    ids=str,
)
def test_other_fields_than_an_acknowledgements_are_refused_whoever_signed_them(
    changes: dict[str, Any], error: type[Exception]
) -> None:
    claims = {**asdict(TAKEN), **changes}
    content = sign_statement("a", TAKEN.payload_sha256, Claim.ACKNOWLEDGEMENT, claims, CURATOR)
    with pytest.raises(error):
        read_acknowledgement(content, KnownParties(None))
    del claims["owner"]
    content = sign_statement("a", TAKEN.payload_sha256, Claim.ACKNOWLEDGEMENT, claims, CURATOR)
    with pytest.raises(ReceiptError, match="fields"):
        read_acknowledgement(content, KnownParties(None))


def test_a_long_one_and_the_envelope_of_a_file_are_refused() -> None:
    with pytest.raises(ReceiptError, match="more than"):
        read_acknowledgement(b" " * (MAX_BYTES + 1), KnownParties(None))
    content = sign_statement("a", "a" * 64, Claim.COMPONENTS, asdict(TAKEN), CURATOR)
    with pytest.raises(ReceiptError, match="another kind of file"):
        read_acknowledgement(content, KnownParties(None))
