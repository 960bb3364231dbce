"""A curator that pools a release and leaves its owner's name out of the result.

Nobody who holds a result can check that a release was *not* used. So verification counts every
owner of the study, and refuses fewer releases than the study needs.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dppca.common.kernel.attestation.claims import describe_federation
from dppca.common.kernel.attestation.components import sign_result
from dppca.common.kernel.attestation.documents import Verification
from dppca.common.kernel.attestation.envelopes import (
    SignedFile,
    read_envelope,
    unchecked_predicate,
    write_signed,
)
from dppca.common.kernel.attestation.results import Result, result_from_bytes
from dppca.common.kernel.attestation.signatures import Signer, make_signer
from dppca.common.kernel.attestation.verify import verified_result
from dppca.common.kernel.errors import ReceiptError
from dppca.common.kernel.identity.tls import Role
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.verification.files import verification_text, verify_file
from dppca.owner.models.loader import load_model
from tests.support.envelopes import releases_in
from tests.support.sites import ProvedSite, make_proved_site

QUORUM: dict[str, Any] = {"quorum": 1, "deadline": "2030-01-01T00:00:00Z"}
HIDDEN, SHOWN = "owner-1", "owner-2"


class Liar:
    """The curator of a proved site, with its key."""

    def __init__(self, proved: ProvedSite) -> None:
        self.proved = proved
        self.true = result_from_bytes(proved.components.read_bytes(), proved.study)
        self.releases = releases_in(unchecked_predicate(proved.signed.envelope))

    @property
    def signer(self) -> Signer:
        return make_signer(self.proved.authority.issue(Role.CURATOR, "hub"))

    def without(self, *hidden: str, **figures: Any) -> SignedFile:
        """The same pooled moments, signed as if some owners had taken no part."""
        header = replace(
            self.true.header,
            shares=tuple(s for s in self.true.header.shares if s.owner not in hidden),
            missing=tuple(sorted(hidden)),
            **figures,
        )
        kept = [each for each in self.releases if each.owner not in hidden]
        told: Result = replace(self.true, header=header)
        return sign_result(told, self.proved.study, calibrate(self.proved.study), kept, self.signer)


def _verified(proved: ProvedSite, told: SignedFile, folder: Path) -> Verification:
    path = folder / "told.npz"
    write_signed(path, told)
    return verify_file(path, ca=proved.ca)


def test_a_study_that_waits_for_all_has_no_result_without_one_of_them(tmp_path: Path) -> None:
    proved = make_proved_site(tmp_path, overlap=True)
    with pytest.raises(ReceiptError, match=r"1 releases; the study needs 2. Missing: owner-1"):
        _verified(proved, Liar(proved).without(HIDDEN), tmp_path)


@pytest.mark.parametrize("overlap", [True, [["owner-1", "owner-2"]]])
def test_an_owner_that_the_quorum_allows_to_be_missing_is_counted_and_named(
    tmp_path: Path, overlap: bool | list[list[str]]
) -> None:
    proved = make_proved_site(tmp_path, overlap=overlap, **QUORUM)
    told = Liar(proved).without(HIDDEN)
    report = _verified(proved, told, tmp_path)
    assert report.guarantee.epsilon == "2"
    text = verification_text(report)
    assert "did not take part, according to the curator: owner-1" in text
    assert "guarantee of the components: epsilon 2," in text
    assert verified_result(told, proved.study, ca=proved.ca).header.epsilon == "2"


def test_a_curator_cannot_state_less_than_the_owners_it_names_lose(tmp_path: Path) -> None:
    proved = make_proved_site(tmp_path, overlap=True, **QUORUM)
    with pytest.raises(ReceiptError, match="header of the result"):
        _verified(proved, Liar(proved).without(epsilon="0.5"), tmp_path)


@pytest.mark.parametrize("figure", ["1", "0.1"], ids=["of those it names", "another"])
def test_a_lower_figure_that_a_curator_signs_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figure: str
) -> None:
    proved = make_proved_site(tmp_path, overlap=True, **QUORUM)
    liar = Liar(proved)
    told = replace(describe_federation(proved.study, calibrate(proved.study)), epsilon=figure)
    monkeypatch.setattr(
        "dppca.common.kernel.attestation.components.describe_federation", lambda *_: told
    )
    content = liar.without(HIDDEN, epsilon=figure)
    monkeypatch.undo()
    with pytest.raises(ReceiptError, match=r"guarantee\.epsilon"):
        _verified(proved, content, tmp_path)


@pytest.mark.parametrize("command", ["synthesize", "train"])
def test_what_is_made_of_a_result_without_an_owner_carries_the_figure_of_all(
    tmp_path: Path, command: str
) -> None:
    proved = make_proved_site(tmp_path, overlap=True, **QUORUM)
    write_signed(proved.components, Liar(proved).without(HIDDEN))
    if command == "synthesize":
        code, said = proved.site.run("synthesize", "site-test", "--rows", "20")
        path = Path(said["forms"]["decoded"])
        claimed = unchecked_predicate(read_envelope(path))["guarantee"]["epsilon"]
    else:
        more = ["--target", "ill", "--method", "dp-svm", "--epsilon", "1", "--yes"]
        code, said = proved.site.run("train", "site-test", *more)
        path = Path(said["model"])
        model: Any = load_model(path)
        claimed = model.receipt.claims.components_epsilon
    assert (code, claimed) == (0, "2")
    assert verify_file(path, ca=proved.ca).guarantee.epsilon == "2"
