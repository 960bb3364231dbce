"""Receipts of models that may leave are computed anew, method by method."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import skops.io

from common.errors import AlteredError, ReceiptError, SignatureError
from common.proof import seal
from common.proof.models import sealed_archive
from common.proof.signatures import signer_of
from common.proof.verify import verification_text, verify_file
from common.transport.tls import Role
from tests.support.proved_site import ProvedSite, make_proved_site

LAPLACE, GAUSSIAN = ("--epsilon", "1"), ("--epsilon", "1", "--delta", "1e-6")
METHODS = {
    "dp-svm, Laplace": ("dp-svm", *LAPLACE),
    "dp-svm, Gaussian": ("dp-svm", *GAUSSIAN),
    "pca-dpsvm, Laplace": ("pca-dpsvm", *LAPLACE),
    "pca-dpsvm, Gaussian": ("pca-dpsvm", *GAUSSIAN),
    "private-svm": ("private-svm", "--kernel", "rbf", *LAPLACE),
    "dpsvd": ("dpsvd", "--label-epsilon", "1", *GAUSSIAN),
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
    [*((name, "ill") for name in sorted(METHODS)), ("pca-dpsvm, Gaussian", "colour")],
)
def test_every_method_that_may_leave_verifies(
    proved: ProvedSite, name: str, target: str, tmp_path: Path
) -> None:
    report = verify_file(_made(proved, name, target, tmp_path), ca=proved.ca)
    assert (report["kind"], report["sealed_by"]) == ("model", "owner owner-1")
    assert (report["model"]["method"], report["model"]["target"]) == (METHODS[name][0], target)
    assert "computed anew" in verification_text(report)


def _noise(receipt: dict[str, Any], field: str) -> None:
    place = receipt["noise"][0] if "noise" in receipt else receipt
    place[field] = (place[field] or 0) // 2


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "half the scale": lambda receipt: _noise(receipt, "scale"),
    "half the sensitivity": lambda receipt: _noise(receipt, "l1"),
    "a smaller charge": lambda receipt: receipt.update(charged_epsilon="0.5"),
    "a smaller claim": lambda receipt: receipt.update(epsilon="0.5"),
    "fewer rows of a person": lambda receipt: receipt.update(max_rows_per_person=0),
}


@pytest.mark.parametrize("change", sorted(CHANGES))
@pytest.mark.parametrize("name", ["dp-svm, Laplace", "pca-dpsvm, Laplace", "private-svm"])
def test_a_claim_that_does_not_follow_is_found_even_if_its_owner_sealed_it(
    proved: ProvedSite, name: str, change: str, tmp_path: Path
) -> None:
    path = _made(proved, name, "ill", tmp_path)
    archive = skops.io.loads(path.read_bytes(), trusted=[])
    metadata = json.loads(archive["metadata"])
    CHANGES[change](metadata["receipt"])
    archive["metadata"] = json.dumps(metadata)
    _seal_again(proved, archive, path)
    with pytest.raises(ReceiptError, match="receipt of the model"):
        verify_file(path, ca=proved.ca)


@pytest.mark.parametrize(
    ("name", "array"), [("dp-svm, Laplace", "noised"), ("pca-dpsvm, Laplace", "state")]
)
def test_weights_that_are_not_those_of_the_receipt_are_found(
    proved: ProvedSite, name: str, array: str, tmp_path: Path
) -> None:
    path = _made(proved, name, "ill", tmp_path)
    archive = skops.io.loads(path.read_bytes(), trusted=[])
    weights = archive[array] if array == "noised" else archive[array]["coef_"]
    weights[0, 0] += 1
    _seal_again(proved, archive, path)
    with pytest.raises(AlteredError, match=f"^array {array}: "):
        verify_file(path, ca=proved.ca)


def test_a_model_is_sealed_by_an_owner_of_the_study(proved: ProvedSite, tmp_path: Path) -> None:
    path = _made(proved, "dp-svm, Laplace", "ill", tmp_path)
    archive = skops.io.loads(path.read_bytes(), trusted=[])
    for role, name in ((Role.OWNER, "stranger"), (Role.CURATOR, "hub")):
        signer = signer_of(proved.authority.issue(role, name))
        path.write_bytes(sealed_archive(skops.io.dumps(archive), signer))
        with pytest.raises(SignatureError, match=f"sealed by {role.value} {name}"):
            verify_file(path, ca=proved.ca)


def test_a_model_that_stays_has_no_receipt(proved: ProvedSite, tmp_path: Path) -> None:
    path = tmp_path / "stays.skops"
    asked = ("train", "site-test", "--target", "ill", "--method", "dppca-svm")
    assert proved.site.run(*asked, "--output", str(path))[0] == 0
    with pytest.raises(ReceiptError, match="site-only"):
        verify_file(path, ca=proved.ca)


def test_the_file_without_its_seal_is_what_the_ledger_stores(
    proved: ProvedSite, tmp_path: Path
) -> None:
    path = _made(proved, "dp-svm, Gaussian", "ill", tmp_path)
    content = path.read_bytes()
    start = content.rindex(b'{"certificate"')
    payload = seal.without_zip_comment(content, content[start:])
    assert payload + content[start:] != content  # the comment's length stands before it
    assert seal.with_zip_comment(payload, content[start:]) == content


def _seal_again(proved: ProvedSite, archive: Any, path: Path) -> None:
    owner = signer_of(proved.authority.issue(Role.OWNER, "owner-1"))
    path.write_bytes(sealed_archive(skops.io.dumps(archive), owner))
