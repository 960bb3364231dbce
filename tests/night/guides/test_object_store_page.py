"""The commands of ``docs/how-to/use-object-store.md``, run as they stand there."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from dppca.common.study import Study
from tests.support.checkout import ROOT
from tests.support.object_store import BUCKET, object_store, upload
from tests.support.page_shell import PageShell, read_blocks
from tests.support.sites import OwnerSite

PAGE = ROOT / "docs/how-to/use-object-store.md"


def write_rows(folder: Path, n_files: int = 3, n_each: int = 100) -> None:
    """Parquet files in a folder, as a job leaves them."""
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    for number in range(n_files):
        ages = [17 + (row + number) % 73 for row in range(n_each)]
        rows = {"age": ages, "sex": ["Male", "Female"] * (n_each // 2), "work": ["state"] * n_each}
        pa.parquet.write_table(pa.table(rows), folder / f"part-{number}.parquet")


def test_the_page_leads_from_a_key_to_a_contribution(
    tmp_path: Path, site: OwnerSite, study: Study
) -> None:
    write_rows(tmp_path / "rows")
    blocks = read_blocks(PAGE)
    with pytest.MonkeyPatch.context() as patch, object_store(patch) as system:
        upload(system, tmp_path / "rows", below="heart/2026")
        shell = PageShell(tmp_path, blocks)
        shell.variables |= {
            # The test's server; its key is the page's.
            "AWS_ENDPOINT_URL": os.environ["AWS_ENDPOINT_URL"],
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_PROFILE": "dppca",
            "HOME": str(tmp_path),
            "BUCKET": BUCKET,
            "ROWS": "heart/2026",
            "SITE": str(site.folder),
            "STUDY": study.name,
        }
        (tmp_path / ".aws").mkdir()
        (tmp_path / ".aws/credentials").write_text(kept := "[default]\naws_access_key_id = mine\n")
        said = [shell.run("key"), shell.run("policy"), shell.run("look")]
        assert not site.history.reservations
        said.append(shell.run("contribute"))
    assert (tmp_path / ".aws/credentials").read_text().startswith(kept)
    assert (tmp_path / ".aws/credentials").stat().st_mode & 0o777 == 0o600
    whole = " ".join("".join(said).split())
    assert f"study {study.name} can be served by people (300 rows)" in whole
    assert "No faults" in whole
    (charged,) = site.history.reservations
    assert charged.request.data_set == "people"
    assert BUCKET not in whole, "an address stands in no message"
    assert "and-this" not in whole
