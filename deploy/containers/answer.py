"""The report of a study that ``docker compose up`` has run, from the folder it ran in.

It is the report of `dppca.deploy.simulation.experiment`, without what only the run itself knows:
seconds, and the owners' own classifiers, which stay in the sites' volumes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dppca.common.errors import ArtefactError, NotReadyError
from dppca.common.study_document import study_from_mapping
from dppca.common.testbed import Answer
from dppca.deploy.containers.folder import HELD_OUT, RESULTS, ROWS, TRIAL
from dppca.deploy.simulation.data import Holdings, read_table
from dppca.deploy.simulation.documents import SimulationDocument
from dppca.deploy.simulation.experiment import ExperimentRequest, write_findings
from dppca.deploy.simulation.runner import FederationRun, owner_run


def report_folder(folder: Path) -> SimulationDocument:
    """Write the report of a folder that `dppca.deploy.containers.folder` wrote, into ``results``.

    Raises
    ------
    NotReadyError
        The study has not been run to its end.
    ArtefactError
        The folder is of another kind.
    """
    started = time.monotonic()
    trial = _read(folder / TRIAL)
    results = folder / RESULTS
    if not (results / "components.npz").is_file():
        raise NotReadyError(
            f"{results} holds no results yet: run `docker compose up` in {folder} to its end first"
        )
    study = study_from_mapping(_read(results / "study.json")["document"], stored=True)
    files = {owner: next((folder / ROWS / owner).iterdir()) for owner in study.owners}
    held_out = folder / ROWS / (HELD_OUT + files[study.owners[0]].suffix)
    tables = {owner: read_table(path) for owner, path in files.items()}
    first = tables[study.owners[0]]
    held = Holdings(
        tables, read_table(held_out) if held_out.exists() else first.slice(0, 0), held_out
    )
    owners = tuple(
        replace(
            owner_run(
                name, {"contribute": Answer(_read(results / name / "contribute.json"), 0.0)}, None
            ),
            steps=(),
        )
        for name in study.owners
    )
    forms = (results / f"synthetic-{form}.parquet" for form in ("coded", "decoded"))
    coded, decoded = forms
    request = ExperimentRequest(
        command="report",
        study=study,
        data=files,
        target=trial["target"],
        seed=trial["seed"],
        split=trial["split"],
        output=results,
    )
    run = FederationRun(study, owners, results / "components.npz", coded=coded, decoded=decoded)
    return write_findings(request, run, held, started=started)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ArtefactError(
            f"{path} is missing or damaged: name a folder that `dppca-simulate compose` wrote"
        ) from error
    if not isinstance(document, dict):
        raise ArtefactError(f"{path} is of another kind")
    return document
