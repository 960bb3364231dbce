"""Receipts: signatures, seals, and claims that are computed again."""

from __future__ import annotations

import io
import json
import mmap
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dppca.common.attestation import seal
from dppca.common.attestation.components import (
    check_envelope,
    check_result,
    sealed_result,
)
from dppca.common.attestation.parties import KnownParties
from dppca.common.attestation.results import Result, result_from_bytes, result_to_bytes
from dppca.common.attestation.signatures import (
    Signer,
    describe_authority,
    make_signer,
    require_issued,
    require_signed,
)
from dppca.common.attestation.sums import SignedRelease
from dppca.common.attestation.tables import ColumnDigests
from dppca.common.errors import (
    AlteredError,
    ArtefactError,
    IdentityError,
    LabelError,
    ReceiptError,
    SignatureError,
)
from dppca.common.privacy.release import calibrate
from dppca.common.schema.document import canonical_json
from dppca.common.shell.console import run
from dppca.common.signing import Purpose
from dppca.common.transport.tls import Credentials, Identity, Role
from dppca.common.verification.files import verify_file
from dppca.owner.cli import cli
from dppca.owner.synthesis.tables import write_sealed
from tests.support.certificates import Authority, new_authority
from tests.support.sites import OwnerSite, ProvedSite
from tests.support.tables import digest_columns


@pytest.fixture(scope="module")
def result(proved: ProvedSite) -> Result:
    return result_from_bytes(proved.components.read_bytes(), proved.study)


@pytest.fixture(scope="module")
def envelope(result: Result) -> dict[str, Any]:
    assert result.receipt is not None
    found: dict[str, Any] = json.loads(result.receipt)
    return found


@pytest.fixture(scope="module")
def owner(authority: Authority) -> Credentials:
    return authority.issue(Role.OWNER, "owner-1")


def _curator(proved: ProvedSite) -> Signer:
    return make_signer(proved.authority.issue(Role.CURATOR, "hub"))


def _releases(envelope: dict[str, Any]) -> list[SignedRelease]:
    return [
        SignedRelease(
            each["owner"],
            canonical_json(each["receipt"]),
            bytes.fromhex(each["signature"]),
            each["certificate"].encode(),
        )
        for each in envelope["receipt"]["releases"]
    ]


def _receipt_of(proved: ProvedSite, result: Result, releases: list[SignedRelease]) -> Any:
    """The receipt in a result that the curator seals with these releases."""
    content = sealed_result(
        replace(result, receipt=None),
        proved.study,
        calibrate(proved.study),
        releases,
        _curator(proved),
    )
    receipt = result_from_bytes(content, proved.study).receipt
    assert receipt is not None
    return json.loads(receipt)


def _signed(document: dict[str, Any], signer: Signer) -> dict[str, Any]:
    """A receipt of components that a curator has countersigned, whatever it says."""
    return {
        "receipt": document,
        "signature": signer.sign(Purpose.COMPONENTS, canonical_json(document)).hex(),
        "certificate": signer.certificate.decode(),
    }


def test_a_signature_is_the_same_each_time_and_for_one_purpose(owner: Credentials) -> None:
    signer = make_signer(owner)
    first = signer.sign(Purpose.RELEASE, b"receipt")
    assert first == signer.sign(Purpose.RELEASE, b"receipt")
    who = require_signed(Purpose.RELEASE, b"receipt", first, owner.certificate, what="it")
    assert who == Identity("owner-1", Role.OWNER)
    for purpose, content in ((Purpose.FILE, b"receipt"), (Purpose.RELEASE, b"receipt ")):
        with pytest.raises(SignatureError, match="it was changed"):
            require_signed(purpose, content, first, owner.certificate, what="it")
    with pytest.raises(SignatureError, match="it is not signed"):
        require_signed(Purpose.RELEASE, b"receipt", b"", owner.certificate, what="it")
    with pytest.raises(SignatureError, match="cannot be read"):
        require_signed(Purpose.RELEASE, b"receipt", first, b"no certificate", what="it")
    assert "key" not in repr(signer)


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


def test_a_seal_covers_every_byte_but_itself(owner: Credentials) -> None:
    block = seal.make_block(owner.certificate)
    blank = b"before " + block + b" between " + block + b" after"
    sealed = seal.sealed(blank, make_signer(owner))
    assert len(sealed) == len(blank)
    assert seal.digest_unsealed(sealed) == seal.digest_unsealed(blank)
    found = sealed[7 : 7 + len(block)]
    who, certificate = seal.require_sealed(sealed, found)
    assert (who.name, certificate) == ("owner-1", owner.certificate)
    with pytest.raises(AlteredError, match="as a whole"):
        seal.require_sealed(sealed + b".", found)
    with pytest.raises(ReceiptError, match="no seal"):
        seal.require_sealed(sealed, None)
    with pytest.raises(SignatureError, match="from place to place"):
        seal.require_sealed(sealed[: len(sealed) // 2] + blank[len(sealed) // 2 :], found)


@pytest.mark.parametrize("window", [1, 7, 64, 4096, 10_000])
def test_a_seal_is_found_wherever_windows_of_the_file_end(
    owner: Credentials, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    block = seal.make_block(owner.certificate)
    content = b"DPPCA-SEAL" * 500 + block + b"x" * 9000 + block + b"DPPCA-SEAL-1:and no more"
    path = tmp_path / "file"
    path.write_bytes(content)
    as_one = seal.sealed(content, make_signer(owner))
    expected = seal.digest_unsealed(content)
    monkeypatch.setattr(seal, "_WINDOW", window)
    assert seal.digest_unsealed(content) == seal.digest_unsealed(as_one) == expected
    seal.seal_file(path, make_signer(owner))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert seal.digest_unsealed(mapped) == expected
    found = path.read_bytes()
    assert len(found) == len(content)
    assert found.count(seal.BLANK) == 0
    place = found.index(seal.MARK)
    assert found.count(found[place : place + len(seal.BLANK)]) == 2


def test_an_archive_gets_its_seal_as_a_comment_and_stays_an_archive() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a", "content")
    commented = seal.with_zip_comment(buffer.getvalue(), b"comment")
    with zipfile.ZipFile(io.BytesIO(commented)) as archive:
        assert (archive.comment, archive.read("a")) == (b"comment", b"content")
    bare = buffer.getvalue()
    assert commented == bare[:-2] + len(b"comment").to_bytes(2, "little") + b"comment"
    with pytest.raises(ReceiptError):
        seal.with_zip_comment(commented, b"again")


def test_the_result_file_is_made_again_byte_for_byte(
    proved: ProvedSite, result: Result, envelope: dict[str, Any]
) -> None:
    bare, signer = replace(result, receipt=None), _curator(proved)
    made = [
        sealed_result(bare, proved.study, calibrate(proved.study), _releases(envelope), signer)
        for _ in range(2)
    ]
    assert made[0] == made[1]


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
    proved: ProvedSite, envelope: dict[str, Any], place: tuple[str, ...], value: object
) -> None:
    document = json.loads(canonical_json(envelope["receipt"]))
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(ReceiptError, match=r"\.".join(place) if place != ("missing",) else "owner"):
        check_envelope(_signed(document, _curator(proved)), KnownParties(proved.ca))


def test_a_study_that_is_not_the_one_of_the_digest_is_found(
    proved: ProvedSite, envelope: dict[str, Any]
) -> None:
    document = json.loads(canonical_json(envelope["receipt"]))
    document["study"]["max_rows"] += 1
    with pytest.raises(AlteredError, match="study's document"):
        check_envelope(_signed(document, _curator(proved)), KnownParties(proved.ca))
    document["study"]["max_rows"] = "many"
    with pytest.raises(AlteredError, match="study's document"):
        check_envelope(_signed(document, _curator(proved)), KnownParties(proved.ca))


@pytest.mark.parametrize(
    "field", ["l1", "parameters", "epsilon", "charged_epsilon", "source", "label"]
)
def test_an_owner_that_signs_another_calibration_is_found(
    proved: ProvedSite, result: Result, envelope: dict[str, Any], field: str
) -> None:
    credentials = proved.authority.issue(Role.OWNER, "owner-2")
    changed = dict(envelope["receipt"]["releases"][1]["receipt"])
    others = {int: 1, str: "1.5", dict: {"scale": 1}}
    changed[field] = others[type(changed[field])]
    receipt = canonical_json(changed)
    signature = make_signer(credentials).sign(Purpose.RELEASE, receipt)
    releases = [
        _releases(envelope)[0],
        SignedRelease("owner-2", receipt, signature, credentials.certificate),
    ]
    content = sealed_result(
        replace(result, receipt=None),
        proved.study,
        calibrate(proved.study),
        releases,
        _curator(proved),
    )
    again = result_from_bytes(content, proved.study)
    assert again.receipt is not None
    with pytest.raises(ReceiptError, match=f"receipt of owner-2.*{field}"):
        check_envelope(json.loads(again.receipt), KnownParties(proved.ca))


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
    envelope: dict[str, Any],
    who: Callable[[ProvedSite], Credentials],
    says: str,
) -> None:
    credentials, second = who(proved), _releases(envelope)[1]
    signature = make_signer(credentials).sign(Purpose.RELEASE, second.receipt)
    releases = [
        _releases(envelope)[0],
        replace(second, signature=signature, certificate=credentials.certificate),
    ]
    found = _receipt_of(proved, result, releases)
    with pytest.raises(SignatureError, match=says):
        check_envelope(found, KnownParties(proved.ca))


def test_a_contribution_of_an_earlier_version_is_named_as_unsigned(
    proved: ProvedSite, result: Result, envelope: dict[str, Any]
) -> None:
    first, second = _releases(envelope)
    releases = [replace(first, signature=b"", certificate=b""), second]
    found = _receipt_of(proved, result, releases)
    with pytest.raises(SignatureError, match="receipt of owner-1 is not signed"):
        check_envelope(found, KnownParties(None))


def test_only_a_curator_countersigns(proved: ProvedSite, envelope: dict[str, Any]) -> None:
    owner = make_signer(proved.authority.issue(Role.OWNER, "owner-1"))
    with pytest.raises(SignatureError, match="who is no curator"):
        check_envelope(_signed(envelope["receipt"], owner), KnownParties(proved.ca))


def test_a_changed_array_is_named_whatever_its_checksum_says(
    proved: ProvedSite, result: Result, envelope: dict[str, Any]
) -> None:
    checked = check_envelope(envelope, KnownParties(proved.ca))
    check_result(result, checked)
    pooled = result.pooled.copy()
    pooled[0] += 1
    with pytest.raises(AlteredError, match=r"^array pooled: "):
        check_result(replace(result, pooled=pooled), checked)
    header = replace(result.header, epsilon="0.1")
    with pytest.raises(AlteredError, match=r"^array header: "):
        check_result(replace(result, header=header), checked)


def test_a_result_without_a_receipt_does_not_verify(
    proved: ProvedSite, result: Result, tmp_path: Path
) -> None:
    path = tmp_path / "old.npz"
    path.write_bytes(result_to_bytes(replace(result, receipt=None)))
    with pytest.raises(ReceiptError, match="carries no receipt"):
        verify_file(path, ca=proved.ca)
    for name in ("rows.csv", "missing.npz"):
        with pytest.raises(ArtefactError):
            verify_file(tmp_path / name, ca=None)


def test_digests_of_columns_do_not_depend_on_batches_or_dictionaries() -> None:
    texts = ["état", "", "a\nb", "état"] * 5
    numbers = np.arange(20.0)
    table = pa.table({"x": numbers, "t": texts})
    encoded = pa.table({"x": numbers, "t": pa.array(texts).dictionary_encode()})
    pieces = ColumnDigests(["x", "t"])
    for start in range(0, 20, 3):
        for batch in table.slice(start, 3).to_batches():
            pieces.add(batch)
    assert digest_columns(table) == digest_columns(encoded) == pieces.hexdigests()
    other = pa.table({"x": numbers, "t": ["é", "tat", *texts[2:]]})
    assert digest_columns(other)["t"] != digest_columns(table)["t"]
    with pytest.raises(AlteredError, match="column x: values are missing"):
        digest_columns(pa.table({"x": [1.0, None]}))


def test_what_may_not_leave_is_not_sealed(owner: Credentials, tmp_path: Path) -> None:
    table, path = pa.table({"x": [1.0]}), tmp_path / "rows.parquet"
    claims = {"label": "site-only"}
    with pytest.raises(LabelError):
        write_sealed(
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
    assert report["authority"] == describe_authority(proved.ca)
    assert report["guarantee"]["epsilon"] == "1"
    assert report["mechanism"]["l1"] == calibrate(proved.study).sensitivity.l1

    other = tmp_path / "other.pem"
    other.write_bytes(new_authority().pem)
    code, failed = proved.site.run("verify", str(proved.components), "--ca", str(other))
    assert (code, failed["error"]["class"]) == (17, "SignatureError")
    assert describe_authority(other.read_bytes())["fingerprint"] in failed["error"]["message"]

    changed = tmp_path / "changed.npz"
    content = proved.components.read_bytes()
    changed.write_bytes(content + b" ")
    code, failed = proved.site.run("verify", str(changed))
    assert (code, failed["error"]["class"]) == (18, "AlteredError")
    assert "the container" in failed["error"]["message"]


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
    assert f"{authority['name']}, SHA-256 {authority['fingerprint']}, from {given}" in said
