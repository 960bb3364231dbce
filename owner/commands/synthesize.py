"""What `synthesize` does.

The generator is seeded with public values: the result file, this owner's name, the number of rows.
So the command makes the same rows each time, publishing may be repeated after an interruption, and
owners do not draw each other's rows. The rows may be predictable: they are post-processing of
released data (docs/decisions/0032-synthetic-rows-repeat.md).
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from dppca.common.attestation.results import Result
from dppca.common.attestation.signatures import Signer
from dppca.common.documents.messages import Form
from dppca.common.shell.console import progress
from dppca.common.study import Study
from dppca.common.synthesis.rows import SyntheticRows, make_generator, synthesize
from dppca.owner.client.calls import connect
from dppca.owner.site.config import Site
from dppca.owner.synthesis.tables import publishable, write_released

_FIT_ROWS = 1 << 16
"""Number of rows that the fit of a field counts for in the progress."""


def draw_forms(
    site: Site,
    study: Study,
    result: Result,
    components_sha256: bytes,
    signer: Signer,
    paths: Mapping[Form, Path],
    *,
    n_rows: int,
    quiet: bool = False,
) -> dict[Form, SyntheticRows]:
    """Draw synthetic rows of each form and write them, signed, to its path."""
    total = n_rows * len(paths) + (_FIT_ROWS if Form.DECODED in paths else 0)
    rows_by_form: dict[Form, SyntheticRows] = {}
    with progress("Drawing synthetic rows", total, enabled=not quiet) as bar:
        for form, path in paths.items():

            def fitted(share: float, before: int = n_rows * len(rows_by_form)) -> None:
                bar.reach(before + round(_FIT_ROWS * share))

            drawn = rows_by_form[form] = synthesize(
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
    return rows_by_form


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
    site: Site, study: Study, paths: dict[Form, Path], n_rows: int, components_sha256: bytes
) -> dict[str, int]:
    """Upload each form and return its size in bytes."""
    sizes: dict[str, int] = {}
    with connect(site) as client, progress("Publishing", len(paths)) as bar:
        for form, path in paths.items():
            with publishable(path) as stream:
                client.publish(
                    study.digest,
                    form,
                    stream,
                    n_rows=n_rows,
                    components_sha256=components_sha256,
                )
                sizes[form.value] = stream.tell()
            bar.advance()
    return sizes
