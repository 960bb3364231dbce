"""Utility of synthetic rows: train on them, test on real rows.

Two machines are tried: a linear SVM (standardised columns, squared hinge loss, C = 0.1, solved in
the primal), and boosted trees, which also see what depends on several attributes at once
(scikit-learn's HistGradientBoostingClassifier as it comes, `random_state` 0). The trees' features
are values and codes of labels, one column for each attribute; the SVM's are the coded columns of
all attributes except the target. Of large tables they are trained on a random sample of rows
(`svm_rows`, `tree_rows`), always the same, so that what is found depends on no clock. The target of
coded synthetic rows is a coordinate, or one for each category: `synthetic_labels` makes classes of
them from released values only.

The trained SVM predicts coded rows, which are integers, by integer arithmetic (`LinearRule`):
the label of a row is a function of that row alone, in a simulation and in a site's own report. An
accuracy on real rows must not leave the place where it was computed.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dppca.common.analysis.comparison import limit_rows
from dppca.common.analysis.estimators.judgement import Judgement, judge
from dppca.common.analysis.field.discretize import threshold_labels
from dppca.common.kernel.errors import RangeError
from dppca.common.kernel.moments.rowwise import GridWeights, weights_on
from dppca.common.kernel.schema import Categorical, Column, Schema
from dppca.common.kernel.schema.document import FINEST_BITS

TREE_ROWS = 50_000
"""Rows that trees are trained on at most."""
SVM_CELLS = 5_000_000
TREE_CELLS = 2_000_000
"""Numbers that a machine reads at most: rows times features, for each class of three or more."""
LEAST_ROWS = 2_000
"""Rows that are taken of a table of any width."""
SAMPLED_TREES = {"max_bins": 63, "early_stopping": True}
"""Settings of trees on a sample of rows: steps of a number, and an end once they get no better."""
_ITERATIONS = 20_000  # of liblinear: twenty times its default
_UNIT = 1 << FINEST_BITS


def svm_rows(n_features: int, n_classes: int) -> int:
    """Rows that the SVM is trained on at most."""
    return _rows(SVM_CELLS, n_features, n_classes)


def tree_rows(n_features: int, n_classes: int) -> int:
    """Rows that boosted trees are trained on at most."""
    return min(TREE_ROWS, _rows(TREE_CELLS, n_features, n_classes))


def _rows(cells: int, n_features: int, n_classes: int) -> int:
    machines = n_classes if n_classes > 2 else 1
    return max(LEAST_ROWS, cells // (max(1, n_features) * machines))


def extract_labels(schema: Schema, target: str, rows: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the classes of rows coded by `encode`, shape (n_rows,)."""
    index = schema.find_index(target)
    start, stop = schema.layout.groups[index]
    if isinstance(schema.attributes[index], Categorical):
        return np.asarray(rows[:, start:stop].argmax(axis=1), np.int64)
    return np.asarray(rows[:, start] > 0, np.int64)


def synthetic_labels(
    schema: Schema,
    target: str,
    coded: NDArray[np.float64],
    released_mean: NDArray[np.float64] | None,
) -> NDArray[np.int64]:
    """Return classes of synthetic rows in coded coordinates, shape (n_rows,).

    A binary is cut so that its released mean is kept, or in the middle of its two codes without a
    released mean; for a categorical the largest indicator decides.
    """
    index = schema.find_index(target)
    start, stop = schema.layout.groups[index]
    if isinstance(schema.attributes[index], Categorical):
        return np.asarray(coded[:, start:stop].argmax(axis=1), np.int64)
    if released_mean is None:
        return np.asarray(coded[:, start] > 0, np.int64)
    return threshold_labels(coded[:, start], float(released_mean[start])).astype(np.int64)


def extract_features(
    schema: Schema, target: str, coded: NDArray[np.float64] | NDArray[np.int32]
) -> NDArray[np.float64]:
    """Return coded columns of every attribute but the target, shape (n_rows, p - target width)."""
    start, stop = schema.layout.groups[schema.find_index(target)]
    return np.delete(np.asarray(coded, np.float64), np.s_[start:stop], axis=1)


@dataclass(frozen=True, slots=True)
class LinearRule:
    """A linear machine trained on public rows, as a function from coded rows to labels.

    A coded row in real units is ``z 2^-14`` for integers ``|z_j| <= 2^14``, because no schema has a
    finer grid. Its score is ``sum a_j z_j + c 2^14``, with a and c weights that were rounded once
    to a public grid: an exact integer (`dppca.common.kernel.moments.rowwise`). The label follows
    from the signs or the largest of such scores, and thus from the row alone: the other rows of a
    batch, their number, BLAS and its threads have no effect. Replacing one row of a table therefore
    changes the label of that row and no other. ``classes`` are sorted, shape (K,). ``weights`` has
    one machine for two classes (positive for the second), else K; the last column is c.
    """

    classes: NDArray[np.int64]
    weights: GridWeights

    def __call__(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return labels, shape (n_rows,), of coded rows; everything is as for `scores`."""
        return self.labels(self.scores(rows))

    def labels(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return labels, shape (n_rows,), that follow from scores."""
        second = scores[:, 0] > 0 if scores.shape[1] == 1 else scores.argmax(axis=1)
        labels: NDArray[np.int64] = self.classes[second.astype(np.intp)]
        return labels

    def scores(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return exact scores of coded rows, shape (n_rows, d), in real units.

        Their shape is (n_rows, 1), positive for the second class, or (n_rows, K). Raise
        `RangeError` if a row is off the grid or has an entry beyond 1.
        """
        scaled = np.column_stack([rows, np.ones(len(rows))]) * self.weights.largest
        # Compared as floats, so that NaN is noticed.
        if not (np.rint(scaled) == np.clip(scaled, -_UNIT, _UNIT)).all():
            raise RangeError(
                f"rows to be predicted are not coded: entries are multiples of 1/{_UNIT} in 1"
            )
        return self.weights.multiply(scaled.astype(np.int32))


def fit_svm(features: NDArray[np.float64], labels: NDArray[np.int64]) -> LinearRule:
    """Train the module's linear SVM on features in real units, shape (n, d).

    If the training rows have one class only, every prediction is that class.
    """
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    classes = np.unique(labels).astype(np.int64)
    if len(classes) == 1:
        none = np.zeros((1, features.shape[1] + 1))
        return LinearRule(np.repeat(classes, 2), weights_on(none, largest=_UNIT))
    scaler = StandardScaler().fit(features)
    svm = LinearSVC(C=0.1, dual=False, max_iter=_ITERATIONS)
    svm.fit(scaler.transform(features), labels)
    slopes = svm.coef_ / scaler.scale_
    constants = svm.intercept_ - slopes @ scaler.mean_
    return LinearRule(classes, weights_on(np.column_stack([slopes, constants]), largest=_UNIT))


def judge_svm(
    features: NDArray[np.float64],
    labels: NDArray[np.int64],
    *,
    test: NDArray[np.float64],
    truth: NDArray[np.int64],
) -> Judgement:
    """Return what `fit_svm` on at most `svm_rows` reaches on ``test``, coded rows in real units."""
    kept = limit_rows(len(labels), svm_rows(features.shape[1], len(np.unique(labels))))
    rule = fit_svm(features[kept], labels[kept])
    scores = rule.scores(test)
    classes = np.unique(rule.classes)
    shown = scores[:, 0] if scores.shape[1] == 1 and len(classes) == 2 else scores
    return judge(truth, rule.labels(scores), shown, classes)


def judge_trees(
    features: NDArray[np.float64],
    labels: NDArray[np.int64],
    *,
    test: NDArray[np.float64],
    truth: NDArray[np.int64],
) -> Judgement:
    """Return what boosted trees on at most `tree_rows` reach on ``test``, shape (m, d).

    A feature may be NaN. A class with one row teaches nothing: trees are stopped by rows of each
    class that are set aside, and that takes two.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    kept = limit_rows(len(labels), tree_rows(features.shape[1], len(np.unique(labels))))
    settings = {} if isinstance(kept, slice) else SAMPLED_TREES
    features, labels = features[kept], labels[kept]
    classes, sizes = np.unique(labels, return_counts=True)
    if (sizes > 1).sum() < 2:
        only = np.full(len(truth), classes[sizes.argmax()])
        return judge(truth, only, np.zeros((len(truth), len(classes))), classes)
    often = np.isin(labels, classes[sizes > 1])
    # More threads would wait for each other at every node of a tree on a busy machine.
    with warnings.catch_warnings(), threadpool_limits(1, user_api="openmp"):
        # joblib counts cores all the same, and says so where a system has no lscpu.
        warnings.filterwarnings("ignore", message="Could not find the number of physical cores")
        trees = HistGradientBoostingClassifier(random_state=0, **settings)
        scores = trees.fit(features[often], labels[often]).decision_function(test)
    places = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
    return judge(truth, trees.classes_[places], scores, trees.classes_)


def stack_features(columns: Sequence[Column], *, without: Sequence[int]) -> NDArray[np.float64]:
    """Return values and codes of labels, shape (n_rows, attributes), but of some attributes.

    A cell without a number, be it missing, infinite or text, is NaN: trees know no other gap.
    """
    kept = [column for index, column in enumerate(columns) if index not in without]
    stacked = np.column_stack(kept).astype(np.float64)
    return np.where(np.isfinite(stacked), stacked, np.nan)
