"""Make `edition-1.tar.xz`: one file of every kind that an edition of the software leaves behind.

Run it with the commands of the edition whose files are wanted, from that edition's checkout::

    python FOLDER/make_edition.py .venv/bin edition-1.tar.xz

`edition-1` was made at commit 4d98317, before anything was renamed or moved. Its rows are made up;
its keys guard nothing. Certificates last ten years, so that a test may start the curator.
What is in it:

* ``authority/``, ``curator/`` (credentials), ``operator/``, ``crl.pem`` of a revoked certificate;
* ``state/``: the curator's store after five studies: one finished with Laplace noise, one with
  Gaussian noise and overlap, one of unit-ball rows, one open, one aborted; ``backup/``: a copy;
* ``hospital/``, ``clinic/``: sites with ledger, documents, components, synthetic rows, models of
  every kind that `train` makes, a report and a released summary.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

DAYS = "3650"
ROWS = 120
ATTRIBUTES = [
    {"name": "age", "type": "numeric", "lower": 17, "upper": 90},
    {"name": "sex", "type": "binary", "values": ["Female", "Male"]},
    {"name": "work", "type": "categorical", "categories": ["Private", "State", "Other"]},
]
BALL = [
    {"name": name, "type": "numeric", "centre": 0, "scale": 4} for name in ("age", "bmi", "hba1c")
]
LAPLACE = {"mechanism": "laplace", "epsilon": "1.0"}
GAUSSIAN = {"mechanism": "gaussian", "epsilon": "1.0", "delta": "1e-6"}
STUDIES = {
    "plain": {"privacy": LAPLACE, "components": {"count": 2}},
    "mixed": {"privacy": GAUSSIAN, "components": {"contribution_rate": 0.9}, "overlap": True},
    "ball": {"privacy": LAPLACE, "components": {"above_noise": True}},
    "open": {"privacy": LAPLACE, "components": {"count": 1}},
    "aborted": {"privacy": LAPLACE, "components": {"count": 1}},
}
MODELS = (
    ("plain", "dppca-svm", "--kernel", "rbf"),
    ("plain", "dp-svm", "--epsilon", "0.5"),
    ("plain", "private-svm", "--epsilon", "0.5"),
    ("plain", "pca-dpsvm", "--epsilon", "0.5"),
    ("plain", "svm"),
    ("mixed", "dp-svm", "--epsilon", "0.5", "--delta", "1e-7"),
)


class Edition:
    """Runs the commands of one edition in one folder."""

    def __init__(self, commands: Path, folder: Path) -> None:
        self.commands, self.folder = commands, folder
        self.variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}

    def start(self, *line: str) -> subprocess.Popen[bytes]:
        command = [str(self.commands / line[0]), *line[1:]]
        return subprocess.Popen(command, cwd=self.folder, env=self.variables)

    def run(self, *line: str) -> None:
        code = self.start(*line).wait()
        if code:
            raise SystemExit(f"{' '.join(line)}: {code}")

    def curator(self, *line: str) -> None:
        self.run("dppca-curator", *line)

    def owner(self, site: str, *line: str) -> None:
        self.run("dppca-owner", "--site", site, *line)


def main(commands: Path, output: Path) -> None:
    """Run the studies and pack what they leave."""
    folder = Path(tempfile.mkdtemp())
    edition = Edition(commands.resolve(), folder)
    pki = ("--directory", "authority")
    edition.curator("pki", "init", *pki, "--name", "golden", "--days", DAYS)
    host = ("--host", "localhost")
    for role, name, more in (("curator", "hub", host), ("operator", "olga", ())):
        line = ("--role", role, "--name", name, "--output", role, "--days", DAYS, *more)
        edition.curator("pki", "issue", *pki, *line)
    serve = ("serve", "--state", "state", "--listen", "127.0.0.1:0", "--credentials", "curator")
    daemon = edition.start("dppca-curator", *serve, "--port-file", "port")
    try:
        while not (folder / "port").exists():
            time.sleep(0.1)
        port = (folder / "port").read_text().strip().rpartition(":")[2]
        edition.variables |= {
            "DPPCA_CURATOR": f"localhost:{port}",
            "DPPCA_CREDENTIALS": "operator",
        }
        for site in ("hospital", "clinic", "former"):
            enrol(edition, site, port)
        revoke = ("--name", "former", "--output", "crl.pem")
        edition.curator("pki", "revoke", *pki, *revoke)
        run_studies(edition)
        edition.curator("backup", "--state", "state", "--to", "backup")
    finally:
        daemon.terminate()
        daemon.wait()
    for gone in ("former", "port"):
        path = folder / gone
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with tarfile.open(output, "w:xz") as archive:
        for path in sorted(folder.iterdir()):
            archive.add(path, path.name)
    shutil.rmtree(folder)


def enrol(edition: Edition, site: str, port: str) -> None:
    """Make a site, its certificate, its rows and its policy."""
    edition.owner(site, "init", "--name", site, "--curator", f"localhost:{port}")
    request, certificate = f"{site}/request.pem", f"{site}/certificate.pem"
    line = ("--request", request, "--output", certificate, "--name", site, "--days", DAYS)
    edition.curator("pki", "sign", "--directory", "authority", *line)
    shutil.copy(edition.folder / "authority/ca.pem", edition.folder / site)
    draw = random.Random(site)
    table = ["age,sex,work,bmi,hba1c"]
    for _ in range(ROWS):
        sex, work = draw.choice(["Female", "Male"]), draw.choice(["Private", "State", "Other", "?"])
        age = draw.randint(17, 90)
        table.append(f"{age},{sex},{work},{draw.gauss(25, 4):.1f},{draw.gauss(6, 1):.1f}")
    (edition.folder / site / "survey.csv").write_text("\n".join(table) + "\n")
    (edition.folder / site / "policy.yaml").write_text(
        'data_sets:\n  survey: {path: survey.csv, epsilon: "20", delta: "1e-5"}\n'
    )


def run_studies(edition: Edition) -> None:
    """Carry every study as far as its name says."""
    for name, settings in STUDIES.items():
        ball = name == "ball"
        schema = {"max_rows_per_person": 1, "attributes": BALL if ball else ATTRIBUTES}
        if ball:
            schema["row_norm"] = {"include_sums": True}
        document = {"name": name, "owners": ["hospital", "clinic"], **settings, "schema": schema}
        (edition.folder / "study.yaml").write_text(json.dumps(document))
        edition.curator("study", "create", "study.yaml")
        (edition.folder / "study.yaml").unlink()
    edition.curator("study", "abort", "aborted", "--reason", "not needed")
    edition.owner("hospital", "contribute", "open", "--yes")
    for name in ("plain", "mixed", "ball"):
        for site in ("hospital", "clinic"):
            edition.owner(site, "contribute", name, "--yes")
        for site in ("hospital", "clinic"):
            edition.owner(site, "components", name, "--wait", "60")
            edition.owner(site, "synthesize", name, "--publish")
    for study, method, *options in MODELS:
        line = ("--target", "sex", "--method", method, *options)
        if method in ("dp-svm", "private-svm", "pca-dpsvm"):
            line = (*line, "--yes")
        edition.owner("hospital", "train", study, *line)
    edition.owner("hospital", "report", "plain")
    release = ("--release", "--epsilon", "0.5", "--target", "sex", "--yes")
    edition.owner("hospital", "report", "plain", *release)
    edition.curator("study", "close", "ball")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
