"""The result of a study that continues another proves both, and claims what both cost."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dppca.common.kernel.attestation.components import FirstResult, check_components
from dppca.common.kernel.attestation.envelopes import SignedFile, embed, unchecked_predicate
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.attestation.verify import verify_result
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.errors import DppcaError, NotReadyError, ReceiptError, SignatureError
from dppca.common.kernel.identity.tls import Role
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.privacy.accounting import epsilon_from_rho
from dppca.common.kernel.privacy.composition import Round
from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema.columns import parse_column
from dppca.common.kernel.study import Study, study_from_mapping
from dppca.deploy.simulation.in_memory import make_parties, run_study
from dppca.owner.commands.synthesize import possible_forms
from dppca.owner.site.config import load_site
from dppca.owner.site.kept_results import kept_result
from dppca.owner.site.kept_studies import components_path
from tests.support.certificates import Authority, new_authority
from tests.support.envelopes import claim
from tests.support.latent_rows import make_rows
from tests.support.sites import OwnerSite, keep_components, make_site, proved
from tests.support.studies import make_study

GAUSSIAN = {"mechanism": "gaussian", "epsilon": "1", "delta": "1e-6"}


@dataclass(frozen=True)
class TwoRounds:
    authority: Authority
    studies: tuple[Study, Study]
    results: tuple[Published, Published]
    signed: tuple[SignedFile, SignedFile]

    @property
    def parties(self) -> KnownParties:
        return KnownParties(self.authority.pem)

    @property
    def first(self) -> FirstResult:
        study, _ = self.studies
        return FirstResult(Round(study, calibrate(study)), self.signed[0].envelope)


def _continue(first: Study, result_sha256: str, **changes: Any) -> Study:
    document = first.model_dump(mode="json", by_alias=True, exclude_none=True)
    del document["covariance"]
    names = [each["name"] for each in document["schema"]["attributes"]]
    tables = {"only_tables": True, "tables": [{"table": names[:2], "cells": {names[0]: 2}}]}
    return study_from_mapping(
        {
            **document,
            "name": "second",
            "components": None,
            "continues": {"study": first.digest, "result": result_sha256},
            "schema": {**document["schema"], **tables},
            **changes,
        }
    )


@pytest.fixture(scope="module")
def both() -> TwoRounds:
    authority, entropy = new_authority(), OperatingSystemEntropy()
    first = make_study("latent", owners=["owner-1"], privacy=GAUSSIAN)
    columns = _columns(first)

    def run(study: Study, before: Published | None = None) -> Published:
        sums = {"owner-1": accumulate_moments(study.table, columns)}
        parties = make_parties(study, None, entropy=entropy)
        found, _ = run_study(parties, sums, entropy=entropy, now=utc_now(), first=before)
        return Published(study, found)

    one = run(first)
    file = proved(one.result, first, authority)
    second = _continue(first, file.sha256.hex())
    two = run(second, one)
    before = FirstResult(Round(first, calibrate(first)), file.envelope)
    signed = proved(two.result, second, authority, before)
    return TwoRounds(authority, (first, second), (one, two), (file, signed))


def _columns(study: Study) -> list[Any]:
    table = make_rows(500)
    return [
        parse_column(each, table[each.name].combine_chunks()) for each in study.table.attributes
    ]


def test_both_results_are_verified_from_the_second_ones_envelope(both: TwoRounds) -> None:
    checked, result = verify_result(both.signed[1], both.parties)
    assert checked.first is not None
    assert checked.first.round.study == both.studies[0]
    assert (checked.document["kind"], result.header.count) == ("counts", 0)
    assert checked.statement.name == "counts.npz"
    charges = [calibrate(study).charge.rho for study in both.studies]
    assert checked.guarantee.delta == "0.000001"
    assert float(checked.guarantee.epsilon) == float(
        epsilon_from_rho(sum(charges), calibrate(both.studies[0]).delta)
    )
    assert result.header.epsilon == checked.guarantee.epsilon


@pytest.mark.parametrize(
    ("change", "error", "told"),
    [
        (lambda d, both: d.pop("first"), ReceiptError, "components is missing"),
        (lambda d, both: d.update(first=None), ReceiptError, "components is missing"),
        (lambda d, both: d.update(first=embed(both.signed[1].envelope)), ReceiptError, "continued"),
        (lambda d, both: d.update(first={"payload": "x"}), SignatureError, "damaged"),
        (lambda d, both: d["first"].update(extra=1), SignatureError, "damaged"),
        (lambda d, both: d["guarantee"].update(epsilon="1"), ReceiptError, r"guarantee\.epsilon"),
        (lambda d, both: d.update(kind="components"), ReceiptError, "kind"),
    ],
)
def test_a_receipt_that_does_not_prove_the_first_result_is_refused(
    both: TwoRounds,
    change: Callable[[dict[str, Any], TwoRounds], object],
    error: type[DppcaError],
    told: str,
) -> None:
    document = json.loads(canonical_json(unchecked_predicate(both.signed[1].envelope)))
    change(document, both)
    curator = make_signer(both.authority.issue(Role.CURATOR, "hub"))
    with pytest.raises(error, match=told):
        check_components(claim(document, curator), both.parties)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"continues": {"study": "0" * 64, "result": "0" * 64}}, "does not continue"),
        ({"overlap": True}, "differs in: overlap"),
        ({}, "another result"),
    ],
)
def test_a_study_that_continues_another_one_than_it_says_is_refused(
    both: TwoRounds, changes: dict[str, Any], told: str
) -> None:
    sha256 = both.signed[0].sha256.hex() if changes else "0" * 64
    study = _continue(both.studies[0], sha256, **changes)
    result = both.results[1].result
    header = replace(result.header, study_digest=study.digest)
    signed = proved(replace(result, header=header), study, both.authority, both.first)
    with pytest.raises(ReceiptError, match=told):
        verify_result(signed, both.parties)


def test_a_first_result_of_another_authority_is_refused(both: TwoRounds) -> None:
    stranger = proved(both.results[0].result, both.studies[0], new_authority())
    first = replace(both.first, envelope=stranger.envelope)
    signed = proved(both.results[1].result, both.studies[1], both.authority, first)
    with pytest.raises(SignatureError, match="not signed by the authority"):
        verify_result(signed, both.parties)


@pytest.fixture
def site(both: TwoRounds, tmp_path: Path) -> OwnerSite:
    """A site that keeps the second result alone."""
    issued = both.authority.issue(Role.OWNER, "owner-1")
    site = make_site(tmp_path / "site", credentials=issued, rows=make_rows(10))
    keep_components(site, both.studies[1], both.signed[1])
    return site


def test_rows_of_a_further_study_need_the_first_result_and_prove_both(
    both: TwoRounds, site: OwnerSite
) -> None:
    first, second = both.studies
    at = load_site(site.folder)
    with pytest.raises(NotReadyError, match="continues another study, which is not kept here"):
        kept_result(at, second)
    keep_components(site, first, both.signed[0])
    code, said = site.run("synthesize", second.name, "--rows", "200")
    assert code == 0
    assert list(said["forms"]) == ["decoded"] == [each.value for each in possible_forms(second)]
    rows = Path(said["forms"]["decoded"])
    assert 0 < said["tables"]["worth"] <= 1
    for file in (rows, components_path(at, second.name)):
        code, verified = site.run("verify", str(file))
        assert (code, verified["continues"]) == (0, first.name)
        assert float(verified["guarantee"]["epsilon"]) > 1.3
    for line in (("synthesize", "--form", "coded"), ("train", "--target", "ill")):
        code, refused = site.run(line[0], second.name, *line[1:])
        assert code != 0
        assert "has no components" in refused["error"]["message"]
