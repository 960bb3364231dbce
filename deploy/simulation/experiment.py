"""One simulated study, from a data file to a report: divide, run, evaluate, write.

Real rows exist in three places only: the caller's file, the sites' folders, which lie in a
temporary folder and are removed, and this process, which evaluates. What stays in the output
folder is released, except the plots and figures that the report marks as known to a simulation
only.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import DataError, SettingError
from common.plotting import check_plotting
from common.schema import Numeric, Schema, encode
from common.study import Study, study_from_mapping
from deploy.simulation.data import divide, read_table, write_table
from deploy.simulation.evaluate import (
    captured_variance,
    check_target,
    evaluate,
    pooled_covariance_of,
)
from deploy.simulation.plots import plot_marginals, plot_scree
from deploy.simulation.report import Findings, document_of, markdown_of
from deploy.simulation.runner import Federation, FederationRun, run_federation


@dataclass(frozen=True, slots=True)
class Request:
    """What to simulate.

    Attributes
    ----------
    command
        Name of the command that asks, for the report.
    study
        Owners as the simulation names them: see `with_owners`.
    data
        CSV (gzip or not) or Parquet, with the schema's columns.
    output
        Folder for results; made where it is missing.
    """

    command: str
    study: Study
    data: Path
    target: str
    seed: int
    split: str
    output: Path


def with_owners(study: Study, count: int) -> Study:
    """The same study with owners ``owner-1`` to ``owner-count``.

    Raises
    ------
    SettingError, StudyError
        No owners; a quorum above their number.
    """
    if count < 1:
        message = f"a simulation needs at least one owner, not {count}"
        raise SettingError(message)
    document = study.model_dump(mode="json", by_alias=True, exclude_none=True)
    return study_from_mapping({**document, "owners": [f"owner-{i + 1}" for i in range(count)]})


def simulate(
    request: Request,
    *,
    on_step: Callable[[], None],
    federation: Federation = run_federation,
) -> dict[str, Any]:
    """Run a study and write its report; the report's JSON document.

    Parameters
    ----------
    on_step
        Called after each command of a party, from one thread at a time.
    federation
        Where the parties are: processes of this machine, unless another way is given.
    """
    started = time.monotonic()
    study, schema, output = request.study, request.study.table, request.output
    check_target(schema, request.target)
    check_plotting()
    table = read_table(request.data)
    division = divide(table, owners=len(study.owners), seed=request.seed, split=request.split)
    _require_two_labels(
        schema, request.target, table, dict(zip(study.owners, division.owners, strict=True))
    )
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dppca-simulate-") as name:
        folder = Path(name)
        rows = {
            owner: write_table(table.take(part), folder, stem=owner, like=request.data)
            for owner, part in zip(study.owners, division.owners, strict=True)
        }
        held_out = write_table(
            table.take(division.held_out), folder, stem="held-out", like=request.data
        )
        run = federation(
            study,
            rows=rows,
            held_out=held_out,
            target=request.target,
            folder=folder,
            output=output,
            on_step=_one_at_a_time(on_step),
        )
    findings = _evaluate(
        request,
        run,
        training=coded_rows(schema, table.take(division.training)),
        held_out=coded_rows(schema, table.take(division.held_out)),
        started=started,
    )
    document = document_of(findings)
    (output / "study.json").write_bytes(study.canonical_bytes() + b"\n")
    (output / "report.json").write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    (output / "report.md").write_text(markdown_of(document))
    return document


def coded_rows(schema: Schema, table: Any) -> NDArray[np.int32]:
    """Rows of a ``pyarrow.Table`` as a site codes them, shape (n, p), units of ``2**-g``."""
    from owner.records.columns import column_of

    missing = [a.name for a in schema.attributes if a.name not in table.column_names]
    if missing:
        message = f"the data have no column {', '.join(missing)}"
        raise DataError(message)
    columns = [column_of(a, table[a.name].combine_chunks()) for a in schema.attributes]
    return encode(schema, columns)


def _require_two_labels(
    schema: Schema, target: str, table: Any, parts: Mapping[str, NDArray[np.int64]]
) -> None:
    """Refuse a division in which an owner could not train its model at the end.

    Only a simulation, which knows everybody's rows, can ask: in the field no owner may contribute
    or not because of what its rows hold.
    """
    from owner.records.columns import column_of

    attribute = schema.attributes[schema.index_of(target)]
    if isinstance(attribute, Numeric) or target not in table.column_names:
        return  # said elsewhere: by `check_target`, and by the parties, which name every column
    codes, n_labels = column_of(attribute, table[target].combine_chunks()), len(attribute.labels)
    for name, rows in parts.items():
        held = codes[rows]
        if len(np.unique(held[(held >= 0) & (held < n_labels)])) < 2:
            message = (
                f"{name} would hold fewer than two labels of {target}, so it could not train the "
                "model that each owner makes at the end: split by another column, or among fewer "
                "owners"
            )
            raise SettingError(message)


def _evaluate(
    request: Request,
    run: FederationRun,
    *,
    training: NDArray[np.int32],
    held_out: NDArray[np.int32],
    started: float,
) -> Findings:
    from common.results import result_from_bytes

    study, schema, output = request.study, request.study.table, request.output
    result = result_from_bytes(run.components.read_bytes(), study)
    decoded = coded_rows(schema, read_table(run.decoded))
    covariance = pooled_covariance_of(schema, training)
    scree, marginals = output / "scree.png", output / "marginals.png"
    plot_scree(
        scree,
        eigenvalues=result.eigenvalues,
        noise_free=np.asarray(np.linalg.eigvalsh(covariance)[::-1], np.float64),
        count=result.header.count,
        noise_edge=result.header.noise_edge,
    )
    plot_marginals(marginals, schema, real=training, synthetic=decoded)
    utility = evaluate(
        schema,
        request.target,
        training=training,
        held_out=held_out,
        coded=_coded_synthetic(schema, run.coded),
        decoded=decoded,
        released_mean=result.mean,
    )
    return Findings(
        command=request.command,
        study=study,
        target=request.target,
        seed=request.seed,
        split=request.split,
        owners=run.owners,
        n_held_out=len(held_out),
        count=result.header.count,
        eigenvalues=result.eigenvalues,
        noise_edge=result.header.noise_edge,
        captured_variance=captured_variance(covariance, result.vectors),
        utility=utility,
        files={
            "report": str(output / "report.md"),
            "report_json": str(output / "report.json"),
            "study": str(output / "study.json"),
            "components": str(run.components),
            "synthetic_coded": str(run.coded),
            "synthetic_decoded": str(run.decoded),
        },
        plots={"scree": str(scree), "marginals": str(marginals)},
        seconds=time.monotonic() - started,
    )


def _coded_synthetic(schema: Schema, path: Path) -> NDArray[np.float64]:
    table = read_table(path)
    return np.column_stack(
        [np.asarray(table[name].to_numpy(), np.float64) for name in schema.column_names]
    )


def _one_at_a_time(action: Callable[[], None]) -> Callable[[], None]:
    lock = threading.Lock()

    def locked() -> None:
        with lock:
            action()

    return locked
