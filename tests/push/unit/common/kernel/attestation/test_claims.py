"""Whole numbers from 2^53 on are text in what is signed; 0.1.0 signed them as numbers."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dppca.common.kernel.attestation.claims import (
    describe_mechanism,
    require_equal,
    require_implied,
)
from dppca.common.kernel.attestation.envelopes import read_envelope
from dppca.common.kernel.documents import amounts
from dppca.common.kernel.documents.values import to_document
from dppca.common.kernel.errors import ReceiptError
from dppca.common.kernel.privacy.release import calibrate, receipt_for, receipt_from_bytes
from tests.support.masked import make_masked_study
from tests.support.sites import ProvedSite, make_proved_site
from tests.support.studies import make_study

GAUSSIAN = {"mechanism": "gaussian", "epsilon": "0.1", "delta": "1e-9"}
STUDY = make_study("latent", privacy=GAUSSIAN)
LEAST = 1 << 53


def numbers_in(document: Any) -> Iterator[int]:
    """All whole numbers of a document, and of the envelopes in it."""
    if isinstance(document, dict):
        if "payload" in document:
            yield from numbers_in(json.loads(base64.b64decode(document["payload"])))
        for each in document.values():
            yield from numbers_in(each)
    elif isinstance(document, list):
        for each in document:
            yield from numbers_in(each)
    elif type(document) is int:
        yield document


def site_at(folder: Path) -> ProvedSite:
    return make_proved_site(folder, privacy=GAUSSIAN)


def signed_by(made: ProvedSite) -> Iterator[Path]:
    """The components, and rows and a model made of them, each with its envelope."""
    assert made.site.run("synthesize", made.study.name, "--rows", "20")[0] == 0
    line = ("--method", "dp-svm", "--epsilon", "0.5", "--delta", "1e-9", "--yes")
    assert made.site.run("train", made.study.name, "--target", "ill", *line)[0] == 0
    for suffix in ("npz", "parquet", "skops"):
        yield from made.components.parent.glob(f"*.{suffix}")


def test_what_is_signed_has_no_number_that_readers_of_doubles_change(tmp_path: Path) -> None:
    for path in signed_by(site_at(tmp_path)):
        assert max(numbers_in(json.loads(read_envelope(path)))) < LEAST


def test_files_in_which_0_1_0_signed_numbers_verify(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr(amounts, "_LEAST_TEXT", 1 << 200)
        made = site_at(tmp_path)
        paths = list(signed_by(made))
    assert len(paths) == 4
    for path in paths:
        assert max(numbers_in(json.loads(read_envelope(path)))) >= LEAST
        code, said = made.site.run("verify", str(path))
        assert code == 0, said


def receipt() -> bytes:
    made = receipt_for(
        STUDY,
        calibrate(STUDY),
        release_id=bytes(16),
        n_rows=10,
        payload_sha256="0" * 64,
        ledger_sequence=1,
        software="x",
    )
    return made.canonical_bytes()


def test_an_owners_receipt_of_both_forms_is_read_and_written_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = receipt()
    monkeypatch.setattr(amounts, "_LEAST_TEXT", 1 << 200)
    before = receipt()
    monkeypatch.undo()
    assert now != before
    read = [receipt_from_bytes(each) for each in (now, before)]
    assert [each.canonical_bytes() for each in read] == [now, before]
    require_equal(read[0].document(), read[1].document(), what="it")


@pytest.mark.parametrize("change", [1, -1])
@pytest.mark.parametrize("form", [int, str])
def test_another_large_number_is_refused_in_both_forms(change: int, form: type) -> None:
    expected = to_document(describe_mechanism(STUDY, calibrate(STUDY)))
    variance = int(expected["parameters"]["variance"])
    assert variance >= LEAST
    stated = {**expected, "parameters": {"variance": form(variance)}}
    require_equal(expected, stated, what="it")
    with pytest.raises(ReceiptError, match=r"parameters\.variance"):
        require_equal(
            expected, {**stated, "parameters": {"variance": form(variance + change)}}, what="it"
        )


@pytest.mark.parametrize("ours", [5, LEAST - 1, True, 1.0])
def test_a_small_number_as_text_is_another_document(ours: object) -> None:
    with pytest.raises(ReceiptError, match="in: n"):
        require_equal({"n": ours}, {"n": json.dumps(ours)}, what="it")


def test_a_masked_study_takes_no_receipt_of_sums_that_leave_as_they_are() -> None:
    study = make_masked_study().study
    calibration = calibrate(study)
    plain = receipt_for(
        study,
        calibration,
        release_id=bytes(16),
        n_rows=10,
        payload_sha256="0" * 64,
        ledger_sequence=1,
        software="x",
    )
    with pytest.raises(ReceiptError, match="owner-1 is not of a masked contribution"):
        require_implied(study, calibration, plain, owner="owner-1")
