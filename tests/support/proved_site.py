"""A site whose components two owners signed and a curator countersigned, made without a wire."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from dppca.common.attestation.components import sealed_result
from dppca.common.attestation.signatures import make_signer
from dppca.common.attestation.sums import SignedRelease
from dppca.common.privacy.noise.entropy import SeededEntropy
from dppca.common.privacy.release import calibrate, draw
from dppca.common.signing import Purpose
from dppca.common.study import Study
from dppca.common.transport.tls import Role
from dppca.curator.study.aggregate import aggregate
from dppca.owner.ledger.database import compare_ledger
from dppca.owner.ledger.mark import Held
from dppca.owner.records import moments_of_table, open_table
from dppca.owner.site.config import load_site
from dppca.owner.site.enrolment import enrol
from dppca.owner.site.kept_studies import components_path, keep_study, save
from tests.support.certificates import Authority, new_authority, write_credentials
from tests.support.latent_rows import make_rows
from tests.support.owner_site import OwnerSite
from tests.support.pooling import contribution_of
from tests.support.studies import make_study

OWNERS = ("owner-1", "owner-2")
N_ROWS = 400


@dataclass(frozen=True, slots=True)
class ProvedSite:
    """The first owner's site, and all that others hold."""

    site: OwnerSite
    study: Study
    authority: Authority

    @property
    def components(self) -> Path:
        return components_path(load_site(self.site.folder), self.study.name)

    @property
    def ca(self) -> bytes:
        return self.authority.pem


def make_proved_site(folder: Path, **changes: Any) -> ProvedSite:
    """Nothing has been charged to its data set ``survey``; the components are there."""
    authority, study = new_authority(), make_study("latent", owners=list(OWNERS), **changes)
    credentials = {name: authority.issue(Role.OWNER, name) for name in OWNERS}
    site_folder = folder / "site"
    enrol(site_folder, name="owner-1", curator="127.0.0.1:1")
    write_credentials(site_folder, credentials["owner-1"])
    (site_folder / "policy.yaml").write_text(
        'data_sets:\n  survey: {path: rows.csv, epsilon: "100", delta: "1e-3"}\n'
    )
    releases, signed = [], []
    for seed, owner in enumerate(OWNERS):
        path = site_folder / "rows.csv" if owner == "owner-1" else folder / f"{owner}.csv"
        pa.csv.write_csv(make_rows(N_ROWS, seed), path)
        release = draw(
            study,
            calibrate(study),
            moments_of_table(open_table(path, study.table), study.table),
            release_id=hashlib.sha256(owner.encode()).digest()[:16],
            ledger_sequence=1,
            entropy=SeededEntropy(seed),
        )
        receipt = release.receipt.canonical_bytes()
        signature = make_signer(credentials[owner]).sign(Purpose.RELEASE, receipt)
        releases.append(release)
        signed.append(SignedRelease(owner, receipt, signature, credentials[owner].certificate))
    result = aggregate(
        study,
        calibrate(study),
        [contribution_of(owner, r) for owner, r in zip(OWNERS, releases, strict=True)],
        [release.packed for release in releases],
    )
    curator = make_signer(authority.issue(Role.CURATOR, "hub"))
    site = load_site(site_folder)
    compare_ledger(site.ledger, Held(), lock=site.lock)  # as a command does that asks a curator
    keep_study(site, study)
    save(
        components_path(site, study.name),
        sealed_result(result, study, calibrate(study), signed, curator),
    )
    return ProvedSite(OwnerSite(site_folder, "owner-1"), study, authority)
