"""A folder from ``dppca-simulate compose``, for a small study of five owners."""

from pathlib import Path

from click.testing import CliRunner

from dppca.deploy.simulation.cli import cli

OWNERS = ("owner-1", "owner-2", "owner-3")
"""Owners of the demo."""
N_OWNERS = 5
N_ROWS = 23
STUDY = """
name: heights
owners: [any]
privacy: {mechanism: laplace, epsilon: "2.0"}
components: {contribution_rate: 0.9}
schema:
  max_rows_per_person: 1
  resolution_bits: 4
  attributes:
    - {name: height, type: numeric, lower: 100, upper: 220}
    - {name: "likes $5 'n more", type: binary, values: [0, 1]}
"""


def write_folder(root: Path) -> Path:
    """Write rows, a study and the folder; return the folder."""
    (root / "study.yaml").write_text(STUDY)
    rows = "".join(f"{100 + i},{i % 2}\n" for i in range(N_ROWS))
    (root / "rows.csv").write_text("height,likes $5 'n more\n" + rows)
    output = root / "written"
    options = ["--study", str(root / "study.yaml"), "--data", str(root / "rows.csv")]
    options += ["--owners", str(N_OWNERS), "--output", str(output)]
    options += ["--target", "likes $5 'n more"]
    done = CliRunner().invoke(cli, ["compose", *options])
    assert done.exit_code == 0, done.output
    return output
