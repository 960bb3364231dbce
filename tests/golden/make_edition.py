"""Make the golden edition of this version: every format, as a whole trial writes it.

Under either trust, three owners run a study and a second one that continues it, rows are published,
a classifier is trained and another one released. `KEPT` says which files an edition has. No private
key is among them. Editions of earlier versions stay as they are: this version must read them.
Run from the root, once before a version's tag: ``python -m tests.golden.make_edition``.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow.csv
import yaml

from dppca.common.analysis.study_file import study_from_yaml
from dppca.common.transport.testbed import LocalCurator, LocalFederation, Processes
from dppca.curator.certificates.local import make_authority
from dppca.curator.cli import cli as curator_cli
from dppca.curator.store.sqlite import SqliteStore
from dppca.owner.cli import cli as owner_cli
from tests.support.census import census_rows
from tests.support.commands import answer_of

EDITIONS = Path(__file__).with_name("editions")
OWNERS = ("north", "south", "west")
STUDY = """
name: edition
title: Age, sex and work at three sites
purpose: Try what every version can write.
contact: Olga at the hub, +00 123 456
approval: Ethics board of the hub, 2026-114
owners: [north, south, west]
privacy: {mechanism: gaussian, epsilon: "2.0", delta: "1e-6"}
components: {count: 2}
schema:
  max_rows_per_person: 1
  missing_values: {-99: refused}
  attributes:
    - name: age
      type: numeric
      description: Age at the visit
      unit: years
      lower: 0
      upper: 120
      integer: true
      histogram: true
      bins: 10
      missing: indicator
      missing_values: {-98: not known}
    - {name: sex, type: binary, values: [Female, Male]}
    - {name: work, type: categorical, categories: [private, state], unknown: other}
"""
CLAIMS = (
    "kind",
    "label",
    "signed_by",
    "study",
    "study_digest",
    "continues",
    "owners",
    "form",
    "rows",
)
RELEASED = (
    "site/studies/edition/components.npz",
    "site/studies/edition-second/components.npz",
    "site/studies/edition/synthetic-coded.parquet",
    "site/studies/edition-second/synthetic-decoded.parquet",
    "site/studies/edition/replicate-1-of-4.parquet",
    "joined.csv",
    "joined.arrow",
    "released.skops",
)
"""Files of an edition that have an envelope."""
KEPT = {
    "ca.pem": "authority/ca.pem",
    "backup": "backup",
    "queries.csv": "queries.csv",
    **{f"{name}{end}": f"{name}{end}" for name in RELEASED[-3:] for end in ("", ".intoto.json")},
    **{
        f"site/{name}": f"sites/north/{name}"
        for name in (
            *("site.yaml", "policy.yaml", "peers.yaml", "studies", "model.skops"),
            *("ledger.sqlite", "ledger.mark", "ledger.mark2"),
        )
    },
}
"""Files and folders of an edition, by their place in it, and their place in a trial."""


def _simulate(folder: Path, trust: str) -> Path:
    """The folder of the parties of a trial."""
    (folder / "study.yaml").write_text(STUDY)
    arguments: list[object] = ["--study", folder / "study.yaml", "--output", folder / "trial"]
    for name in OWNERS:
        rows = census_rows(300)
        ages = [{2: -99, 5: -98}.get(age % 7, age) for age in rows["age"].to_pylist()]
        pyarrow.csv.write_csv(rows.set_column(0, "age", [ages]), folder / f"{name}.csv")
        arguments += ["--owner", f"{name}={folder / name}.csv"]
    arguments += ["--target", "sex", "--refine", "sex", "--refine-epsilon", 4, "--keep"]
    if trust == "aggregate":
        arguments += ["--trust", trust, "--colluders", 1, "--openers", 2]
    line = [sys.executable, "-m", "dppca.deploy.simulation.cli", "run", *map(str, arguments)]
    subprocess.run(line, check=True)
    return folder / "trial/parties"


def _release_more(parties: Path) -> None:
    """Tables of all owners' rows, a classifier that may leave, rows to predict, and a backup."""
    policy = parties / "sites/north/policy.yaml"
    document = yaml.safe_load(policy.read_text())
    for population in document["populations"].values():
        population["epsilon"] = "10"
    policy.write_text(yaml.safe_dump(document))
    pyarrow.csv.write_csv(census_rows(8), parties / "queries.csv")
    with Processes() as live:
        federation = LocalFederation(live, parties, make_authority(parties / "another"))
        federation.curator = LocalCurator(live, parties, parties / "curator").start()
        for name in ("joined.csv", "joined.arrow"):
            federation.operate("study", "synthetic", "edition-second", "--output", parties / name)
        federation.own("north", "synthesize", "edition", "--replicates", "4")
        released = ("--method", "dp-svm", "--epsilon", "1", "--output", parties / "released.skops")
        federation.own("north", "train", "edition", "--target", "sex", "--yes", *released)
        live.call(
            "operator",
            *("dppca.curator.cli", "backup", "--state", parties / "state"),
            *("--to", parties / "backup"),
        )


def read_edition(edition: Path, scratch: Path) -> dict[str, Any]:
    """What this version's commands read in an edition, with ``scratch`` an empty folder."""
    site, state = scratch / "site", scratch / "state"
    shutil.copytree(edition / "site", site)
    predicted = scratch / "predictions.csv"

    def own(*arguments: object, locked: bool = False) -> Any:
        code, document = answer_of("dppca-owner", owner_cli, "--site", site, *arguments)
        assert code == (48 if locked else 0), document
        return document

    found = {
        name: _claims(own("verify", edition / name, "--ca", edition / "ca.pem"))
        for name in RELEASED
        if (edition / name).exists()  # 0.1.0 made no replicates; `facts.json` has what was there
    }
    # A copy is shown, but a charge could be missing from it.
    budget, ledger = own("budget", locked=True), own("budget", "verify", locked=True)
    asked = ("--data", edition / "queries.csv", "--output", predicted)
    own("predict", "--model", site / "model.skops", *asked)
    code, _ = answer_of(
        "dppca-curator", curator_cli, "restore", edition / "backup", "--state", state
    )
    assert code == 0
    store = SqliteStore(state)
    studies = {record.study.name: record.state.value for record in store.studies()}
    store.close()
    kept = [study_from_yaml(path) for path in sorted(site.glob("studies/*/study.json"))]
    return {
        **found,
        "study": study_from_yaml(edition / "study.yaml").digest,
        "kept": {study.name: study.digest for study in kept},
        "spent": {each["name"]: each["spent"] for each in budget["populations"]},
        "ledger": {name: ledger[name] for name in ("entries", "head", "releases")},
        "predictions": predicted.read_text().split("\n"),
        "curator": studies,
    }


def _claims(verified: dict[str, Any]) -> dict[str, Any]:
    guarantee = {name: verified["guarantee"][name] for name in ("epsilon", "delta")}
    # A form or a number of rows that does not apply was left out by 0.1.0, and is null since.
    kept = [name for name in CLAIMS if verified[name] is not None or name == "continues"]
    return {**{name: verified[name] for name in kept}, "guarantee": guarantee}


def main() -> None:
    """Write the edition of this version, one for each trust."""
    for trust in ("owner", "aggregate"):
        with tempfile.TemporaryDirectory() as scratch:
            _write(EDITIONS / f"{version('dppca')}-{trust}", _simulate(Path(scratch), trust))


def _write(edition: Path, parties: Path) -> None:
    _release_more(parties)
    shutil.rmtree(edition, ignore_errors=True)
    (edition / "site").mkdir(parents=True)
    assembled = (parties / "assembled-study.yaml").exists()  # with one sum alone, as peers.yaml is
    study = {"study.yaml": "assembled-study.yaml" if assembled else "study.yaml"}
    for name, path in (KEPT | study).items():
        if (parties / path).exists():
            copy = shutil.copytree if (parties / path).is_dir() else shutil.copyfile
            copy(parties / path, edition / name)
    with tempfile.TemporaryDirectory() as scratch:
        facts = read_edition(edition, Path(scratch))
    (edition / "facts.json").write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
