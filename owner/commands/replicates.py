"""Signed replicates of a release, by `synthesize --replicates`.

They are the same at every site: their noise and their rows come from the digest of the result, from
their number and from the number of rows.
"""

from pathlib import Path

from dppca.common.analysis.rows.replicates import draw_replicate
from dppca.common.kernel.attestation.claims import Replicate
from dppca.common.kernel.attestation.results import Result
from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.attestation.verify import read_authority
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.identity.tls import load_credentials
from dppca.common.kernel.study import Study
from dppca.common.shell.console import progress
from dppca.owner.site.config import Site
from dppca.owner.synthesis.kept_rows import WantedRows, find_signed, replicate_path
from dppca.owner.synthesis.tables import write_released


def provide_replicates(
    site: Site,
    study: Study,
    result: Result,
    components_sha256: bytes,
    folder: Path,
    *,
    count: int,
    n_rows: int,
) -> list[Path]:
    """Return signed replicates of ``n_rows`` rows, as they lie in a folder or else drawn now.

    Raise as `draw_replicate`, `kept_rows.find_signed` and `write_released`.
    """
    ca, signer = read_authority(site.ca), make_signer(load_credentials(site))
    paths: list[Path] = []
    with progress("Drawing replicates", count) as bar:
        for number in range(1, count + 1):
            which = Replicate(number, count, components_sha256.hex())
            path = replicate_path(folder, number, count)
            wanted = WantedRows(study.digest, components_sha256, Form.DECODED, n_rows, ca, which)
            if find_signed(path, wanted, publish=False) is None:
                drawn = draw_replicate(result, study, which, n_rows=n_rows)
                write_released(
                    path, drawn.batches(), signer, fields=drawn.fields, claims=drawn.claims
                )
            paths.append(path)
            bar.advance()
    return paths
