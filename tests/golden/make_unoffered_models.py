"""Make `unoffered-models.tar.xz`: models by methods that `train` does not offer any more.

Run it with the commands of commit 6c93ac8, the last that offered them::

    python FOLDER/make_unoffered_models.py .venv/bin unoffered-models.tar.xz

They are made in the site folder `hospital` of `edition-1.tar.xz`, from its rows and components, and
are meant to be unpacked over it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

GAUSSIAN = ("--epsilon", "2", "--delta", "1e-6")
AS_PRINTED = ("--variant", "published", "--public-data")
FOLDER = "hospital/studies/plain"
MODELS = {
    "ag-svm": ("ag-svm", *GAUSSIAN),
    "dppca-svm-linear": ("dppca-svm",),
    "dppca-svm-published": ("dppca-svm", "--epsilon", "2", *AS_PRINTED),
    "dpsvd": ("dpsvd", *GAUSSIAN, "--kernel", "rbf"),
    "dpsvd-released": ("dpsvd", *GAUSSIAN, "--label-epsilon", "1", "--yes"),
    "dpsvmdvp-published": ("dpsvmdvp", "--epsilon", "2", *AS_PRINTED),
    "mod-sulq-svm": ("mod-sulq-svm", *GAUSSIAN),
    "pca-dpsvm-published": ("pca-dpsvm", "--epsilon", "2", *AS_PRINTED),
    "private-svm-published": ("private-svm", "--epsilon", "2", *AS_PRINTED),
    "svm-rbf": ("svm", "--kernel", "rbf"),
}
"""Name of a file, and how it was asked for."""


def main(commands: Path, output: Path) -> None:
    """Train each at a copy of the edition's site, and pack the models alone."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with tarfile.open(Path(__file__).with_name("edition-1.tar.xz")) as archive:
            archive.extractall(folder, filter="data")
        curator = _serve(commands.resolve(), folder)
        try:
            made = [_train(commands.resolve(), folder, model) for model in MODELS]
        finally:
            curator.terminate()
            curator.wait()
        with tarfile.open(output, "w:xz") as archive:
            for path in made:
                archive.add(path, path.relative_to(folder))


def _serve(commands: Path, folder: Path) -> subprocess.Popen[bytes]:
    """Start the curator, with which the ledger is compared, and tell the site where it listens."""
    serve = ("serve", "--state", "state", "--listen", "127.0.0.1:0", "--credentials", "curator")
    line = [commands / "dppca-curator", *serve, "--port-file", "port"]
    curator = subprocess.Popen(line, cwd=folder)
    while not (folder / "port").exists():
        time.sleep(0.1)
    port = (folder / "port").read_text().strip().rpartition(":")[2]
    (folder / "hospital/site.yaml").write_text(
        f'version: 1\nname: hospital\ncurator: "localhost:{port}"\n'
    )
    return curator


def _train(commands: Path, folder: Path, model: str) -> Path:
    path = folder / FOLDER / f"model-sex-{model}.skops"
    line = ("train", "plain", "--target", "sex", "--method", *MODELS[model], "--output", path)
    subprocess.run(
        [commands / "dppca-owner", "--site", folder / "hospital", *line],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        check=True,
    )
    return path


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
