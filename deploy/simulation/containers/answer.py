"""Report of a study that ``docker compose up`` has run in a folder.

It is the report of `dppca.deploy.simulation.experiment`. Seconds are of the last ``up``, which
reuses the results of an earlier one; those of ``components`` include the wait for other owners.
"""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dppca.common.kernel.errors import ArtefactError, NotReadyError
from dppca.common.kernel.study import study_from_mapping
from dppca.common.shell.outputs import claiming
from dppca.common.transport.testbed import CommandAnswer
from dppca.deploy.simulation.containers.folder import HELD_OUT, RESULTS, ROWS, TRIAL
from dppca.deploy.simulation.disk import telling_full_disk
from dppca.deploy.simulation.experiment import REPORTS, ExperimentRequest, write_report
from dppca.deploy.simulation.holdings import Holdings, read_cells
from dppca.deploy.simulation.run_report import SimulationReport
from dppca.deploy.simulation.runner import FederationRun, owner_run, read_synthesis


def report_folder(folder: Path, *, command: str = "report") -> SimulationReport:
    """Write the report of a folder from `folder.write_folder` into ``results``.

    Raise `NotReadyError` if the study has not run to its end, `ArtefactError` if the folder is of
    another kind, or its rows are missing.
    """
    started = time.monotonic()
    trial = _read(folder / TRIAL)
    run = read_run(folder, target=trial["target"])
    study, results = run.study, folder / RESULTS
    files = {owner: _find_rows(folder / ROWS / owner) for owner in study.owners}
    held_out = folder / ROWS / (HELD_OUT + files[study.owners[0]].suffix)
    read = {owner: read_cells(path, study.table) for owner, path in files.items()}
    holdings = Holdings(
        {owner: table for owner, (table, _) in read.items()},
        read_cells(held_out, study.table)[0]
        if held_out.exists()
        else read[study.owners[0]][0].slice(0, 0),
        held_out,
        [f"{owner}: {line}" for owner, (_, alarms) in read.items() for line in alarms],
    )
    request = ExperimentRequest(
        command=command,
        study=study,
        data=files,
        target=trial["target"],
        seed=trial["seed"],
        split=trial["split"],
        output=results,
    )
    with (
        claiming(results, REPORTS, option="FOLDER", ours=True),
        telling_full_disk(results, instead="move the folder to another disk"),
    ):
        return write_report(request, run, holdings, started=started)


def read_run(folder: Path, *, target: str | None) -> FederationRun:
    """Read the results of ``docker compose up`` in the folder.

    Raise `NotReadyError` if the study has not run to its end, `ArtefactError` if an owner's account
    is missing or damaged.
    """
    results = folder / RESULTS
    if not (results / "components.npz").is_file():
        raise NotReadyError(
            f"{results} holds no results yet: run `docker compose up` in {folder} to its end first"
        )
    study = study_from_mapping(_read(results / "study.json")["document"])
    answers = {name: _answers(results / name) for name in study.owners}
    return FederationRun(
        study,
        tuple(
            owner_run(name, given, _accuracy(results / name, target=target))
            for name, given in answers.items()
        ),
        read_synthesis(answers),
        results / "components.npz",
        coded=results / "synthetic-coded.parquet",
        decoded=results / "synthetic-decoded.parquet",
    )


def _find_rows(folder: Path) -> Path:
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    if len(files) != 1:
        raise ArtefactError(
            f"{folder} does not hold one file of rows: the report compares results with the rows "
            "that `dppca-simulate compose` put there"
        )
    return files[0]


def _answers(accounts: Path) -> dict[str, CommandAnswer]:
    """Read the reports and times of an owner's commands."""
    took = _read(accounts / "milliseconds.json")
    return {
        step: CommandAnswer({} if step == "train" else _read(accounts / f"{step}.json"), ms / 1000)
        for step, ms in took.items()
    }


def _accuracy(accounts: Path, *, target: str | None) -> float | None:
    """Read the accuracy of an owner's model, if there is one."""
    return None if target is None else _read(accounts / "predict.json")["accuracy"]


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
