"""Acknowledgements: what a curator signs, and what is not taken for one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from dppca.common.attestation.acknowledgements import (
    MAX_BYTES,
    AcknowledgedContribution,
    acknowledge,
    read_acknowledgement,
    read_study_digest,
)
from dppca.common.attestation.envelopes import Claim, sign_statement
from dppca.common.attestation.parties import KnownParties
from dppca.common.attestation.signatures import Signer, make_signer
from dppca.common.errors import AlteredError, ReceiptError, SignatureError
from dppca.common.transport.tls import Role
from tests.support.certificates import Authority

TAKEN = AcknowledgedContribution("5" * 64, "owner-1", "1" * 32, 400, "a" * 64)


@pytest.fixture(scope="module")
def curator(authority: Authority) -> Signer:
    return make_signer(authority.issue(Role.CURATOR, "hub"))


def test_what_was_stored_is_said_in_the_same_bytes_each_time(
    authority: Authority, curator: Signer
) -> None:
    content = acknowledge(TAKEN, curator)
    assert content == acknowledge(TAKEN, curator)
    taken, who = read_acknowledgement(content, KnownParties(authority.pem))
    assert (taken, who.name) == (TAKEN, "hub")
    assert read_study_digest(content) == TAKEN.study_digest
    for other in (b"", b"[]", b"{}", b'{"payload":"AA=="}', b"\xff"):
        assert read_study_digest(other) is None


def test_only_a_curator_acknowledges(authority: Authority) -> None:
    owner = make_signer(authority.issue(Role.OWNER, "owner-1"))
    with pytest.raises(SignatureError, match="who is no curator"):
        read_acknowledgement(acknowledge(TAKEN, owner), KnownParties(authority.pem))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"n_rows": True}, ReceiptError),
        ({"n_rows": "400"}, ReceiptError),
        ({"owner": ["owner-1"]}, ReceiptError),
        ({"more": 1}, ReceiptError),
        ({"payload_sha256": "b" * 64}, AlteredError),
    ],
    ids=str,
)
def test_other_fields_than_an_acknowledgements_are_refused_whoever_signed_them(
    curator: Signer, changes: dict[str, Any], error: type[Exception]
) -> None:
    claims = {**asdict(TAKEN), **changes}
    content = sign_statement("a", TAKEN.payload_sha256, Claim.ACKNOWLEDGEMENT, claims, curator)
    with pytest.raises(error):
        read_acknowledgement(content, KnownParties(None))
    del claims["owner"]
    content = sign_statement("a", TAKEN.payload_sha256, Claim.ACKNOWLEDGEMENT, claims, curator)
    with pytest.raises(ReceiptError, match="fields"):
        read_acknowledgement(content, KnownParties(None))


def test_a_long_one_and_the_envelope_of_a_file_are_refused(curator: Signer) -> None:
    with pytest.raises(ReceiptError, match="more than"):
        read_acknowledgement(b" " * (MAX_BYTES + 1), KnownParties(None))
    content = sign_statement("a", "a" * 64, Claim.COMPONENTS, asdict(TAKEN), curator)
    with pytest.raises(ReceiptError, match="another kind of file"):
        read_acknowledgement(content, KnownParties(None))
