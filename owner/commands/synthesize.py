"""The command `synthesize`.

The generator is seeded with public values: the result file, this owner's name, the number of rows.
So one processor draws the same rows each time, and owners do not draw each other's rows. The rows
may be predictable: they are post-processing of released data
(docs/explanation/synthetic-rows.md, 32). What was drawn and signed once is
kept and sent again (`dppca.owner.synthesis.kept_rows`).
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import BufferedRandom
from pathlib import Path
from typing import Any

import numpy as np

from dppca.common.analysis.field.missed import MOST_ROWS, Missed
from dppca.common.analysis.rows.synthesis import SyntheticRows, make_generator, synthesize
from dppca.common.kernel.attestation.results import Result
from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.attestation.verify import read_authority
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.errors import ConflictError
from dppca.common.kernel.identity.tls import load_credentials
from dppca.common.kernel.schema import Column
from dppca.common.kernel.study import Study
from dppca.common.shell.console import progress
from dppca.owner.client.calls import connect
from dppca.owner.ledger.database import open_ledger
from dppca.owner.release.reading import ShowProgress
from dppca.owner.site.config import Site
from dppca.owner.site.kept_studies import make_folder
from dppca.owner.synthesis.kept_rows import WantedRows, discard, find_signed, give_name, unpublished
from dppca.owner.synthesis.tables import publishable, write_released

DRAWING = "Drawing synthetic rows"
_FIT_ROWS = 1 << 16
"""Number of rows that the fit of a field counts for in the progress."""


@dataclass(frozen=True, slots=True)
class FormTable:
    """Signed table of one form: where it lies, and its claims.

    ``drawn`` are the rows, or None if the table was there already.
    """

    path: Path
    claims: Mapping[str, Any]
    drawn: SyntheticRows | None


def provide_forms(
    site: Site,
    study: Study,
    result: Result,
    components_sha256: bytes,
    paths: Mapping[Form, Path],
    *,
    n_rows: int | None,
    publish: bool = False,
    show: ShowProgress = progress,
) -> dict[Form, FormTable]:
    """Return a signed table of each form, as it lies at its path or else drawn now.

    ``n_rows`` is the number of rows; None means any, or this owner's if they are drawn. Tables to
    ``publish`` are drawn into a folder of their own (`kept_rows.unpublished`). Raise as
    `kept_rows.find_signed` and `write_released`.
    """
    ca, signer = read_authority(site.ca), make_signer(load_credentials(site))
    tables: dict[Form, FormTable] = {}
    for form, path in paths.items():
        wanted = WantedRows(study.digest, components_sha256, form, n_rows, ca)
        found = find_signed(path, wanted, publish=publish)
        if found is not None:
            tables[form] = FormTable(found.path, found.claims, None)
    missing = {form: path for form, path in paths.items() if form not in tables}
    n_rows = n_rows or default_rows(site.name, result)
    total = n_rows * len(missing) + (_FIT_ROWS if Form.DECODED in missing else 0)
    with show(DRAWING, total, unit="") as bar:
        for number, (form, named) in enumerate(missing.items()):
            path = unpublished(named) if publish else named
            make_folder(path.parent)

            def fitted(share: float, before: int = n_rows * number) -> None:
                bar.reach(before + round(_FIT_ROWS * share))

            drawn = synthesize(
                result,
                study,
                form,
                n_rows=n_rows,
                rng=make_generator(site.name, components_sha256, n_rows),
                progress=fitted,
            )
            write_released(
                path,
                drawn.batches(),
                signer,
                fields=drawn.fields,
                claims=drawn.claims,
                progress=bar.advance,
            )
            tables[form] = FormTable(path, drawn.claims, drawn)
    return {form: tables[form] for form in paths}


def missed_by(table: FormTable, result: Result, study: Study) -> list[Missed]:
    """Return what a table of decoded rows misses of the release, drawn now or not."""
    from dppca.common.analysis.rows.agreement import compare_with_release
    from dppca.owner.records.table import open_table

    if table.drawn is not None:
        return list(table.drawn.missed)
    parts, found = list[Sequence[Column]](), 0
    for columns in open_table(table.path, study.table).batches():
        parts.append(columns)
        found += len(columns[0])
        if found >= MOST_ROWS:
            break
    rows = [np.concatenate(each) for each in zip(*parts, strict=True)]
    return list(compare_with_release(result, study, rows))


def possible_forms(study: Study) -> list[Form]:
    """Return the forms of a study's rows: decoded ones alone if it continues another."""
    return list(Form) if study.continues is None else [Form.DECODED]


def default_rows(owner: str, result: Result) -> int:
    """Return the number of rows that this owner contributed, or an equal share if it was none."""
    shares = result.header.shares
    own = next((share.n_rows for share in shares if share.owner == owner), None)
    return own or max(1, result.header.n_rows // len(shares))


def forms_at(folder: Path, forms: Iterable[Form]) -> dict[Form, Path]:
    """Return the paths in a folder for synthetic rows of each form."""
    return {form: folder / f"synthetic-{form.value}.parquet" for form in forms}


def publish_forms(
    site: Site,
    study: Study,
    tables: Mapping[Form, FormTable],
    paths: Mapping[Form, Path],
    components_sha256: bytes,
    *,
    usual_rows: int,
) -> dict[str, int]:
    """Upload each form, give it its path once it is accepted, and return its size in bytes.

    The ledger has an entry of what is sent, before it is. ``usual_rows`` are `default_rows`. Raise
    `ConflictError` if this owner has published other rows: those here stay as they are;
    `ChainError` if the site is locked, and `NotApprovedError` if people of the site have to sign
    first.
    """
    sizes: dict[str, int] = {}
    with ExitStack() as opened:
        streams = {
            form: opened.enter_context(publishable(table.path)) for form, table in tables.items()
        }
        sent = {
            form.value: (int(tables[form].claims["n_rows"]), _digest(stream))
            for form, stream in streams.items()
        }
        with open_ledger(site.ledger, lock=site.lock) as ledger:
            ledger.publish(study, sent, now=utc_now(), usual_rows=usual_rows)
        client = opened.enter_context(connect(site))
        bar = opened.enter_context(progress("Publishing", len(tables)))
        for form, stream in streams.items():
            try:
                client.publish(
                    study.digest,
                    form,
                    stream,
                    n_rows=tables[form].claims["n_rows"],
                    components_sha256=components_sha256,
                )
            except ConflictError:
                for each in paths.values():
                    discard(each)
                raise
            sizes[form.value] = stream.tell()
            if tables[form].path != paths[form]:
                give_name(paths[form])
            bar.advance()
    return sizes


def _digest(stream: BufferedRandom) -> str:
    """SHA-256 of a whole stream, hexadecimal; it stands at its end afterwards, as it was."""
    stream.seek(0)
    return hashlib.file_digest(stream, "sha256").hexdigest()
