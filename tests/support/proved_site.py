"""A site whose components two owners signed and a curator countersigned, made without a wire."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from common.privacy.entropy import SeededEntropy
from common.privacy.release import Release, draw
from common.proof.components import SignedRelease, sealed_result
from common.proof.signatures import Purpose, signer_of
from common.study import Study
from common.transport.tls import Role
from curator.aggregate import aggregate
from curator.record import Chain, Contribution
from owner.config import load_site
from owner.enrolment import enrol
from owner.records import moments_of_table, open_table
from owner.studies import components_path, keep_study, save
from tests.support.authority import Authority, new_authority
from tests.support.daemon import write_credentials
from tests.support.owner_site import OwnerSite
from tests.support.site import make_rows, make_study

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


def make_proved_site(folder: Path) -> ProvedSite:
    """Nothing has been charged to its data set ``survey``; the components are there."""
    authority, study = new_authority(), make_study(owners=list(OWNERS))
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
            moments_of_table(open_table(path, study.table), study.table),
            release_id=hashlib.sha256(owner.encode()).digest()[:16],
            ledger_sequence=1,
            entropy=SeededEntropy(seed),
        )
        receipt = release.receipt.canonical_bytes()
        signature = signer_of(credentials[owner]).sign(Purpose.RELEASE, receipt)
        releases.append(release)
        signed.append(SignedRelease(owner, receipt, signature, credentials[owner].certificate))
    result = aggregate(
        study,
        [_contribution(owner, r) for owner, r in zip(OWNERS, releases, strict=True)],
        [release.packed for release in releases],
    )
    curator = signer_of(authority.issue(Role.CURATOR, "hub"))
    site = load_site(site_folder)
    keep_study(site, study)
    save(components_path(site, study.name), sealed_result(result, study, signed, curator))
    return ProvedSite(OwnerSite(site_folder, "owner-1"), study, authority)


def _contribution(owner: str, release: Release) -> Contribution:
    return Contribution(
        owner=owner,
        release_id=release.release_id,
        n_rows=release.n_rows,
        n_bytes=len(release.payload()),
        sha256=hashlib.sha256(release.payload()).digest(),
        chain=Chain(1, bytes(32)),
        receipt=release.receipt.canonical_bytes(),
        received_s=0,
    )
