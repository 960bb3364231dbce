"""Receipts: signatures, and claims that are computed again."""

import base64
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dppca.common.kernel.attestation.components import check_components, check_result, sign_result
from dppca.common.kernel.attestation.envelopes import (
    Claim,
    envelope_path,
    sign_statement,
    unchecked_predicate,
    write_signed,
)
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.results import Result, result_from_bytes
from dppca.common.kernel.attestation.signatures import (
    Signer,
    describe_authority,
    make_signer,
    require_issued,
)
from dppca.common.kernel.attestation.sums import SignedRelease
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.errors import (
    AlteredError,
    ArtefactError,
    IdentityError,
    LabelError,
    ReceiptError,
    SignatureError,
)
from dppca.common.kernel.identity.tls import Credentials, Role
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.shell.console import run
from dppca.common.verification.files import verify_file
from dppca.owner.cli import cli
from dppca.owner.synthesis.tables import write_released
from tests.support.census import sign_document
from tests.support.certificates import Authority, new_authority
from tests.support.envelopes import claim, releases_in
from tests.support.sites import OwnerSite, ProvedSite


@pytest.fixture(scope="module")
def result(proved: ProvedSite) -> Result:
    return result_from_bytes(proved.components.read_bytes(), proved.study)


@pytest.fixture(scope="module")
def claims(proved: ProvedSite) -> dict[str, Any]:
    return unchecked_predicate(proved.signed.envelope)


@pytest.fixture(scope="module")
def owner(authority: Authority) -> Credentials:
    return authority.issue(Role.OWNER, "owner-1")


def _curator(proved: ProvedSite) -> Signer:
    return make_signer(proved.authority.issue(Role.CURATOR, "hub"))


def _envelope_of(proved: ProvedSite, result: Result, releases: list[SignedRelease]) -> bytes:
    """The envelope of a result that the curator signs with these releases."""
    calibration = calibrate(proved.study)
    return sign_result(result, proved.study, calibration, releases, _curator(proved)).envelope


def test_a_certificate_is_of_the_authority_that_is_asked_for(
    authority: Authority, owner: Credentials
) -> None:
    require_issued(owner.certificate, authority.pem, what="it")
    with pytest.raises(SignatureError, match="not signed by the authority"):
        require_issued(owner.certificate, new_authority().pem, what="it")
    with pytest.raises(SignatureError, match="not PEM"):
        require_issued(owner.certificate, b"", what="it")


def test_what_is_no_key_cannot_sign(owner: Credentials) -> None:
    with pytest.raises(IdentityError, match="not a private key"):
        make_signer(replace(owner, key=b"nothing"))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("guarantee", "epsilon"), "0.5"),
        (("guarantee", "assumptions"), []),
        (("mechanism", "l1"), 1),
        (("mechanism", "l2_squared"), 1),
        (("mechanism", "scale"), 1),
        (("mechanism", "source"), "somebody else"),
        (("mechanism", "formula", "n_scalars"), 4),
        (("mechanism", "resolution_bits"), 9),
        (("rows",), 801),
        (("owners",), 3),
        (("label",), "site-only"),
        (("missing",), ["owner-3"]),
        (("extra",), 1),
    ],
    ids=lambda value: ".".join(value) if isinstance(value, tuple) else "",
)
def test_a_claim_that_does_not_follow_is_named_even_if_a_curator_signed_it(
    proved: ProvedSite, claims: dict[str, Any], place: tuple[str, ...], value: object
) -> None:
    document = json.loads(canonical_json(claims))
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(ReceiptError, match=r"\.".join(place) if place != ("missing",) else "owner"):
        check_components(claim(document, _curator(proved)), KnownParties(proved.ca))


def test_a_study_that_is_not_the_one_of_the_digest_is_found(
    proved: ProvedSite, claims: dict[str, Any]
) -> None:
    document = json.loads(canonical_json(claims))
    document["study"]["max_rows"] += 1
    with pytest.raises(AlteredError, match="study's document"):
        check_components(claim(document, _curator(proved)), KnownParties(proved.ca))
    document["study"]["max_rows"] = "many"
    with pytest.raises(AlteredError, match="study's document"):
        check_components(claim(document, _curator(proved)), KnownParties(proved.ca))


@pytest.mark.parametrize(
    "field", ["l1", "parameters", "epsilon", "charged_epsilon", "source", "label"]
)
def test_an_owner_that_signs_another_calibration_is_found(
    proved: ProvedSite, result: Result, claims: dict[str, Any], field: str
) -> None:
    credentials = proved.authority.issue(Role.OWNER, "owner-2")
    first, second = releases_in(claims)
    changed = second.receipt.document()
    others: dict[type, object] = {int: 1, str: "1.5", dict: {"scale": 1}}
    changed[field] = others[type(changed[field])]
    envelope = sign_document(changed, make_signer(credentials))
    releases = [first, replace(second, envelope=envelope)]
    with pytest.raises(ReceiptError, match=f"receipt of owner-2.*{field}"):
        check_components(_envelope_of(proved, result, releases), KnownParties(proved.ca))


@pytest.mark.parametrize(
    ("who", "says"),
    [
        pytest.param(
            lambda proved: proved.authority.issue(Role.OWNER, "owner-1"),
            "receipt of owner-2 was signed by owner owner-1",
            id="another owner",
        ),
        pytest.param(
            lambda proved: proved.authority.issue(Role.OPERATOR, "owner-2"),
            "receipt of owner-2 was signed by operator owner-2",
            id="another role",
        ),
        pytest.param(
            lambda proved: new_authority().issue(Role.OWNER, "owner-2"),
            "certificate of the receipt of owner-2 was not signed by the authority",
            id="another authority",
        ),
    ],
)
def test_a_receipt_counts_only_with_its_owners_signature(
    proved: ProvedSite,
    result: Result,
    claims: dict[str, Any],
    who: Callable[[ProvedSite], Credentials],
    says: str,
) -> None:
    first, second = releases_in(claims)
    envelope = sign_document(second.receipt.document(), make_signer(who(proved)))
    found = _envelope_of(proved, result, [first, replace(second, envelope=envelope)])
    with pytest.raises(SignatureError, match=says):
        check_components(found, KnownParties(proved.ca))


def test_a_receipt_is_signed_for_the_upload_that_it_names(
    proved: ProvedSite, result: Result, claims: dict[str, Any]
) -> None:
    owner = make_signer(proved.authority.issue(Role.OWNER, "owner-1"))
    first, second = releases_in(claims)
    document = first.receipt.document()
    for subject, predicate in (("a" * 64, document), (document["payload_sha256"], {})):
        envelope = sign_statement("release", subject, Claim.RELEASE, predicate, owner)
        found = _envelope_of(proved, result, [replace(first, envelope=envelope), second])
        with pytest.raises(ReceiptError, match="the receipt of owner-1"):
            check_components(found, KnownParties(proved.ca))


@pytest.mark.parametrize("inside", ["statement", "envelope"])
def test_a_release_that_is_written_otherwise_is_refused(
    proved: ProvedSite, result: Result, claims: dict[str, Any], inside: str
) -> None:
    """An owner's bytes travel in what everybody publishes: there are none of its choice."""
    owner = make_signer(proved.authority.issue(Role.OWNER, "owner-1"))
    first, second = releases_in(claims)
    document = json.loads(first.envelope)
    if inside == "statement":
        statement = json.loads(base64.b64decode(document["payload"]))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(
                "dppca.common.kernel.attestation.envelopes.canonical_json",
                lambda said: canonical_json({**said, "evil": 1} if "_type" in said else said),
            )
            sha256 = statement["subject"][0]["digest"]["sha256"]
            envelope = sign_statement("f", sha256, Claim.RELEASE, statement["predicate"], owner)
    else:
        document["signatures"].append({"keyid": "", "sig": "AAAA"})
        envelope = canonical_json(document)
    found = _envelope_of(proved, result, [replace(first, envelope=envelope), second])
    with pytest.raises((ReceiptError, SignatureError), match="the receipt of owner-1"):
        check_components(found, KnownParties(proved.ca))


def test_only_a_curator_countersigns(proved: ProvedSite, claims: dict[str, Any]) -> None:
    owner = make_signer(proved.authority.issue(Role.OWNER, "owner-1"))
    with pytest.raises(SignatureError, match="who is not a curator"):
        check_components(claim(claims, owner), KnownParties(proved.ca))


@pytest.mark.parametrize("field", ["epsilon", "delta", "count", "relation", "missing"])
def test_a_header_that_says_something_else_is_found(
    proved: ProvedSite, result: Result, field: str
) -> None:
    checked = check_components(proved.signed.envelope, KnownParties(proved.ca))
    check_result(result, checked)
    other = {"count": 99, "missing": ("owner-9",)}.get(field, "0.1")
    with pytest.raises(ReceiptError, match=f"in: {field}"):
        check_result(replace(result, header=replace(result.header, **{field: other})), checked)


def test_a_file_without_an_envelope_does_not_verify(proved: ProvedSite, tmp_path: Path) -> None:
    path = tmp_path / "alone.npz"
    path.write_bytes(proved.signed.content)
    with pytest.raises(ReceiptError, match=r"alone.npz.intoto.json must lie beside it"):
        verify_file(path, ca=proved.ca)
    for name in ("rows.csv", "missing.npz", "rows.txt"):
        with pytest.raises(ArtefactError):
            verify_file(tmp_path / name, ca=None)


def test_what_may_not_leave_is_not_signed(owner: Credentials, tmp_path: Path) -> None:
    table, path = pa.table({"x": [1.0]}), tmp_path / "rows.parquet"
    claims = {"label": "site-only"}
    with pytest.raises(LabelError):
        write_released(
            path, table.to_batches(), make_signer(owner), fields=table.schema, claims=claims
        )
    assert not list(tmp_path.iterdir())


def test_the_command_reports_what_holds_and_names_what_does_not(
    proved: ProvedSite, tmp_path: Path
) -> None:
    folder = proved.site.folder
    (folder / "ca.pem").write_bytes(proved.ca)
    code, report = proved.site.run("verify", str(proved.components))
    assert (code, report["kind"]) == (0, "components")
    assert report["authority"] == asdict(describe_authority(proved.ca))
    assert report["guarantee"]["epsilon"] == "1"
    assert report["mechanism"]["l1"] == calibrate(proved.study).sensitivity.l1

    other = tmp_path / "other.pem"
    other.write_bytes(new_authority().pem)
    code, failed = proved.site.run("verify", str(proved.components), "--ca", str(other))
    assert (code, failed["error"]["class"]) == (17, "SignatureError")
    assert describe_authority(other.read_bytes()).fingerprint in failed["error"]["message"]

    changed, signed = tmp_path / "changed.npz", proved.signed
    write_signed(changed, replace(signed, content=signed.content + b" "))
    for path in (changed, envelope_path(changed)):
        code, failed = proved.site.run("verify", str(path))
        assert (code, failed["error"]["class"]) == (18, "AlteredError")
        assert "not the one that curator hub signed" in failed["error"]["message"]


@pytest.mark.parametrize("lies_there", [(), ("ca.pem",), ("ca.pem", "crl.pem", "policy.yaml")])
def test_nobody_vouches_for_a_file_but_an_authority_that_was_given(
    proved: ProvedSite,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    lies_there: tuple[str, ...],
) -> None:
    """As in a folder of mail, where an authority's certificate came with the file."""
    for name in lies_there:
        (tmp_path / name).write_bytes(proved.ca)
    mail = OwnerSite(tmp_path, "nobody")
    code, report = mail.run("verify", str(proved.components))
    assert (code, report["authority"]) == (52, None)
    with pytest.raises(SystemExit) as left:
        run(cli, ["--site", str(tmp_path), "verify", str(proved.components)])
    assert left.value.code == 52
    said = capsys.readouterr().out
    assert said.startswith("CONSISTENT, BUT NOBODY VOUCHES FOR IT: components of study ")
    assert "VERIFIED" not in said

    (tmp_path / "given.pem").write_bytes(proved.ca)
    given = str(tmp_path / "given.pem")
    with pytest.raises(SystemExit) as left:
        run(cli, ["--site", str(tmp_path), "verify", str(proved.components), "--ca", given])
    assert left.value.code == 0
    said = capsys.readouterr().out
    authority = describe_authority(proved.ca)
    assert said.startswith("VERIFIED: ")
    assert f"{authority.name}, SHA-256 {authority.fingerprint}, from {given}" in said
