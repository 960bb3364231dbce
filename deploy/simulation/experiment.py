"""One simulated study, from a data file to a report: divide, run, evaluate, write.

Real rows exist in three places only: the caller's file, the sites' folders in a temporary folder
that is removed, and this process, which evaluates. All files that stay in the output folder are
released, except the plots and figures that the report marks as known only to a simulation.
"""

import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.comparison import count_cells, summarise_pairs, variations
from dppca.common.analysis.estimates.components import find_mixtures
from dppca.common.analysis.estimates.face import estimates
from dppca.common.analysis.estimates.questions import answer_study
from dppca.common.analysis.loadings import Mixtures
from dppca.common.analysis.values import count_values
from dppca.common.kernel.attestation.envelopes import SUFFIX as ENVELOPE
from dppca.common.kernel.attestation.results import Published, Result, result_from_bytes
from dppca.common.kernel.documents.values import to_document
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.composition import ComposedGuarantee, Round, compose_guarantee
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema import Column, Numeric, Schema, encode, known_labels
from dppca.common.kernel.study import AGGREGATE_ONLY_FIELDS, Study, study_from_mapping
from dppca.common.pages.rendering import check_report
from dppca.common.shell.charts import Chart, loadings_chart, scree_chart, write_charts
from dppca.common.shell.outputs import claiming
from dppca.common.shell.pictures import biplot_figure
from dppca.common.shell.plotting import write_figures
from dppca.common.verification.components import kept_components
from dppca.deploy.simulation.aggregation import Aggregation, Refinement, describe_refinement
from dppca.deploy.simulation.answers import list_answers
from dppca.deploy.simulation.disk import ANOTHER_OUTPUT, ANOTHER_TMPDIR, telling_full_disk
from dppca.deploy.simulation.evaluate import (
    captured_variance,
    check_target,
    compare_tables,
    compute_pooled_covariance,
    evaluate,
    variance_by_chance,
)
from dppca.deploy.simulation.figures import marginal_chart, pair_figure
from dppca.deploy.simulation.holdings import FileReading, Holdings, find_key, hold_rows, write_table
from dppca.deploy.simulation.run_report import (
    SimulatedComponents,
    SimulatedPrivacy,
    SimulatedRows,
    SimulationReport,
    list_steps,
    make_markdown,
    make_page,
    summarise_repeats,
)
from dppca.deploy.simulation.runner import AUTHORITY, FederationRun, FederationTask, run_federation
from dppca.deploy.simulation.synthesis import divide_rows
from dppca.owner.records.text_format import USUAL, TextFormat

REPORT = "report.json"
PAGE = "report.html"
DICTIONARY = "columns.csv"
REPEATS = "repeats"
REPORTS = (
    *(REPORT, PAGE, "report.md", DICTIONARY, "scree.svg", "loadings.svg", "marginals.svg"),
    *(f"{name}.{suffix}" for name in ("pairs", "biplot") for suffix in ("png", "svg")),
)
"""Files of `write_report`."""
RELEASED = ("components.npz", "synthetic-coded.parquet", "synthetic-decoded.parquet")
FILES = (*REPORTS, *RELEASED, *(f"{name}{ENVELOPE}" for name in RELEASED), "study.json", AUTHORITY)
"""Files of a run."""
PARTIES = "parties"
"""Subfolder for the parties' folders with `keep`: not public."""


@dataclass(frozen=True, slots=True)
class ExperimentRequest:
    """Settings of a simulation.

    Attributes
    ----------
    command
        Name of the calling command, for the report.
    study
        Its owners have the simulation's names: see `with_owners`.
    data
        CSV (gzip or not) or Parquet, with the schema's columns: of all rows, or for each owner.
    target
        Attribute that classifiers predict; None trains none.
    seed
        Selects the held-out rows and divides a single file; further repeats use the next numbers.
    output, replace
        Folder for results, created if missing; True overwrites an earlier trial in it.
    repeats
        Number of runs, each with its own noise and held-out rows.
    keep
        True keeps the folders of sites and curator in the output folder, with rows and keys.
    aggregation
        Settings of ``trust: aggregate``; None if each owner adds all of the noise.
    refinement
        Settings of a second study that continues this one; None for one study.
    n_rows
        Synthetic rows of all owners together; None for as many as each owner contributed.
    test
        File of rows that no owner has, on which models are tried; None to hold a fifth out.
    text_format
        How the files of rows are written, if they are text and have no entry in ``readings``.
    readings
        How the file of an owner is read, or by an empty name the file of all rows.
    keys
        The column that tells people apart, by owner, or by an empty name of all other files.
    dictionary
        What columns may hold, to be left beside the results; empty to leave nothing.
    """

    command: str
    study: Study
    data: Path | Mapping[str, Path]
    target: str | None
    seed: int
    split: str
    output: Path
    aggregation: Aggregation | None = None
    refinement: Refinement | None = None
    repeats: int = 1
    keep: bool = False
    replace: bool = False
    n_rows: int | None = None
    test: Path | None = None
    text_format: TextFormat = USUAL
    readings: Mapping[str, FileReading] = field(default_factory=lambda: MappingProxyType({}))
    keys: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    dictionary: str = ""

    def key_of(self, owner: str) -> str:
        """Column of an owner's rows that tells people apart; empty for none."""
        return find_key(self.keys, owner)


def with_owners(study: Study, owners: int | Sequence[str]) -> Study:
    """Return the study with other owners, each of which adds all noise.

    Fields of ``trust: aggregate`` are left out: they contain the keys of other owners. ``owners``
    are names, or a number for ``owner-1``, ``owner-2`` and so on. Raise `SettingError` without
    owners, and `StudyError` for a quorum above their number.
    """
    names = [f"owner-{i + 1}" for i in range(owners)] if isinstance(owners, int) else [*owners]
    if not names:
        raise SettingError(f"a simulation needs at least one owner, not {owners}")
    document = study.model_dump(mode="json", by_alias=True, exclude_none=True)
    for name in AGGREGATE_ONLY_FIELDS:
        document.pop(name, None)
    privacy = {
        name: value
        for name, value in document["privacy"].items()
        if name not in ("trust", "colluders")
    }
    return study_from_mapping({**document, "privacy": privacy, "owners": names})


def simulate(request: ExperimentRequest, *, on_step: Callable[[], None]) -> SimulationReport:
    """Run a study, once or repeatedly; write and return its report.

    ``on_step`` is called after each command of a party, from one thread at a time.
    """
    _require_place(request)
    if request.test is not None and request.target is None:
        raise SettingError(
            "a test table is for models that are tried on it: name what they predict with --target"
        )
    with ExitStack() as held:
        for each in range(1, request.repeats + 1):
            held.enter_context(claiming(_folder(request, each), FILES))
        with telling_full_disk(request.output, instead=ANOTHER_OUTPUT):
            return _run_all(request, on_step=on_step)


def _folder(request: ExperimentRequest, number: int) -> Path:
    """Return the folder of one run's files."""
    return request.output if number == 1 else request.output / REPEATS / str(number)


def _run_all(request: ExperimentRequest, *, on_step: Callable[[], None]) -> SimulationReport:
    first = _run_once(request, on_step=on_step)
    reports = [
        first,
        *(
            _run_once(
                replace(
                    request,
                    seed=request.seed + number,
                    output=_folder(request, number + 1),
                ),
                on_step=on_step,
            )
            for number in range(1, request.repeats)
        ),
    ]
    if request.repeats > 1:
        first = replace(first, repeats=summarise_repeats(reports))
        _save_report(first, request.output)
    return first


def _run_once(request: ExperimentRequest, *, on_step: Callable[[], None]) -> SimulationReport:
    started = time.monotonic()
    study, schema, output = request.study, request.study.table, request.output
    if request.target is not None:
        check_target(schema, request.target)
    drawn = None if request.n_rows is None else divide_rows(request.n_rows, study.owners)
    check_report()
    holdings = hold_rows(
        request.data,
        study.owners,
        schema=schema,
        seed=request.seed,
        split=request.split,
        hold_out=request.target is not None,
        test=request.test,
        text_format=request.text_format,
        readings=request.readings,
        keys=request.keys,
    )
    if request.target is not None:
        _require_two_labels(schema, request.target, holdings, test=request.test)
    instead = ANOTHER_OUTPUT if request.keep else ANOTHER_TMPDIR
    with _folder_of_parties(request) as folder, telling_full_disk(folder, instead=instead):
        rows = {
            owner: write_table(table, folder, stem=owner, like=holdings.like)
            for owner, table in holdings.owners.items()
        }
        like = request.test or holdings.like
        held_out = write_table(holdings.held_out, folder, stem="held-out", like=like)
        task = FederationTask(
            study=study,
            aggregation=request.aggregation,
            refinement=request.refinement,
            rows=rows,
            keys={owner: key for owner in rows if (key := request.key_of(owner))},
            held_out=held_out,
            target=request.target,
            n_rows=drawn,
            folder=folder,
            output=output,
            on_step=_one_at_a_time(on_step),
        )
        run = run_federation(task)
    (output / "study.json").write_bytes(run.study.canonical_bytes() + b"\n")
    return write_report(request, run, holdings, started=started)


def write_report(
    request: ExperimentRequest, run: FederationRun, holdings: Holdings, *, started: float
) -> SimulationReport:
    """Compare a run's results with the rows and write the report; ``started`` is monotonic."""
    schema, output = request.study.table, request.output
    check_report()
    report = _evaluate(
        request,
        run,
        training=join_columns([read_columns(schema, table) for table in holdings.owners.values()]),
        held_out=read_columns(schema, holdings.held_out),
        alarms=holdings.alarms,
        started=started,
    )
    _save_report(report, output)
    if request.dictionary:
        (output / DICTIONARY).write_text(request.dictionary)
    return report


def _require_place(request: ExperimentRequest) -> None:
    """Raise `SettingError`, with advice, if an earlier trial would be overwritten."""
    parties = request.output / PARTIES
    if parties.exists():
        raise SettingError(
            f"{parties} holds keys, ledgers and rows of an earlier trial: move or remove it, or "
            "name another --output"
        )
    if (request.output / REPORT).exists() and not request.replace:
        raise SettingError(
            f"{request.output} holds a trial already: name another --output, or say --replace"
        )


@contextmanager
def _folder_of_parties(request: ExperimentRequest) -> Iterator[Path]:
    """Yield the parties' folder, which is removed afterwards unless it is to be kept."""
    if request.keep:
        folder = request.output / PARTIES
        folder.mkdir(mode=0o700)
        yield folder.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="dppca-simulate-") as name:
        yield Path(name)


def _save_report(report: SimulationReport, output: Path) -> None:
    document = json.dumps(to_document(report), indent=2, ensure_ascii=False)
    (output / REPORT).write_text(f"{document}\n")
    (output / "report.md").write_text(make_markdown(report))
    (output / PAGE).write_text(make_page(report))


def read_columns(schema: Schema, table: Any) -> list[Column]:
    """Parse a ``pyarrow.Table`` like a site, into the input of `encode`."""
    from dppca.common.kernel.schema.columns import parse_column

    return [parse_column(a, table[a.name].combine_chunks()) for a in schema.attributes]


def join_columns(parts: Sequence[Sequence[Column]]) -> list[Column]:
    """Join the columns of several tables, one below the other."""
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]


def _require_two_labels(
    schema: Schema, target: str, holdings: Holdings, *, test: Path | None
) -> None:
    """Refuse a division in which an owner could not train its model, or no model could be tested.

    Only a simulation, which has all rows, can check this: in the field, an owner's decision to
    contribute must not depend on its rows.
    """
    from dppca.common.kernel.schema.columns import parse_column

    attribute = schema.attributes[schema.find_index(target)]
    if isinstance(attribute, Numeric) or target not in holdings.held_out.column_names:
        return  # `check_target` and the parties report these

    def codes(table: Any) -> NDArray[np.int64]:
        labels = known_labels(attribute, parse_column(attribute, table[target].combine_chunks()))
        return labels[labels >= 0]

    for name, table in holdings.owners.items():
        if len(np.unique(codes(table))) < 2:
            raise SettingError(
                f"{name} would hold fewer than two labels of {target}, so it could not train the "
                "model that each owner makes at the end: name another --target or none, or divide "
                "the rows in another way"
            )
    if not codes(holdings.held_out).size:
        raise SettingError(
            f"no row that is held out has a label of {target}: take another seed or target"
            if test is None
            else f"no row of {test} has a label of {target}: take another test table or target"
        )


def _evaluate(
    request: ExperimentRequest,
    run: FederationRun,
    *,
    training: list[Column],
    held_out: list[Column],
    alarms: Sequence[str],
    started: float,
) -> SimulationReport:
    from dppca.owner.records.check import FaultCounts
    from dppca.owner.records.table import open_table
    from dppca.owner.synthesis.visible_relations import judge_result

    study, schema, output = run.study, request.study.table, request.output
    result = result_from_bytes(run.components.read_bytes(), study)
    decoded = join_columns([*open_table(run.decoded, schema).batches()])
    coded_training = encode(schema, training)
    covariance = compute_pooled_covariance(schema, coded_training)
    tally = FaultCounts(schema)
    tally.add(training)
    coded = _coded_synthetic(schema, run.coded)
    ours = count_cells(schema, training, coded_training)
    theirs = count_cells(schema, decoded, encode(schema, decoded))
    mixed = find_mixtures(Published(study, result))
    charts = _draw_charts(schema, result, covariance, mixed)
    charts["marginals"] = marginal_chart(
        schema, count_values(schema, training), count_values(schema, decoded)
    )
    figures = {"pairs": pair_figure(schema, real=ours, synthetic=theirs)}
    if len(result.vectors) > 1:
        rows = [("synthetic rows", coded)]
        figures["biplot"] = biplot_figure(schema, result.vectors, result.mean, rows, mixed)
    target, utility = request.target, None
    if target is not None:
        utility = evaluate(
            schema,
            target,
            training=training,
            held_out=held_out,
            coded=coded,
            decoded=decoded,
            released_mean=result.mean,
        )
    claimed, authority = calibrate(study), output / AUTHORITY
    answers: tuple[str, ...] = ()
    if authority.exists():  # of a run on this machine
        answers = list_answers(Published(study, result), run.components, authority, request.target)
    own = answer_study(estimates(Published(study, result)))
    return SimulationReport(
        command=request.command,
        study=study.name,
        stated=study.stated,
        digest=study.digest,
        target=target,
        seed=request.seed,
        split=request.split,
        test=None if request.test is None else str(request.test),
        rows=SimulatedRows(len(training[0]), len(held_out[0])),
        alarms=[*alarms],
        coded_by_rule=tally.report().under(study.faults),
        privacy=SimulatedPrivacy(
            mechanism=claimed.law.name,
            relation=claimed.sensitivity.relation.value,
            unit=schema.unit.value,
            max_rows_per_person=schema.max_rows_per_person,
            counts=study.unit.counts,
            n=result.header.n_rows,
            n_estimated=study.has_secret_rows,
            entries=schema.layout.n_entries,
            federation=_guarantee(run, claimed),
        ),
        owners=run.owners,
        components=_describe_components(study, result, covariance),
        relations=judge_result(result, study),
        synthesis=run.synthesis,
        refined=None if run.refined is None else describe_refinement(run.refined),
        utility=utility,
        pairs=summarise_pairs(variations(schema, ours, theirs)[1]),
        tables=compare_tables(schema, training=training, held_out=held_out, decoded=decoded),
        files={
            "report": str(output / "report.md"),
            "page": str(output / PAGE),
            **({"columns": str(output / DICTIONARY)} if request.dictionary else {}),
            "report_json": str(output / REPORT),
            "study": str(output / "study.json"),
            **({"ca": str(output / AUTHORITY)} if answers else {}),
            "components": str(run.components),
            "synthetic_coded": str(run.coded),
            "synthetic_decoded": str(run.decoded),
            **({"parties": str(output / PARTIES)} if request.keep else {}),
        },
        questions=tuple(each.document() for each in own),
        answers=answers,
        plots={**write_charts(output, charts), **write_figures(output, figures)},
        steps=list_steps(run.owners),
        seconds=round(time.monotonic() - started, 3),
    )


def _draw_charts(
    schema: Schema, result: Result, covariance: NDArray[np.float64], mixed: Mixtures
) -> dict[str, Chart]:
    """Draw eigenvalues and loadings; ``covariance`` is of the pooled rows, without noise."""
    edge, eigenvalues = result.header.noise_edge, result.eigenvalues
    noise_free = np.asarray(np.linalg.eigvalsh(covariance)[::-1], np.float64)
    return {
        "scree": scree_chart(eigenvalues, edge, count=result.header.count, noise_free=noise_free),
        "loadings": loadings_chart(schema, result.vectors, eigenvalues, edge, mixed),
    }


def _describe_components(
    study: Study, result: Result, covariance: NDArray[np.float64]
) -> SimulatedComponents:
    edge, eigenvalues = result.header.noise_edge, result.eigenvalues
    return SimulatedComponents(
        count=result.header.count,
        kept=kept_components(result, study),
        eigenvalues=eigenvalues.tolist(),
        noise_edge=edge,
        above_noise=int((eigenvalues > edge).sum()),
        negative=int((eigenvalues < 0).sum()),
        captured_variance=captured_variance(covariance, result.vectors),
        captured_by_chance=variance_by_chance(covariance, result.header.count),
    )


def _guarantee(run: FederationRun, claimed: Calibration) -> ComposedGuarantee:
    """Return what the releases of all studies of a run promise; ``claimed`` is of the first."""
    if run.refined is None:
        return compose_guarantee(run.study, claimed)
    return compose_guarantee(run.refined, calibrate(run.refined), first=Round(run.study, claimed))


def _coded_synthetic(schema: Schema, path: Path) -> NDArray[np.float64]:
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    return np.column_stack(
        [np.asarray(table[name].to_numpy(), np.float64) for name in schema.column_names]
    )


def _one_at_a_time(action: Callable[[], None]) -> Callable[[], None]:
    lock = threading.Lock()

    def locked() -> None:
        with lock:
            action()

    return locked
