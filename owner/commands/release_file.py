"""What commands share that make a file which may leave: it is charged, drawn and stored once.

As in `contribute`: review, consent, rows read and all done that can fail, and only then the release
path of `dppca.owner.release.path`. A file that is stored already is written again as it is, for
which neither rows nor consent are needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from dppca.common.attestation.signatures import Signer, make_signer
from dppca.common.clock import utc_now
from dppca.common.console import progress, say
from dppca.common.documents import CodedByRule
from dppca.common.privacy.labels import Label
from dppca.common.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.study import Study
from dppca.owner.client.session import load_site_credentials, require_newest_ledger
from dppca.owner.commands.budget_totals import find_left
from dppca.owner.commands.consent import ask, require_terminal
from dppca.owner.commands.counting import counted_faults
from dppca.owner.engines.engine import LocalEngine
from dppca.owner.ledger.chain import admit_charge
from dppca.owner.ledger.database import StoredRelease, open_ledger
from dppca.owner.ledger.reading import read_history
from dppca.owner.records import Table, open_table
from dppca.owner.release.contribution import NextStep, compute_budget_status, decide_step
from dppca.owner.release.path import FilePlan, store_release
from dppca.owner.render.faults import with_counts
from dppca.owner.render.releases import LeavingFile, ReleasedFile, offer_text
from dppca.owner.site.config import Site
from dppca.owner.site.kept_studies import make_folder
from dppca.owner.site.policy import DataSet

_Prepared = TypeVar("_Prepared")


@dataclass(frozen=True, slots=True)
class Made:
    """A file that may leave, as it is stored.

    Attributes
    ----------
    coded_by_rule
        Counts of values that were coded by rule; None where no row was read.
    """

    site: Site
    stored: StoredRelease
    signer: Signer
    path: Path
    already_stored: bool
    coded_by_rule: CodedByRule | None

    def document(self) -> ReleasedFile:
        """What both commands print; all but the counts is the same each time."""
        request, receipt = self.stored.reservation.request, json.loads(self.stored.receipt)
        population, left = find_left(self.site, request)
        return {
            "study": request.study,
            "data_set": request.data_set,
            "population": population,
            "remaining": left,
            "label": Label(receipt["label"]),
            "rows": self.stored.commitment.n_rows,
            "mechanism": request.mechanism,
            **request.cost_fields(),
            "release_id": self.stored.reservation.release_id.hex(),
            "bytes": len(self.stored.payload),
            "receipt": receipt,
            "already_stored": self.already_stored,
            "coded_by_rule": self.coded_by_rule,
        }


def make_file(
    site: Site,
    study: Study,
    data_set: DataSet,
    digest: str,
    plan: Callable[[Table], tuple[FilePlan[_Prepared], LeavingFile]],
    *,
    command: str,
    path: Path,
    yes: bool,
    quiet: bool,
) -> Made:
    """Make what a request asks for, or find it stored; it is not written to ``path`` yet.

    Parameters
    ----------
    digest
        Digest of the request.
    plan
        From the table to the release and what it is in words.
    command
        What makes the same again, after ``dppca-owner``.
    quiet
        Do not show the review where consent was given beforehand.
    """
    # Both before the charge: where they fail, nothing was spent.
    signer = make_signer(load_site_credentials(site))
    make_folder(path.parent)
    if decide_step(read_history(site.ledger), digest) is NextStep.SEND:
        with open_ledger(site.ledger, lock=site.lock) as ledger:
            return Made(
                site, ledger.stored(digest), signer, path, already_stored=True, coded_by_rule=None
            )
    require_newest_ledger(site)
    history = read_history(site.ledger)
    table = open_table(data_set.source, study.table)
    release, offer = plan(table)
    request = replace(
        release.request(account=data_set.account, command=command),
        query_sha256=table.query_sha256,
    )
    admit_charge(history, request)
    status, step = compute_budget_status(history, request), decide_step(history, digest)
    text = offer_text(offer, request, table.n_rows, status, step)
    if not yes:
        require_terminal(look="look at `dppca-owner budget`")
    counted = counted_faults(table, LocalEngine(), progress=partial(progress, enabled=not quiet))
    text = with_counts(text, counted, study.faults)
    if not yes:
        ask(text, f"Make this {offer.noun}?")
    elif not quiet:
        say(text, err=True)
    with progress("Reading rows", table.n_rows + offer.n_more, enabled=not quiet) as bar:
        prepared = release.prepare(table, progress=bar.advance)
    with open_ledger(site.ledger, lock=site.lock) as ledger:
        stored = store_release(
            ledger, request, release, prepared, entropy=OperatingSystemEntropy(), clock=utc_now
        )
    counts = counted.counts_document(study.faults)
    return Made(site, stored, signer, path, already_stored=False, coded_by_rule=counts)
