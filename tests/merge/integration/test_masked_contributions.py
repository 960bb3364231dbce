"""Contributions to studies with ``trust: aggregate``, by the steward's commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from dppca.common.aggregation.pooling import require_upload
from dppca.common.aggregation.sum_messages import Upload
from dppca.common.study import Study, study_from_mapping
from dppca.owner.ledger.database import open_ledger
from dppca.owner.site.config import load_site
from tests.support.curator import Curator
from tests.support.federations import (
    MaskedFederation,
    identity_of,
    make_masked_federation,
    study_of_sites,
)
from tests.support.sites import OwnerSite, error_of, make_enrolled_site

SETTING, MISMATCH, NO_POLICY, IDENTITY = 10, 12, 20, 41


def _contribute(site: OwnerSite, study: Study, *options: str) -> tuple[int, Any]:
    return site.run("contribute", study.name, "--yes", *options)


def test_what_is_stored_and_sent_is_the_masked_upload_of_this_site(
    federation: MaskedFederation,
) -> None:
    study, site = federation.study, federation.sites[-1]
    code, document = _contribute(site, study, "--digest", study.digest)
    assert code == 0
    assert document["entries"] == study.table.layout.n_entries
    kept = load_site(site.folder)
    with open_ledger(kept.ledger, lock=kept.lock) as ledger:
        stored = ledger.stored(study.digest)
    assert len(stored.payload) == document["bytes"]
    upload = Upload.from_bytes(stored.payload, federation.terms)
    assert upload.statement.owner == site.name
    require_upload(federation.terms, upload)
    assert error_of(_contribute(site, study, "--digest", "0" * 64))[0] == MISMATCH
    code, again = _contribute(site, study)
    assert (code, again["already_stored"], again["release_id"]) == (
        0,
        True,
        document["release_id"],
    )
    assert len(site.history.charges) == 1
    assert site.history.total("survey").rho > 0
    code, verified = site.run("budget", "verify")
    assert (code, [each["recomputed"] for each in verified["releases"]]) == (0, [True])
    (charge,) = site.run("budget")[1]["releases"]
    assert (charge["colluders"], charge["honest"]) == (1, 2)


def test_without_a_digest_nothing_is_contributed_until_the_keys_are_verified(
    federation: MaskedFederation,
) -> None:
    study, site = federation.study, federation.sites[-1]
    before = site.history
    code, message = error_of(_contribute(site, study))
    assert code == SETTING
    assert all(owner in message for owner in study.owners)
    for digest, expected in (("0" * 64, MISMATCH), ("", SETTING)):
        code, message = error_of(_contribute(site, study, "--digest", digest))
        assert code == expected
        assert study.digest not in message
    assert site.history == before
    code, reviewed = site.run("review", study.name)
    assert (code, reviewed["aggregate"]["keys_verified"]) == (0, False)
    assert reviewed["aggregate"]["unverified"] == sorted(study.owners)
    assert not (site.folder / "peers.yaml").exists()
    code, reviewed = site.run("review", study.name, "--digest", study.digest.upper())
    assert (code, reviewed["aggregate"]["keys_verified"]) == (0, True)
    assert yaml.safe_load((site.folder / "peers.yaml").read_text())["peers"] == {
        owner: federation.study.model_dump(mode="json")["identities"][owner]
        for owner in study.owners
    }
    assert _contribute(site, study)[0] == 0


def test_a_peer_whose_key_has_changed_is_refused_even_with_a_digest_that_fits(
    curator: Curator, federation: MaskedFederation, tmp_path: Path
) -> None:
    site, impostor = federation.sites[-1], make_enrolled_site(curator, tmp_path)
    federation.contribute(site)
    study = study_of_sites(federation.sites)
    document = study.model_dump(mode="json", by_alias=True)
    name = federation.sites[1].name
    other = identity_of(impostor, study.name, opener=True)
    document["identities"][name] = other["key"]
    document["openers"][name] = {key: other["opener"][key] for key in ("key", "signature")}
    forged = study_from_mapping(document)
    curator.operator().create(forged)
    before = site.history
    for options in ((), ("--digest", forged.digest)):
        code, message = error_of(_contribute(site, forged, *options))
        assert code == IDENTITY
        assert name in message
    assert site.history == before


def test_a_policy_without_a_rule_that_fits_refuses(federation: MaskedFederation) -> None:
    site, study, reason = federation.sites[-1], federation.study, "asks for 2"
    policy = site.folder / "policy.yaml"
    policy.write_text(policy.read_text().replace("{colluders: 1}", "{colluders: 2}"))
    before = site.history
    code, message = error_of(_contribute(site, study, "--digest", study.digest))
    assert (code, reason in message) == (NO_POLICY, True)
    assert site.history == before
    refused = site.run("review", study.name)[1]["refused"]
    assert reason in refused
    steps = {each["name"]: each["next"] for each in site.run("studies")[1]["studies"]}
    assert steps[study.name] == f"nothing, it is not covered: {refused}"


def test_a_contribution_from_before_a_renewal_is_sent_with_the_key_that_made_it(
    federation: MaskedFederation,
) -> None:
    site, study = federation.sites[-1], federation.study
    site.run("contribute", study.name, "--yes", "--digest", study.digest, die_at="send")
    files = [site.folder / name for name in ("key.pem", "certificate.pem")]
    before = [file.read_bytes() for file in files]
    issued = make_enrolled_site(federation.curator, site.folder, name=site.name)
    for file in files:
        file.write_bytes((issued.folder / file.name).read_bytes())
    code, message = error_of(_contribute(site, study))
    assert code == IDENTITY
    assert "before the site's key was renewed" in message
    for file, content in zip(files, before, strict=True):
        file.write_bytes(content)
    code, document = _contribute(site, study)
    assert (code, document["already_stored"]) == (0, False)


@pytest.mark.parametrize(
    ("mechanism", "one_more", "all_others"),
    [("gaussian", "1.46", "1.46"), ("laplace", None, None)],
)
def test_a_review_says_against_whom_and_what_is_left_if_more_collude(
    curator: Curator, tmp_path: Path, mechanism: str, one_more: str | None, all_others: str | None
) -> None:
    federation = make_masked_federation(curator, tmp_path, mechanism=mechanism)
    code, document = federation.sites[0].run("review", federation.study.name)
    assert code == 0
    said = document["aggregate"]
    assert (said["quorum"], said["colluders"], said["honest"]) == (3, 1, 2)
    assert said["openers"] == list(federation.terms.openers)
    assert (said["epsilon_one_more"], said["epsilon_all_others"]) == (one_more, all_others)
