"""A site that has the components of a study, made without a curator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from dppca.common.attestation.components import sealed_result
from dppca.common.attestation.signatures import make_signer
from dppca.common.attestation.sums import SignedRelease
from dppca.common.privacy.release import calibrate, receipt_for
from dppca.common.results import Result
from dppca.common.signing import Purpose
from dppca.common.study import Study
from dppca.common.transport.tls import Role
from dppca.owner.ledger.database import compare_ledger
from dppca.owner.ledger.mark import Held
from dppca.owner.site.config import load_site
from dppca.owner.site.enrolment import enrol
from dppca.owner.site.kept_studies import components_path, keep_study, save
from tests.support.certificates import Authority, new_authority, write_credentials
from tests.support.latent_rows import make_result, make_rows
from tests.support.owner_site import OwnerSite
from tests.support.studies import make_study

N_ROWS = 600


def make_trained_site(
    folder: Path, *, budget: str = 'epsilon: "10", delta: "0"', rows: Any = None, **changes: Any
) -> tuple[OwnerSite, Study]:
    """A site with `tests.support.latent_rows`' rows as data set ``survey``; nothing was charged."""
    study = make_study("latent", **changes)
    enrol(folder, name="owner-1", curator="127.0.0.1:1")
    authority = new_authority()
    write_credentials(folder, authority.issue(Role.OWNER, "owner-1"))
    path = folder / "rows.csv"
    pa.csv.write_csv(make_rows(N_ROWS) if rows is None else rows, path)
    (folder / "policy.yaml").write_text(f"data_sets:\n  survey: {{path: rows.csv, {budget}}}\n")
    site = load_site(folder)
    compare_ledger(site.ledger, Held(), lock=site.lock)  # as a command does that asks a curator
    keep_study(site, study)
    save(components_path(site, study.name), proved(make_result(study, path), study, authority))
    return OwnerSite(folder, "owner-1"), study


def proved(result: Result, study: Study, authority: Authority) -> bytes:
    """The result file, with the receipts of the owners that it names, as if they had signed it."""
    signed = []
    for share in result.header.shares:
        receipt = receipt_for(
            study,
            calibrate(study),
            release_id=bytes(16),
            n_rows=share.n_rows,
            payload_sha256=share.payload_sha256,
            ledger_sequence=1,
            software="test",
        ).canonical_bytes()
        owner = make_signer(authority.issue(Role.OWNER, share.owner))
        signature = owner.sign(Purpose.RELEASE, receipt)
        signed.append(SignedRelease(share.owner, receipt, signature, owner.certificate))
    return sealed_result(
        result, study, calibrate(study), signed, make_signer(authority.issue(Role.CURATOR, "hub"))
    )
