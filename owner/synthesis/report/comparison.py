"""Comparison of synthetic rows with the site's own.

Every figure here is computed from raw rows, so all of it is `site-only`, even if the synthetic rows
are released.

Marginals, pairs
    Total variation between shares (`dppca.common.analysis.comparison`), of every attribute and
    pair, on all rows, beside the variation expected by chance alone.
pMSE
    A logistic regression is fitted to distinguish synthetic rows from real ones. pMSE is the mean
    square of its fitted probability minus the synthetic share c (Woo, Reiter, Oganian and Karr
    2009). For two samples of one distribution that is ``(k - 1) c (1 - c) / N`` on average, for N
    rows and k fitted coefficients, so the ratio of the two is near 1 for indistinguishable rows.
    (Snoke, Raab, Nowok, Dibben and Slavkovic 2018 have a further factor 1 - c: there the synthetic
    rows are drawn from a model fitted to these very real rows; here they are drawn from the joint
    model.) Features: coded columns, and their products two by two if these are at most 300.
Train on synthetic, test on real
    `dppca.common.analysis.estimators.utility`, tested on the site's rows whose target is known.
    Beside it: training on four fifths of those rows and testing on the fifth, in turn, and always
    answering the commonest class; and boosted trees, those of the real rows on one fifth.
Tables of three, workload
    `compare_rows` of the samples, beside the same of two halves of the real one.
Distances
    From a synthetic row to the nearest real one, in coded units, beside the distance from a real
    row to the nearest other real one. Synthetic rows much nearer to real rows than these are to
    each other would be copies. Their absence proves nothing about privacy: the guarantee comes
    from the noise.

Some figures use a sample: 20,000 rows of each table for pMSE and training, 2,000 for distances
(to all sampled real rows).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, TypeVar

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.comparison import (
    PairSummary,
    TableCounts,
    TableErrors,
    Variation,
    compare_rows,
    count_cells,
    merge_counts,
    summarise_pairs,
    variations,
)
from dppca.common.analysis.estimators.judgement import Judgement, mean_judgement, verdict
from dppca.common.analysis.estimators.utility import (
    extract_features,
    extract_labels,
    judge_svm,
    judge_trees,
    synthetic_labels,
)
from dppca.common.analysis.values import ValueCounts, count_values, known_cells
from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.errors import DataError
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.schema import Column, ColumnKind, Numeric, Schema, encode
from dppca.owner.records.check import FaultCounts
from dppca.owner.records.faults import CheckReport
from dppca.owner.records.table import Table

SAMPLE_ROWS = 20_000  # of each table, for products and classifiers
DISTANCE_ROWS = 2_000  # whose nearest neighbours are sought
QUANTILES = (0.01, 0.05, 0.25, 0.5)  # of the distances that are shown
_LEAST_ROWS = 10  # of a table, below which figures say nothing
_FOLDS = 5  # of the cross-validation
_MOST_PRODUCTS = 300  # pairs of columns; with more, classifiers see columns alone
_MOST_TARGETS = 10  # attributes that classifiers are trained for
_Part = TypeVar("_Part")


@dataclass(frozen=True, slots=True)
class CodedTable:
    """Counts of all rows of a table, and a sample of its rows.

    ``counts`` are of coded rows, ``values`` of the values in the file, before coding, one per
    attribute, and ``faults`` of coding faults. ``sample`` is int32, shape (at most `SAMPLE_ROWS`,
    p), in units of ``2**-g``, drawn without replacement; ``known``, shape (rows, A), is True for
    each of its values that no rule of coding put in.
    """

    counts: TableCounts
    values: tuple[ValueCounts, ...]
    faults: CheckReport
    sample: NDArray[np.int32]
    columns: tuple[Column, ...]
    known: NDArray[np.bool_]

    @property
    def n_rows(self) -> int:
        """Rows of the whole table."""
        return self.counts.n_rows


@dataclass(frozen=True, slots=True)
class Propensity:
    """Fit of a logistic regression that separates synthetic rows from real ones; see the module."""

    pmse: Annotated[float, "mean square of its probability minus the synthetic share"]
    expected: Annotated[float, "the same for rows of one distribution"]
    ratio: Annotated[float, "pmse over expected; 1 is best"]
    coefficients: Annotated[int, "coefficients that were fitted"]
    products: Annotated[bool, "whether products of columns are among the features"]


@dataclass(frozen=True, slots=True)
class JudgedTarget:
    """The linear machine and the trees on the site's rows; by training on real and synthetic rows.

    A machine on real rows is tried on others of them.
    """

    linear_real: Annotated[Judgement, "linear, trained on the site's rows"]
    linear_synthetic: Annotated[Judgement, "linear, trained on decoded synthetic rows"]
    trees_real: Annotated[Judgement, "trees, trained on the site's rows"]
    trees_synthetic: Annotated[Judgement, "trees, trained on decoded synthetic rows"]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Shares of the site's rows whose target is predicted correctly, in [0, 1]."""

    target: Annotated[str, "attribute that is predicted"]
    trained_on_real: Annotated[float, "trained on the site's rows, tested on others of them"]
    trained_on_synthetic: Annotated[float, "trained on decoded synthetic rows"]
    trained_on_coded: Annotated[float | None, "trained on coded synthetic rows; null without any"]
    trees_on_real: Annotated[float, "boosted trees, trained on the site's rows"]
    trees_on_synthetic: Annotated[float, "boosted trees, trained on decoded synthetic rows"]
    majority: Annotated[float, "always the commonest class"]
    judged: Annotated[JudgedTarget, "the same, where one class may be rare"]
    verdict: Annotated[str, "what the synthetic rows teach of the target, in words"]


@dataclass(frozen=True, slots=True)
class Distances:
    """Distances to the nearest record at the quantiles 0.01, 0.05, 0.25 and 0.5, coded units."""

    synthetic: Annotated[tuple[float, ...], "from synthetic rows to real ones"]
    real: Annotated[tuple[float, ...], "from real rows to other real ones"]
    copies: Annotated[float, "share of synthetic rows that equal a real one"]
    repeats: Annotated[float, "share of real rows that equal another"]


@dataclass(frozen=True, slots=True)
class Quality:
    """Comparison of synthetic rows with the site's own. Computed from raw rows: site-only."""

    n_real: Annotated[int, "rows of the data set"]
    n_synthetic: Annotated[int, "synthetic rows"]
    marginals: Annotated[tuple[Variation, ...], "one entry for each attribute"]
    pairs: Annotated[tuple[Variation, ...], "one entry for each pair of attributes"]
    pair_summary: Annotated[PairSummary, "the pairs in short"]
    tables: Annotated[TableErrors, "tables of up to three attributes, of samples of both"]
    tables_by_chance: Annotated[TableErrors, "the same of two halves of the site's sample"]
    propensity: Annotated[Propensity, "how well the two can be told apart"]
    accuracies: Annotated[tuple[Accuracy, ...], "one entry for each target"]
    distances: Annotated[Distances, "distances to the nearest record"]
    label: Annotated[Label, "where these figures may go: nowhere"] = Label.SITE_ONLY


def code_table(
    table: Table, rng: np.random.Generator, *, progress: Callable[[int], None] | None = None
) -> CodedTable:
    """Read a table once; raise `DataError` if it has fewer than ten rows."""
    if table.n_rows < _LEAST_ROWS:
        raise DataError(
            f"{table.title} has {many(table.n_rows, 'rows')}; a comparison needs {_LEAST_ROWS}"
        )
    size = min(SAMPLE_ROWS, table.n_rows)
    sampled = np.sort(rng.choice(table.n_rows, size, replace=False))
    counts, values, kept, own, known, seen = [], [], [], [], [], 0
    tally = FaultCounts(table.schema)
    for columns in table.batches():
        tally.add(columns)
        rows = encode(table.schema, columns)
        values.append(count_values(table.schema, columns))
        counts.append(count_cells(table.schema, columns, rows))
        if len(counts) > 1:
            counts = [merge_counts(counts)]
        here = sampled[(sampled >= seen) & (sampled < seen + len(rows))] - seen
        kept.append(rows[here])
        own.append([column[here] for column in columns])
        known.append(
            np.column_stack(
                [
                    known_cells(attribute, column[here])
                    for attribute, column in zip(table.schema.attributes, columns, strict=True)
                ]
            )
        )
        seen += len(rows)
        if progress is not None:
            progress(len(rows))
    return CodedTable(
        counts=counts[0],
        values=tuple(reduce(ValueCounts.merge, each) for each in zip(*values, strict=True)),
        faults=tally.report(table),
        sample=np.concatenate(kept),
        columns=tuple(np.concatenate(parts) for parts in zip(*own, strict=True)),
        known=np.concatenate(known),
    )


def list_targets(schema: Schema) -> tuple[str, ...]:
    """Attributes with classes: the study's targets, then the others in its order; at most ten."""
    names = [a.name for a in schema.attributes if not isinstance(a, Numeric)]
    names.sort(key=lambda name: name not in schema.targets)
    return tuple(names[:_MOST_TARGETS]) if len(schema.attributes) > 1 else ()


def compare(
    schema: Schema,
    real: CodedTable,
    synthetic: CodedTable,
    *,
    targets: Sequence[str],
    coded: NDArray[np.float64] | None,
    released_mean: NDArray[np.float64] | None,
    rng: np.random.Generator,
    progress: Callable[[int], None] = lambda _: None,
) -> Quality:
    """Compare synthetic rows with real ones.

    ``targets`` are binary or categorical attributes to predict, of real rows in which they are
    known: those with fewer than ten such rows in the sample are left out. ``coded`` are synthetic
    rows in coded coordinates, real units, shape (m, p), and ``released_mean`` the means of the
    components, (p,), for them; None without them. ``rng`` draws samples; it protects nothing.
    ``progress`` is called with 1 after each of `count_parts` parts.
    """

    def done(part: _Part) -> _Part:
        progress(1)
        return part

    marginals, pairs = done(variations(schema, real.counts, synthetic.counts))
    order = rng.permutation(len(real.sample))
    halves = [[column[half] for column in real.columns] for half in np.array_split(order, 2)]
    return Quality(
        n_real=real.n_rows,
        n_synthetic=synthetic.n_rows,
        marginals=marginals,
        pairs=pairs,
        pair_summary=summarise_pairs(pairs),
        tables=done(compare_rows(schema, real.columns, synthetic.columns)),
        tables_by_chance=done(compare_rows(schema, *halves)),
        propensity=done(propensity(schema, real.sample, synthetic.sample)),
        accuracies=tuple(
            done(_accuracy(schema, target, rows, synthetic.sample, coded, released_mean, rng))
            for target in targets
            if len(rows := real.sample[real.known[:, schema.find_index(target)]]) >= _LEAST_ROWS
        ),
        distances=done(_distances(schema, real.sample, synthetic.sample, rng)),
    )


def count_parts(targets: Sequence[str]) -> int:
    """Return the number of parts of a comparison, one for each target among them."""
    return 5 + len(targets)


def propensity(schema: Schema, real: NDArray[np.int32], synthetic: NDArray[np.int32]) -> Propensity:
    """pMSE of two samples of coded rows, shapes (n, p) and (m, p)."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    features, products = _propensity_features(schema, np.concatenate([real, synthetic]))
    is_synthetic = np.repeat([0, 1], [len(real), len(synthetic)])
    scaled = StandardScaler().fit_transform(features)
    # Almost without a penalty: cells that only one table has would otherwise never converge.
    model = LogisticRegression(C=1e4, max_iter=2000).fit(scaled, is_synthetic)
    share = float(is_synthetic.mean())
    pmse = float(np.mean((model.predict_proba(scaled)[:, 1] - share) ** 2))
    coefficients = int(np.linalg.matrix_rank(scaled)) + 1
    expected = (coefficients - 1) * share * (1 - share) / len(scaled)
    ratio = pmse / expected if expected > 0 else 0.0
    return Propensity(pmse, expected, ratio, coefficients, products)


def _propensity_features(
    schema: Schema, rows: NDArray[np.int32]
) -> tuple[NDArray[np.float64], bool]:
    layout = schema.layout
    # An indicator follows from the others of its categorical.
    first = {start for start, _ in layout.groups if layout.kinds[start] is ColumnKind.INDICATOR}
    columns = [i for i in range(layout.n_columns) if i not in first]
    main = rows[:, columns] / float(1 << layout.resolution_bits)
    group = [layout.attribute_of[i] for i in columns]
    numeric = [layout.kinds[i] is ColumnKind.NUMERIC for i in columns]
    pairs = [
        (i, j)
        for i in range(len(columns))
        for j in range(i, len(columns))
        if group[i] != group[j] or (i == j and numeric[i])
    ]
    if not 0 < len(pairs) <= _MOST_PRODUCTS:
        return main, False
    products = np.stack([main[:, i] * main[:, j] for i, j in pairs], axis=1)
    return np.hstack([main, products]), True


def _accuracy(
    schema: Schema,
    target: str,
    real: NDArray[np.int32],
    synthetic: NDArray[np.int32],
    coded: NDArray[np.float64] | None,
    released_mean: NDArray[np.float64] | None,
    rng: np.random.Generator,
) -> Accuracy:
    unit = float(1 << schema.resolution_bits)
    features, labels = (
        extract_features(schema, target, real) / unit,
        extract_labels(schema, target, real),
    )
    made = extract_features(schema, target, synthetic) / unit
    answers = extract_labels(schema, target, synthetic)
    fold = rng.permutation(len(real)) % _FOLDS
    folds = [
        (
            int(tried.sum()),
            judge_svm(features[~tried], labels[~tried], test=features[tried], truth=labels[tried]),
        )
        for tried in (fold == number for number in range(_FOLDS))
    ]
    from_coded = None
    if coded is not None:
        from_coded = judge_svm(
            extract_features(schema, target, coded),
            synthetic_labels(schema, target, coded, released_mean),
            test=features,
            truth=labels,
        ).accuracy
    judged = JudgedTarget(
        linear_real=mean_judgement(folds),
        linear_synthetic=judge_svm(made, answers, test=features, truth=labels),
        trees_real=judge_trees(
            features[fold > 0], labels[fold > 0], test=features[fold == 0], truth=labels[fold == 0]
        ),
        trees_synthetic=judge_trees(made, answers, test=features, truth=labels),
    )
    return Accuracy(
        target=target,
        trained_on_real=judged.linear_real.accuracy,
        trained_on_synthetic=judged.linear_synthetic.accuracy,
        trained_on_coded=from_coded,
        trees_on_real=judged.trees_real.accuracy,
        trees_on_synthetic=judged.trees_synthetic.accuracy,
        majority=float(np.bincount(labels).max() / len(labels)),
        judged=judged,
        verdict=verdict(
            target,
            (judged.linear_synthetic, judged.trees_synthetic),
            (judged.linear_real, judged.trees_real),
        ),
    )


def _distances(
    schema: Schema,
    real: NDArray[np.int32],
    synthetic: NDArray[np.int32],
    rng: np.random.Generator,
) -> Distances:
    from sklearn.neighbors import NearestNeighbors

    unit = float(1 << schema.resolution_bits)
    known = real / unit
    queries = rng.choice(len(synthetic), min(DISTANCE_ROWS, len(synthetic)), replace=False)
    own = rng.choice(len(real), min(DISTANCE_ROWS, len(real)), replace=False)
    index = NearestNeighbors().fit(known)
    nearest = index.kneighbors(synthetic[queries] / unit, n_neighbors=1)[0][:, 0]
    # The nearest neighbour of a real row is itself, or an equal row.
    others = index.kneighbors(known[own], n_neighbors=2)[0][:, 1]
    return Distances(
        synthetic=tuple(float(value) for value in np.quantile(nearest, QUANTILES)),
        real=tuple(float(value) for value in np.quantile(others, QUANTILES)),
        copies=float((nearest == 0).mean()),
        repeats=float((others == 0).mean()),
    )
