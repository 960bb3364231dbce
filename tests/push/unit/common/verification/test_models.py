"""Receipts of models that may leave are computed again, method by method."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import skops.io

from dppca.common.kernel.attestation.envelopes import Claim, read_envelope, unchecked_predicate
from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.documents.values import to_document
from dppca.common.kernel.errors import AlteredError, ReceiptError, SignatureError
from dppca.common.kernel.identity.tls import Role
from dppca.common.verification.files import verification_text, verify_file
from tests.support.documents import require_documented
from tests.support.envelopes import claim, sign_again
from tests.support.sites import ProvedSite, make_proved_site

LAPLACE, GAUSSIAN = ("--epsilon", "1"), ("--epsilon", "1", "--delta", "1e-6")
METHODS = {
    "dp-svm, Laplace": ("dp-svm", *LAPLACE),
    "dp-svm, Gaussian": ("dp-svm", *GAUSSIAN),
}


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory) -> ProvedSite:
    return make_proved_site(tmp_path_factory.mktemp("models"))


def _made(proved: ProvedSite, name: str, target: str, folder: Path) -> Path:
    method, *options = METHODS[name]
    path = folder / f"{method}-{target}.skops"
    asked = ("train", "site-test", "--target", target, "--method", method, *options)
    code, document = proved.site.run(*asked, "--output", str(path), "--yes")
    assert code == 0, document
    return path


@pytest.mark.parametrize(
    ("name", "target"),
    [*((name, "ill") for name in sorted(METHODS)), ("dp-svm, Gaussian", "colour")],
)
def test_every_method_that_may_leave_verifies(
    proved: ProvedSite, name: str, target: str, tmp_path: Path
) -> None:
    report = verify_file(_made(proved, name, target, tmp_path), ca=proved.ca)
    assert (report.kind, report.signed_by) == ("model", "owner owner-1")
    assert report.model is not None
    assert (report.model.method, report.model.target) == (METHODS[name][0], target)
    require_documented("dppca-owner", {"command": "verify", **to_document(report)})
    assert "computed again" in verification_text(report)


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "half the scale": lambda receipt: receipt["parameters"].update(scale=1),
    "half the sensitivity": lambda receipt: receipt.update(l1=receipt["l1"] // 2),
    "a smaller charge": lambda receipt: receipt.update(charged_epsilon="0.5"),
    "a smaller claim": lambda receipt: receipt.update(epsilon="0.5"),
    "fewer rows of a person": lambda receipt: receipt.update(max_rows_per_person=0),
    "other assumptions": lambda receipt: receipt.update(assumptions=["nobody looks"]),
    "a field that no receipt has": lambda receipt: receipt.update(accuracy=0.9),
}


@pytest.mark.parametrize("change", sorted(CHANGES))
def test_a_claim_that_does_not_follow_is_found_even_if_its_owner_signed_it(
    proved: ProvedSite, change: str, tmp_path: Path
) -> None:
    path = _made(proved, "dp-svm, Laplace", "ill", tmp_path)
    archive = skops.io.loads(path.read_bytes(), trusted=[])
    metadata, claims = json.loads(archive["metadata"]), unchecked_predicate(read_envelope(path))
    for receipt in (metadata["receipt"], claims["receipt"]):
        CHANGES[change](receipt)
    archive["metadata"] = json.dumps(metadata)
    _sign_again(proved, archive, path, claims)
    with pytest.raises(ReceiptError, match="receipt of the model"):
        verify_file(path, ca=proved.ca)


@pytest.mark.parametrize(
    ("name", "change", "array"),
    [
        ("noised_", lambda weights: weights + 1, "noised"),
        ("classes_", lambda classes: classes[::-1].copy(), "classes_"),
    ],
    ids=["other weights", "labels in another order"],
)
def test_arrays_that_are_not_those_of_the_receipt_are_found(
    proved: ProvedSite, tmp_path: Path, name: str, change: Callable[[Any], Any], array: str
) -> None:
    path = _made(proved, "dp-svm, Laplace", "ill", tmp_path)
    archive = skops.io.loads(path.read_bytes(), trusted=[])
    archive["state"][name] = change(archive["state"][name])
    _sign_again(proved, archive, path)
    with pytest.raises(AlteredError, match=f"^array {array}: "):
        verify_file(path, ca=proved.ca)


def test_a_model_is_signed_by_an_owner_of_the_study(proved: ProvedSite, tmp_path: Path) -> None:
    path = _made(proved, "dp-svm, Laplace", "ill", tmp_path)
    archive = skops.io.loads(path.read_bytes(), trusted=[])
    for role, name in ((Role.OWNER, "stranger"), (Role.CURATOR, "hub")):
        signer = make_signer(proved.authority.issue(role, name))
        sign_again(path, signer, skops.io.dumps(archive), Claim.MODEL)
        with pytest.raises(SignatureError, match=f"signed by {role.value} {name}"):
            verify_file(path, ca=proved.ca)


@pytest.mark.parametrize(
    "claimed",
    [
        {"label": "site-only"},
        {"label": None},
        {"kind": "synthetic"},
        {"version": 99},
        {"version": True},
        {"epsilon": "0.0001"},
        {"guarantee": {"epsilon": "0"}},
    ],
    ids=str,
)
def test_the_envelope_of_a_model_is_compared_as_a_whole(
    proved: ProvedSite, tmp_path: Path, claimed: dict[str, Any]
) -> None:
    path = _made(proved, "dp-svm, Laplace", "ill", tmp_path)
    true = unchecked_predicate(read_envelope(path))
    claims = {key: value for key, value in {**true, **claimed}.items() if value is not None}
    owner = make_signer(proved.authority.issue(Role.OWNER, "owner-1"))
    sign_again(path, owner, path.read_bytes(), Claim.MODEL, true)
    assert verify_file(path, ca=proved.ca).label == "released"
    sign_again(path, owner, path.read_bytes(), Claim.MODEL, claims)
    with pytest.raises(ReceiptError, match=f"envelope of the model.*{next(iter(claimed))}"):
        verify_file(path, ca=proved.ca)


def test_another_owner_of_the_study_cannot_sign_a_model_as_its_own(
    proved: ProvedSite, tmp_path: Path
) -> None:
    path = _made(proved, "dp-svm, Laplace", "ill", tmp_path)
    other = make_signer(proved.authority.issue(Role.OWNER, "owner-2"))
    sign_again(path, other, path.read_bytes(), Claim.MODEL)
    with pytest.raises(SignatureError, match="owner owner-2 signed the model, which owner owner-1"):
        verify_file(path, ca=proved.ca)


def test_a_model_that_stays_has_no_receipt(proved: ProvedSite, tmp_path: Path) -> None:
    path = tmp_path / "stays.skops"
    asked = ("train", "site-test", "--target", "ill", "--method", "dppca-svm")
    assert proved.site.run(*asked, "--output", str(path))[0] == 0
    with pytest.raises(ReceiptError, match="has no envelope"):
        verify_file(path, ca=proved.ca)
    released = read_envelope(_made(proved, "dp-svm, Laplace", "ill", tmp_path))
    signer = make_signer(proved.authority.issue(Role.OWNER, "owner-1"))
    claims = unchecked_predicate(released)
    sign_again(path, signer, path.read_bytes(), Claim.MODEL, claims)
    with pytest.raises(ReceiptError, match="inside that it is site-only"):
        verify_file(path, ca=proved.ca)


def test_a_model_of_other_components_is_found(proved: ProvedSite, tmp_path: Path) -> None:
    path = _made(proved, "dp-svm, Laplace", "ill", tmp_path)
    claims = unchecked_predicate(read_envelope(path))
    other, curator = b"others", make_signer(proved.authority.issue(Role.CURATOR, "hub"))
    components = unchecked_predicate(json.dumps(claims["components_envelope"]).encode())
    claims["components_envelope"] = json.loads(claim(components, curator, other))
    owner = make_signer(proved.authority.issue(Role.OWNER, "owner-1"))
    sign_again(path, owner, path.read_bytes(), Claim.MODEL, claims)
    with pytest.raises(ReceiptError, match="components_sha256"):
        verify_file(path, ca=proved.ca)


def _sign_again(
    proved: ProvedSite, archive: Any, path: Path, claims: dict[str, Any] | None = None
) -> None:
    owner = make_signer(proved.authority.issue(Role.OWNER, "owner-1"))
    sign_again(path, owner, skops.io.dumps(archive), Claim.MODEL, claims)
