"""The commands of ``docs/how-to/use-spark.md``, run as they stand there."""

import sys
from pathlib import Path

import pyarrow as pa

from dppca.common.kernel.study import Study
from tests.support.census import census_rows
from tests.support.checkout import ROOT
from tests.support.engines import write_files
from tests.support.page_shell import PageShell, read_blocks
from tests.support.patience import run_watched
from tests.support.sites import OwnerSite

PAGE = ROOT / "docs/how-to/use-spark.md"


def test_the_page_leads_from_a_session_to_a_contribution(
    tmp_path: Path, site: OwnerSite, study: Study
) -> None:
    blocks = read_blocks(PAGE)
    assert list(blocks) == ["session", "policy", "contribute"]
    assert len(blocks) + 1 == PAGE.read_text().count("```sh\n"), "all but the variables are run"
    rows = census_rows(400)
    marked = rows.set_column(1, "sex", pa.array(["Female", "hidden-word"] * 200))
    folder = write_files(marked, tmp_path / "rows", 3)
    shell = PageShell(tmp_path, blocks)
    shell.variables |= {"SITE": str(site.folder), "STUDY": study.name, "ROWS": str(folder)}
    shell.variables |= {"TABLE": "spark_catalog.default.people", "HOME": str(tmp_path)}
    shell.run("session")
    make = f"CREATE TABLE people USING parquet LOCATION '{folder}'"
    lines = (
        "from pyspark.sql import SparkSession",
        f'SparkSession.builder.getOrCreate().sql("{make}")',
    )
    (tmp_path / "make.py").write_text("\n".join(lines))
    done = run_watched(
        ["sh", "-euc", f'. ./spark.env; "{sys.executable}" make.py'],
        cwd=tmp_path,
        env=shell.variables,
    )
    assert done.returncode == 0, done.stderr
    said = [shell.run("policy"), shell.run("contribute")]
    assert " ".join(said[0].split()).count("every worker is like this machine") == 2
    assert "400 rows" in " ".join(said[1].split())
    assert "hidden-word" not in "".join(said)
    (reservation,) = site.history.reservations
    assert reservation.request.engine == "spark"
    assert reservation.request.data_set == "table"
