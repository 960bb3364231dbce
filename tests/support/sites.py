"""A data steward's site in a folder: with rows and a policy, at a curator, with components."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.csv

from dppca.common.kernel.attestation.components import FirstResult, sign_result
from dppca.common.kernel.attestation.envelopes import SignedFile, read_signed
from dppca.common.kernel.attestation.results import Result
from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.identity.tls import Credentials, Role
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.release import calibrate, draw, receipt_for
from dppca.common.kernel.schema.units import Person
from dppca.common.kernel.study import Study
from dppca.common.transport.testbed import environment
from dppca.curator.study.aggregate import aggregate
from dppca.owner.cli import cli
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.database import compare_ledger, open_ledger
from dppca.owner.ledger.file import read_history
from dppca.owner.ledger.mark import CuratorView
from dppca.owner.records.table import moments_of_table, open_table
from dppca.owner.site.config import load_site
from dppca.owner.site.enrolment import enrol
from dppca.owner.site.kept_studies import components_path, keep_study, save
from dppca.owner.site.opener_keys import list_opener_keys
from tests.support.census import census_rows
from tests.support.certificates import Authority, new_authority, sign_release, write_credentials
from tests.support.commands import answer_of
from tests.support.curator import Curator
from tests.support.documents import require_documented
from tests.support.latent_rows import make_result, make_rows, save_rows
from tests.support.patience import WAIT_S
from tests.support.pooling import contribution_of
from tests.support.studies import make_study

NOWHERE = "127.0.0.1:1"
N_ROWS = 600
"""Rows of a trained site."""
BUDGET = 'epsilon: "3.0", delta: "0"'


@dataclass(frozen=True, slots=True)
class OwnerSite:
    folder: Path
    name: str

    def run(self, *arguments: str, die_at: str | None = None) -> tuple[int, Any]:
        """Exit code and JSON document (None without one) of one command.

        A command that is to die has a separate process; the others run in this one, without
        repeating the imports.
        """
        line = ["--site", str(self.folder), *arguments]
        if die_at is None:
            return answer_of("dppca-owner", cli, *line)
        return _in_its_own([*line, "--json"], die_at)

    def contribute(self, study: Study, *options: str, die_at: str | None = None) -> tuple[int, Any]:
        return self.run("contribute", study.name, "--yes", *options, die_at=die_at)

    def copied_to(self, folder: Path) -> OwnerSite:
        """Copy the site, which has charged nothing yet, for a test that changes it."""
        at = load_site(Path(shutil.copytree(self.folder, folder)))
        with open_ledger(at.ledger, lock=at.lock) as ledger:
            ledger.recover([])  # else a copy is locked
        return OwnerSite(folder, self.name)

    def state_policy(self, populations: list[str], data_sets: list[str]) -> None:
        """Write a policy of these lines of YAML."""
        lines = ["populations:", *(f"  {each}" for each in populations)]
        lines += ["data_sets:", *(f"  {each}" for each in data_sets), ""]
        (self.folder / "policy.yaml").write_text("\n".join(lines))

    @property
    def history(self) -> History:
        """Verified history of the ledger."""
        return read_history(self.folder / "ledger.sqlite")

    @property
    def entries(self) -> list[str]:
        """Kind of each entry of the ledger, in order."""
        with closing(sqlite3.connect(self.folder / "ledger.sqlite")) as direct:
            rows = direct.execute("SELECT document FROM entries ORDER BY sequence").fetchall()
        return [json.loads(document)["kind"] for (document,) in rows]

    @property
    def opener_keys(self) -> tuple[str, ...]:
        return list_opener_keys(self.folder / "openers")


def error_of(answer: tuple[int, Any]) -> tuple[int, str]:
    code, document = answer
    assert document["error"]["exit_code"] == code
    return code, document["error"]["message"]


def _in_its_own(line: list[str], die_at: str) -> tuple[int, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "dppca.owner.cli", *line],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        stdin=subprocess.DEVNULL,
        env=environment(f"kill@{die_at}"),
    )
    assert "Traceback" not in done.stderr, done.stderr
    found = require_documented("dppca-owner", json.loads(done.stdout)) if done.stdout else None
    return done.returncode, found


def policy_text(data_sets: Mapping[str, str], *, budget: str = BUDGET) -> str:
    """A policy whose data sets, fields by name, all draw on one population, ``people``."""
    people = f"  people: {{who: Everyone in these rows, {budget}}}"
    sets = [f"  {name}: {{population: people, {fields}}}" for name, fields in data_sets.items()]
    return "\n".join(["populations:", people, "data_sets:", *sets, ""])


def make_site(
    folder: Path,
    *,
    name: str = "owner-1",
    curator: str = NOWHERE,
    credentials: Credentials | None = None,
    budget: str = BUDGET,
    colluders: int | None = None,
    rows: pa.Table | None = None,
) -> OwnerSite:
    """A site with data set ``survey``: 200 rows of a census by default; nothing is charged."""
    enrol(folder, name=name, curator=curator)
    if credentials is not None:
        write_credentials(folder, credentials)
    masked = "" if colluders is None else f", aggregate: {{colluders: {colluders}}}"
    policy = policy_text({"survey": f"path: rows.csv{masked}"}, budget=budget)
    (folder / "policy.yaml").write_text(policy)
    if rows is None:
        plain = pa.csv.WriteOptions(quoting_style="none", quoting_header="none")
        pa.csv.write_csv(census_rows(200), folder / "rows.csv", plain)
    else:
        pa.csv.write_csv(rows, folder / "rows.csv")
    return OwnerSite(folder, name)


def make_enrolled_site(curator: Curator, folder: Path, *, name: str = "", **how: Any) -> OwnerSite:
    """A site with a certificate of a running curator, which has never seen a nameless owner."""
    name = name or f"owner-{uuid4().hex[:12]}"
    issued = curator.authority.issue(Role.OWNER, name)
    address = curator.address
    return make_site(folder / name, name=name, curator=address, credentials=issued, **how)


def keep_components(site: OwnerSite, study: Study, components: SignedFile) -> None:
    """Keep a study and its result at a site, like the command `components`."""
    at = load_site(site.folder)
    compare_ledger(at.ledger, CuratorView(), lock=at.lock)  # like a command that asks a curator
    keep_study(at, study)
    save(components_path(at, study.name), components)


def make_trained_site(
    folder: Path,
    *,
    budget: str = 'epsilon: "10", delta: "0"',
    rows: Any = None,
    of_rows: Any = None,
    **changes: Any,
) -> tuple[OwnerSite, Study]:
    """A site with ``latent`` rows and their components without noise, or those ``of_rows``."""
    study, authority = make_study("latent", **changes), new_authority()
    rows = make_rows(N_ROWS) if rows is None else rows
    issued = authority.issue(Role.OWNER, "owner-1")
    site = make_site(folder, credentials=issued, budget=budget, rows=rows)
    path = folder / "rows.csv"
    if of_rows is not None:
        path = save_rows(of_rows, folder.with_suffix(".parquet"))
    result = make_result(study, path, key="person" if isinstance(study.unit, Person) else "")
    keep_components(site, study, proved(result, study, authority))
    return site, study


def proved(
    result: Result, study: Study, authority: Authority, first: FirstResult | None = None
) -> SignedFile:
    """The result file; its envelope has receipts that appear to be signed by its owners."""
    signed = []
    for share in result.header.shares:
        receipt = receipt_for(
            study,
            calibrate(study),
            release_id=bytes.fromhex(share.release_id),
            n_rows=share.n_rows,
            payload_sha256=share.payload_sha256,
            ledger_sequence=1,
            software="test",
        )
        issued = authority.issue(Role.OWNER, share.owner)
        signed.append(sign_release(share.owner, receipt, issued))
    curator = make_signer(authority.issue(Role.CURATOR, "hub"))
    return sign_result(result, study, calibrate(study), signed, curator, first=first)


@dataclass(frozen=True, slots=True)
class ProvedSite:
    """The first owner's site, and the property of all others."""

    site: OwnerSite
    study: Study
    authority: Authority

    @property
    def components(self) -> Path:
        return components_path(load_site(self.site.folder), self.study.name)

    @property
    def signed(self) -> SignedFile:
        return read_signed(self.components)

    @property
    def ca(self) -> bytes:
        return self.authority.pem


def make_proved_site(folder: Path, **changes: Any) -> ProvedSite:
    """The first of two owners that each released 400 ``latent`` rows; a curator countersigned."""
    owners = ["owner-1", "owner-2"]
    authority, study = new_authority(), make_study("latent", owners=owners, **changes)
    issued = {name: authority.issue(Role.OWNER, name) for name in owners}
    budget, tables = 'epsilon: "100", delta: "1e-3"', [make_rows(400, seed) for seed in (0, 1)]
    site = make_site(folder / "site", credentials=issued["owner-1"], budget=budget, rows=tables[0])
    pa.csv.write_csv(tables[1], folder / "owner-2.csv")
    releases, signed = [], []
    for seed, (owner, path) in enumerate(
        zip(owners, (site.folder / "rows.csv", folder / "owner-2.csv"), strict=True)
    ):
        release = draw(
            study,
            calibrate(study),
            moments_of_table(open_table(path, study.table), study.table),
            release_id=hashlib.sha256(owner.encode()).digest()[:16],
            ledger_sequence=1,
            entropy=SeededEntropy(seed),
        )
        releases.append(release)
        signed.append(sign_release(owner, release.receipt, issued[owner]))
    result = aggregate(
        study,
        calibrate(study),
        [contribution_of(owner, r) for owner, r in zip(owners, releases, strict=True)],
        [release.packed for release in releases],
    )
    curator = make_signer(authority.issue(Role.CURATOR, "hub"))
    components = sign_result(result, study, calibrate(study), signed, curator)
    keep_components(site, study, components)
    return ProvedSite(site, study, authority)
