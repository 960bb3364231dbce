"""DPPCA-SVM: a support vector machine on a site's own rows in the joint components.

Following Huang et al. 2021, algorithm 1: rows are projected on the first k private principal
components, ``Y = X V_k``, and a support vector machine is trained on Y. V_k is private; Y is raw
rows in a private basis, so the classifier is *not* private (`privacy.md` section 3.3), although the
paper says that it is: the model is `site-only`. To share a classifier, publish synthetic rows and
train on those.

The target's columns must not be among the features. Dropping its rows and columns from the released
covariance gives the features' covariance, whose components cost nothing further. Their number k
follows the study's rule. For ``above_noise`` the edge of the whole matrix is used, which is at
least the edge of the features' block (a block's largest eigenvalue does not exceed the whole
matrix's), so at most as many components are kept as the block's own edge would allow. Rows are
centred by the released mean.

Reference: Y. Huang et al., DPPCA-SVM, 2021, algorithm 1.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from dppca.common.analysis.estimators.base.classifier import has_converged
from dppca.common.analysis.spectrum.pca import count_components, decompose
from dppca.common.kernel.attestation.results import Result
from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.errors import DataError, SchemaMismatchError, SettingError
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.schema import known_labels
from dppca.common.kernel.study import Study
from dppca.owner.models.catalogue import DPPCA_SVM, RBF
from dppca.owner.models.estimators import KINDS
from dppca.owner.models.features import FeatureReader, FeatureSpace, find_target, list_features
from dppca.owner.models.model import Fit, Model
from dppca.owner.records.check import FaultCounts
from dppca.owner.records.faults import CheckReport
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.mapping_files import digest_mapping
from dppca.owner.records.mapping_places import MappingPlace
from dppca.owner.records.table import Table, open_table, usual_batch
from dppca.owner.records.text_format import USUAL, TextFormat
from dppca.owner.synthesis.tables import open_writer


class TrainingRows(NamedTuple):
    """Rows of a site, as a model sees them. Private.

    ``features`` has shape (n, f), ``codes`` (n,), as `known_labels` gives them; ``rows_of_person``
    is k of each row's person, shape (n,), None where people are not counted.
    """

    features: NDArray[np.float64]
    codes: NDArray[np.int64]
    rows_of_person: NDArray[np.int64] | None


MAX_RBF_ROWS = 20_000
"""The time of an RBF machine grows with the square of its rows: more rows need a limit."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Rows that a model has classified."""

    target: Annotated[str, "attribute that was predicted"]
    rows: Annotated[int, "rows that were classified"]
    output: Annotated[Path, "file that holds them"]
    accuracy: Annotated[float | None, "share of right predictions, where the target is known"]
    majority: Annotated[float | None, "share of the commonest label there"]
    coded_by_rule: Annotated[CheckReport, "values that coding replaced (site-only)"]
    seconds: Annotated[float, "time that it took"]
    label: Annotated[Label, "where the file may go"] = Label.SITE_ONLY
    other_mapping: Annotated[
        bool, "whether the model was trained on columns that another mapping had read"
    ] = False


def feature_space(result: Result, study: Study, target: str) -> FeatureSpace:
    """Return the components of all columns but the target's, from released data alone.

    Raise `SettingError` if the target is no attribute, a numeric, or the only attribute.
    """
    schema = study.table
    find_target(schema, target)
    columns = list_features(schema, target)
    if len(columns) == 0:
        raise SettingError(f"{target} is the only attribute: no other can predict it")
    parts = decompose(result.covariance(study)[np.ix_(columns, columns)])
    k = count_components(
        parts.eigenvalues, study.require_components(), noise_edge=result.header.noise_edge
    )
    mean = np.zeros(len(columns)) if result.mean is None else result.mean[columns]
    return FeatureSpace(columns, mean, parts.vectors[:k])


def train(
    result: Result,
    study: Study,
    table: Table,
    *,
    target: str,
    kernel: str,
    C: float,
    max_rows: int | None,
    rng: np.random.Generator,
    tally: FaultCounts | None = None,
    progress: Callable[[int], None] | None = None,
) -> Model:
    """Train a classifier of ``target`` on the rows of ``table``.

    Raise `SettingError` if an argument is out of range; the message names the choices. Raise
    `DataError` if all rows that have a label have the same one, or there are fewer rows than
    components. ``result`` are released components of ``study``; ``kernel`` is ``linear`` or
    ``rbf``; ``C`` is the weight of the hinge loss, above 0. ``max_rows`` trains on this many rows,
    drawn at random by ``rng``, or on all; it is needed for ``rbf`` above `MAX_RBF_ROWS` rows.
    ``tally`` and ``progress`` are as in `read_rows`.
    """
    space = feature_space(result, study, target)
    k = len(space.components)
    estimator = KINDS[DPPCA_SVM].make(
        {"kernel": kernel, "C": C, "standardise": True, "allow_constant": True}
    )
    if table.schema.digest != study.table.digest:
        raise SchemaMismatchError("the table was opened with another schema than the study's")
    require_rows(table.n_rows, k)
    chosen = choose_rows(table.n_rows, kernel, max_rows, rng)
    scores, codes, _ = read_rows(
        table,
        target,
        partial(space.project, study.table),
        chosen=chosen,
        tally=tally,
        progress=progress,
    )
    known = codes >= 0
    require_two_labels(target, codes)
    scores, codes = scores[known], codes[known]
    with warnings.catch_warnings():
        # `converged` reports this instead; a warning on the terminal is easily overlooked.
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(scores, codes)
    return Model(
        study_digest=study.digest,
        schema=study.table,
        target=target,
        method=DPPCA_SVM,
        kernel=kernel,
        estimator=estimator,
        label=Label.SITE_ONLY,
        space=space,
        fit=Fit(
            n_rows=len(codes),
            n_unlabelled=int(np.count_nonzero(~known)),
            training_accuracy=float(np.mean(estimator.predict(scores) == codes)),
            converged=has_converged(estimator.machine_),
            majority=float(np.bincount(codes).max() / len(codes)),
        ),
        mapping_sha256=digest_mapping(table.mapped, without=target),
    )


def predict_file(
    model: Model,
    data: Path,
    output: Path,
    *,
    text_format: TextFormat = USUAL,
    mapping: MappingPlace | None = None,
    progress: Callable[[int], None] | None = None,
) -> Prediction:
    """Classify the rows of a file; the file need not have the target.

    Predictions of a model of any label are computed from rows of the site: they are site-only.
    ``text_format`` says how text is written, ``mapping`` which columns its attributes are;
    ``output`` is ``.csv``, ``.parquet`` or ``.arrow``,
    with columns ``row`` (from 1) and ``predicted`` (a label). Raise `DataError` or `SettingError`
    if the data cannot be read, or the output not be written.
    """
    if output.exists() and data.exists() and output.samefile(data):
        raise SettingError(f"the output {output} is the data file: name another")
    started = time.perf_counter()
    schema, attribute = model.schema, model.target_attribute
    place = local_files(data, text_format).mapped(mapping)
    table = open_table(place, schema, optional=(model.target,))
    index = schema.find_index(model.target)
    labels = pa.array(attribute.labels, pa.string())
    fields = pa.schema([("row", pa.int64()), ("predicted", pa.string())])
    metadata = {
        "label": Label.SITE_ONLY.value,
        "target": model.target,
        "study_digest": model.study_digest,
    }
    n_rows = n_right = 0
    known, tally = np.zeros(len(attribute.labels), np.int64), FaultCounts(schema)
    with open_writer(output, fields, metadata) as writer:
        for columns in table.batches():
            tally.add(columns)
            codes = model.classify(columns)
            rows = np.arange(n_rows + 1, n_rows + 1 + len(codes))
            predicted = labels.take(pa.array(codes))
            writer.write(pa.record_batch([pa.array(rows), predicted], schema=writer.schema))
            truth = known_labels(attribute, columns[index])
            known += np.bincount(truth[truth >= 0], minlength=len(known))
            n_right += int((truth == codes).sum())
            n_rows += len(codes)
            if progress is not None:
                progress(len(codes))
    n_known, accuracy, majority = int(known.sum()), None, None
    if n_known:
        accuracy, majority = n_right / n_known, int(known.max()) / n_known
    seconds = round(time.perf_counter() - started, 6)
    report = tally.report(table)
    mapping_sha256 = digest_mapping(table.mapped, without=model.target)
    return Prediction(
        model.target,
        n_rows,
        output,
        accuracy,
        majority,
        report,
        seconds,
        other_mapping=model.mapping_sha256 not in ("", mapping_sha256),
    )


def require_rows(n_rows: int, n_components: int) -> None:
    """Refuse fewer rows than components; both numbers are public."""
    if n_rows < n_components:
        raise DataError(
            f"{many(n_rows, 'rows')} and {many(n_components, 'components')}: give at least as many "
            "rows, or ask for fewer components"
        )


def require_two_labels(target: str, codes: NDArray[np.int64]) -> None:
    """Refuse rows with fewer than two known labels; only for models that stay, as it reads rows."""
    if len(np.unique(codes[codes >= 0])) < 2:
        raise DataError(
            f"fewer than two labels of {target} occur in the rows, and nothing can be learned; add "
            "rows with another label, or choose another target"
        )


def choose_rows(
    n_rows: int, kernel: str, max_rows: int | None, rng: np.random.Generator
) -> NDArray[np.int64] | None:
    """Return indices of the rows to train on, ascending; None for all."""
    if max_rows is not None and max_rows < 2:
        raise SettingError(f"max_rows is {max_rows}; it must be at least 2")
    if max_rows is None and kernel == RBF and n_rows > MAX_RBF_ROWS:
        raise SettingError(
            f"there are {n_rows} rows, and the time of an rbf machine grows with their square "
            f"(minutes at {MAX_RBF_ROWS}): set a number of rows to draw at random "
            f"(--max-rows {MAX_RBF_ROWS}), or use the linear kernel"
        )
    if max_rows is None or max_rows >= n_rows:
        return None
    drawn: NDArray[np.int64] = np.sort(rng.choice(n_rows, size=max_rows, replace=False))
    return drawn


def read_rows(
    table: Table,
    target: str,
    features: FeatureReader,
    *,
    chosen: NDArray[np.int64] | None = None,
    tally: FaultCounts | None = None,
    progress: Callable[[int], None] | None = None,
) -> TrainingRows:
    """Read rows for training: all of them, or those with indices ``chosen`` (ascending).

    Where the people of the table are counted (`Table.latest`), the rows are those that were
    counted, or `DataError` is raised; then all are read.
    ``features`` makes a batch's features, shape (n_batch, f), of its columns, each row's of that
    row alone; ``tally`` counts the values that coding replaces and the table's keys, in all rows
    read; ``progress`` is called with the number of rows read, batch by batch.
    """
    index = table.schema.find_index(target)
    attribute = find_target(table.schema, target)
    scores, codes, ks = [], [], []
    people = table.people
    if people is not None:
        people.read_anew()
    before = 0
    for cells in table.cells(usual_batch(table.schema)):
        columns, n_batch = cells.columns(), cells.n_rows
        if people is not None:
            ks.append(people.find(cells.keys))
        if tally is not None:
            keys = cells.keys if people is None else None
            tally.add(columns, cells.plain, keys, outcomes=cells.outcomes)
        if chosen is not None:
            first, last = np.searchsorted(chosen, [before, before + n_batch])
            picked = chosen[first:last] - before
            columns = [column[picked] for column in columns]
        scores.append(features(columns))
        codes.append(known_labels(attribute, columns[index]))
        before += n_batch
        if progress is not None:
            progress(n_batch)
    if people is not None:
        people.require_all()
    return TrainingRows(
        np.concatenate(scores), np.concatenate(codes), np.concatenate(ks) if ks else None
    )
