"""Folder of a study in containers: compose file, study, each owner's rows, README."""

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

from dppca.common.kernel.documents.values import DigestText, PathText
from dppca.common.kernel.errors import SettingError
from dppca.deploy.simulation.aggregation import write_draft
from dppca.deploy.simulation.containers.topology import Topology, compose_text, require_names
from dppca.deploy.simulation.disk import ANOTHER_TMPDIR, is_full_disk, telling_full_disk
from dppca.deploy.simulation.evaluate import check_target
from dppca.deploy.simulation.holdings import FileReading, Holdings, hold_rows, write_table
from dppca.owner.records.text_format import USUAL, TextFormat

LEAST_OWNERS = 2  # with one there is nothing to join
MOST_COMPOSED = 20  # owners, each with a network: an engine's own pools hold some thirty
TRIAL, ROWS, RESULTS, HELD_OUT = "trial.json", "rows", "results", "held-out"
_ENVIRONMENT = """\
# What may be changed before `docker compose up`; what the study asks for is in study.yaml, which
# every party holds the same bytes of.

# The image of every container; `make image` in a checkout of DPPCA's source code makes it.
DPPCA_IMAGE={image}
# Memory of each container.
DPPCA_MEMORY=1g
"""

_README = """\
# {study}, with {n_owners} owners in containers

Needed: a Docker engine (20.10 or newer) on this machine, Compose (1.29 or v2), and the image
`{image}`, which `make image` makes in a checkout of DPPCA's source code. `DPPCA_IMAGE` names
another.

```sh
docker compose up                  # or docker-compose up: runs the study to its end
dppca-simulate report .            # the answer: loadings, accuracy, plots, in results/report.md
docker compose down --volumes      # afterwards: forgets keys, ledgers, rows and models
```

`.env` holds what you may change: the image, and the memory of each container.

| here | what it is |
| --- | --- |
| `docker-compose.yml` | a curator, its operator, an authority that signs, {n_owners} owners |
| `study.yaml` | what the study asks for; public{keys} |
| `rows/OWNER/` | the rows of each owner; **not** public |{held_out}
| `results/` | what came of it, once `up` has ended with "The study is done" |

In `results/`:

| file | what it is |
| --- | --- |
| `components.npz`, `study.json` | the released components, and the study as the curator shows it |
| `synthetic-coded.parquet`, `synthetic-decoded.parquet` | rows that the owners published |
| `*.intoto.json` | the envelopes of these files: digest, receipt, signature |
| `ca.pem` | the certificate by which they are verified |
| `OWNER/contribute.json` | what was charged to the owner's ledger |
| `OWNER/components.json`, `OWNER/synthesize.json` | what the owner's other commands reported |
| `OWNER/milliseconds.json` | how long the owner's commands took in the last `up` |{judged}
| `report.html`, `report.md`, `report.json`, plots | what `dppca-simulate report .` makes of it |

Each owner may release once: its policy allows exactly what this study costs. A second `up` finds
keys, charge and release in the volumes and charges nothing again.

Where `up` ends with an error, `docker compose ps --all` shows the service that exited with another
code than 0, and `docker compose logs SERVICE` says why. Correct that and run `up` again. A
container that fails is started again by itself, five times at most, but not after `docker kill`.

The engine reads `rows` and writes `results`, so it has to be one of this machine.
"""


@dataclass(frozen=True, slots=True)
class ComposedOwner:
    """One owner of a folder with a compose file."""

    name: Annotated[str, "name of the owner"]
    rows: Annotated[int, "rows that it holds"]


@dataclass(frozen=True, slots=True)
class ComposedFolder:
    """A folder in which ``docker compose up`` runs a study."""

    study: Annotated[str, "name of the study"]
    digest: Annotated[
        DigestText | None, "digest of the study; null where its owners have no keys yet"
    ]
    folder: Annotated[PathText, "the folder"]
    owners: Annotated[list[ComposedOwner], "one entry for each owner"]
    alarms: Annotated[list[str], "what each owner would be told of its file as a whole"]


def require_number(n_owners: int, most: int) -> None:
    """Raise `SettingError` for too few owners, or more than ``most``."""
    if not LEAST_OWNERS <= n_owners <= most:
        raise SettingError(f"containers serve {LEAST_OWNERS} to {most} owners, not {n_owners}")


def write_folder(
    folder: Path, topology: Topology, rows: Mapping[str, Path], *, held_out: Path | None
) -> None:
    """Write the compose file, study, rows and an empty folder for results.

    ``folder`` is missing or empty. The files in ``rows``, one for each owner, are moved here, and
    so is ``held_out``, rows that no owner has, on which models are tried; None tries none. The
    topology's names of these files are set here. Raise `SettingError` if the folder is not empty,
    or cannot be written, or as `require_names` does.
    """
    require_names(topology.study.owners)
    suffix = rows[topology.study.owners[0]].suffix
    judged = None if held_out is None else HELD_OUT + held_out.suffix
    topology = replace(topology, rows="rows" + suffix, held_out=judged)
    try:
        if folder.exists() and any(folder.iterdir()):
            raise SettingError(f"{folder} is not empty: name a folder that is new")
        (folder / RESULTS).mkdir(parents=True)
        (folder / "docker-compose.yml").write_text(compose_text(topology))
        (folder / "study.yaml").write_bytes(_study_file(topology))
        (folder / "study.yaml").chmod(0o644)
        (folder / ROWS).mkdir(mode=0o700)
        for owner, path in rows.items():
            (folder / ROWS / owner).mkdir()
            shutil.move(path, folder / ROWS / owner / str(topology.rows))
        if held_out is not None:
            shutil.move(held_out, folder / ROWS / str(topology.held_out))
    except OSError as error:
        if is_full_disk(error):
            raise
        raise SettingError(f"cannot write {folder}: {error.strerror}") from error


def _study_file(topology: Topology) -> bytes:
    if topology.aggregation is None:
        return topology.study.canonical_bytes() + b"\n"
    return write_draft(topology.study, topology.aggregation).encode()


def write_study(
    folder: Path,
    topology: Topology,
    *,
    data: Path | Mapping[str, Path],
    seed: int,
    split: str = "iid",
    text_format: TextFormat = USUAL,
    readings: Mapping[str, FileReading] = MappingProxyType({}),
) -> Holdings:
    """Write a folder that ``docker compose up`` runs; return the owners' holdings.

    If there is a target, a fifth of the rows is held out for the report (`answer`). ``data`` is CSV
    (gzip or not) or Parquet: all rows, which are divided, or a file for each owner. Raise
    `SettingError` or `DataError` like `write_folder` and `divide`, or if the target is no label.
    """
    study = topology.study
    if topology.target is not None:
        check_target(study.table, topology.target)
    holdings = hold_rows(
        data,
        study.owners,
        schema=study.table,
        seed=seed,
        split=split,
        hold_out=topology.target is not None,
        text_format=text_format,
        readings=readings,
        keys={"": topology.key} if topology.key else {},
    )
    with tempfile.TemporaryDirectory(prefix="dppca-compose-") as name:
        with telling_full_disk(Path(name), instead=ANOTHER_TMPDIR):
            rows = {
                owner: write_table(table, Path(name), stem=owner, like=holdings.like)
                for owner, table in holdings.owners.items()
            }
            held_out = (
                write_table(holdings.held_out, Path(name), stem=HELD_OUT, like=holdings.like)
                if holdings.held_out.num_rows
                else None
            )
        write_folder(folder, topology, rows, held_out=held_out)
    trial = {"target": topology.target, "seed": seed, "split": split}
    (folder / TRIAL).write_text(json.dumps(trial) + "\n")
    (folder / ".env").write_text(_ENVIRONMENT.format(image=topology.image))
    keys = "" if topology.aggregation is None else "; the owners' keys are added in the run"
    readme = _README.format(
        held_out="\n| `rows/held-out.*` | rows that no owner has, for the answer; **not** public |"
        if holdings.held_out.num_rows
        else "",
        keys=keys,
        judged="\n| `OWNER/predict.json` | how often the owner's own model is right on `held-out` |"
        if holdings.held_out.num_rows
        else "",
        study=study.name,
        n_owners=len(study.owners),
        image=topology.image,
    )
    (folder / "README.md").write_text(readme)
    return holdings
