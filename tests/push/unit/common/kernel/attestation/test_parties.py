"""Certificates behind signatures: revoked, ended, issued too late; and who acknowledges."""

import ssl
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.signatures import load_certificate
from dppca.common.kernel.errors import IdentityError, SettingError, SignatureError
from dppca.common.kernel.identity.revoked import RevocationList, read_list
from dppca.common.kernel.identity.tls import Role, parse_certificate
from dppca.common.verification.files import verification_text, verify_file
from tests.support.certificates import Authority, new_authority
from tests.support.sites import OwnerSite, ProvedSite, make_proved_site

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def _crl(authority: Authority, *pems: bytes, date: datetime = NOW) -> bytes:
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.certificate.subject)
        .last_update(date)
        .next_update(date + 400 * DAY)
        .add_extension(x509.CRLNumber(1), critical=False)
    )
    for pem in pems:
        builder = builder.add_revoked_certificate(
            x509.RevokedCertificateBuilder()
            .serial_number(parse_certificate(pem).serial_number)
            .revocation_date(date)
            .build()
        )
    return builder.sign(authority.key, hashes.SHA256()).public_bytes(Encoding.PEM)


def _pems(proved: ProvedSite) -> dict[str, str]:
    """Serial numbers by what was signed."""
    found = verify_file(proved.components, ca=proved.ca).certificates
    return {each.signed: each.serial for each in found}


def _revoked(serial: str, *, date: datetime = NOW) -> RevocationList:
    return RevocationList(1, {int(serial, 16): date})


def test_every_certificate_that_signed_is_shown_once(proved: ProvedSite) -> None:
    assert set(_pems(proved)) == {
        "the receipt of the components",
        "the receipt of owner-1",
        "the receipt of owner-2",
    }


@pytest.mark.parametrize(
    "what", ["the receipt of owner-2", "the receipt of owner-1", "the receipt of the components"]
)
def test_what_a_revoked_certificate_signed_is_not_believed(proved: ProvedSite, what: str) -> None:
    revoked = _revoked(_pems(proved)[what])
    with pytest.raises(SignatureError, match=f"{what}.*revoked on 2026-06-01"):
        verify_file(proved.components, ca=proved.ca, revoked=revoked)
    # The holder's own word: held since before, since the day itself, since after.
    since = {"ca": proved.ca, "revoked": revoked}
    report = verify_file(proved.components, **since, held_since=NOW - DAY)
    assert "was revoked on 2026-06-01; you say that you have held" in verification_text(report)
    for day in (NOW, NOW + DAY):
        with pytest.raises(SignatureError):
            verify_file(proved.components, **since, held_since=day)


def test_a_certificate_that_has_ended_is_shown_and_decides_nothing(proved: ProvedSite) -> None:
    for now, says in (
        (datetime.now(UTC) + 4000 * DAY, ": what it signed before then stays valid"),
        (datetime.now(UTC) - 4000 * DAY, "is not valid before"),
    ):
        text = verification_text(verify_file(proved.components, ca=proved.ca, now=now))
        assert text.startswith("VERIFIED")
        assert text.count(says) == 3


def test_an_owners_certificate_that_began_after_the_deadline_is_shown(tmp_path: Path) -> None:
    past = {"quorum": 1, "deadline": "2020-01-01T00:00:00Z"}
    proved = make_proved_site(tmp_path, **past)
    text = verification_text(verify_file(proved.components, ca=proved.ca))
    assert text.count("after the study's deadline (2020-01-01)") == 2


@given(revoked=st.dates(), held=st.one_of(st.none(), st.dates()), listed=st.booleans())
def test_a_signature_counts_unless_its_key_may_have_been_anothers(
    revoked: Any, held: Any, listed: bool
) -> None:
    credentials = AUTHORITY.issue(Role.OWNER, "owner-1")
    serial = parse_certificate(credentials.certificate).serial_number
    moment = datetime(revoked.year, revoked.month, revoked.day, tzinfo=UTC)
    since = None if held is None else datetime(held.year, held.month, held.day, tzinfo=UTC)
    parties = KnownParties(
        AUTHORITY.pem,
        revoked=RevocationList(1, {serial: moment} if listed else {}),
        held_since=since,
    )
    if not listed or (since is not None and since < moment):
        parties.require(credentials.certificate, what="it")
    else:
        with pytest.raises(SignatureError):
            parties.require(credentials.certificate, what="it")


AUTHORITY = new_authority()


@pytest.mark.parametrize("kind", ["option", "in the site's folder"])
def test_verify_takes_a_revocation_list(proved: ProvedSite, tmp_path: Path, kind: str) -> None:
    own = (proved.site.folder / "certificate.pem").read_bytes()
    path = proved.site.folder / "crl.pem" if kind != "option" else tmp_path / "list.pem"
    path.write_bytes(_crl(proved.authority, own))
    line = ["verify", str(proved.components)]
    line += ["--crl", str(path)] if kind == "option" else []
    try:
        code, said = proved.site.run(*line)
        assert (code, "owner-1" in said["error"]["message"]) == (17, True)
        code, said = proved.site.run(*line, "--held-since", "2026-05-31")
        assert (code, said["label"]) == (0, "released")
        code, _ = proved.site.run(*line, "--held-since", "2026-06-01")
        assert code == 17
    finally:
        path.unlink()


def test_a_list_of_another_authority_or_without_one_is_refused(
    proved: ProvedSite, tmp_path: Path
) -> None:
    path, line = tmp_path / "crl.pem", ["verify", str(proved.components), "--crl"]
    path.write_bytes(_crl(new_authority()))
    assert proved.site.run(*line, str(path))[0] == IdentityError.exit_code
    path.write_bytes(b"no list")
    assert proved.site.run(*line, str(path))[0] == IdentityError.exit_code
    assert proved.site.run(*line, str(tmp_path / "missing"))[0] == SettingError.exit_code
    nobody = OwnerSite(tmp_path, "nobody")
    assert nobody.run(*line, str(path))[0] == SettingError.exit_code


def test_a_list_is_read_with_the_days_in_it() -> None:
    credentials = AUTHORITY.issue(Role.OWNER, "owner-1")
    found = read_list(_crl(AUTHORITY, credentials.certificate), ca=AUTHORITY.pem)
    assert found.dates == {parse_certificate(credentials.certificate).serial_number: NOW}


def test_a_certificate_of_an_unknown_version_cannot_be_read() -> None:
    version_3, version_11 = b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x0a"
    der = parse_certificate(AUTHORITY.pem).public_bytes(Encoding.DER)
    changed = ssl.DER_cert_to_PEM_cert(der.replace(version_3, version_11, 1)).encode()
    with pytest.raises(SignatureError, match="cannot be read"):
        load_certificate(changed, what="owner-1")


@pytest.mark.parametrize("strict", [True, False], ids=["warnings are errors", "as a user runs it"])
def test_a_certificate_whose_serial_number_is_not_positive_is_refused(*, strict: bool) -> None:
    """By RFC 5280 it is none; cryptography reads it, with a warning."""
    pem = new_authority().issue(Role.OWNER, "owner-1").certificate
    der = ssl.PEM_cert_to_DER_cert(pem.decode())
    number = parse_certificate(pem).serial_number
    own = number.to_bytes((number.bit_length() + 8) // 8, "big")
    assert der.count(own) == 1
    negative = bytes([own[0] | 0x80]) + own[1:]
    changed = ssl.DER_cert_to_PEM_cert(der.replace(own, negative)).encode()
    with warnings.catch_warnings():
        warnings.simplefilter("error" if strict else "ignore")
        with pytest.raises(SignatureError, match="cannot be read"):
            load_certificate(changed, what="it")
