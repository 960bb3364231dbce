"""Base of the private classifiers: checks before, predictions after.

``fit`` checks rows and target (`dppca.common.analysis.estimators.base.inputs`) and passes them to
``_fit``, which sets the fitted attributes and ``guarantee_``. Predictions are the sign of one
score, or the largest of several for more than two classes. Rows for prediction may exceed the
declared norm: privacy was settled when the model was fitted.

The site's own machine, which some methods train on rows without noise, is libsvm's support vector
machine (``rbf``) or liblinear's with the squared hinge loss (``linear``: a primal solver that
always converges; the papers do not name their machine). `make_svm` makes it for the estimators and
for ``dppca-owner train``.
"""

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from dppca.common.analysis.estimators.base.cautions import CountsCopies, warn_of_copies
from dppca.common.analysis.estimators.base.guarantee import Guarantee
from dppca.common.analysis.estimators.base.inputs import (
    check_new_rows,
    check_scores,
    check_training,
)
from dppca.common.analysis.estimators.base.masks import require_unmasked
from dppca.common.analysis.estimators.base.projection import project
from dppca.common.analysis.estimators.base.settings import check_positive
from dppca.common.kernel.errors import SettingError

Gamma = float | str
_MAX_ITERATIONS = 10_000  # of liblinear: ten times its default


class Classifier(CountsCopies, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier with a guarantee.

    ``classes_`` are sorted, shape (K,); ``guarantee_`` has the attributes that are private, epsilon
    and delta, and the rest.
    """

    classes_: NDArray[Any]
    guarantee_: Guarantee

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to rows (n_rows, d) and their classes (n_rows,).

        Raise `SettingError` if a setting is missing or out of range, and `DataError` if the
        guarantee does not cover these rows or classes; the message says what to change.
        """
        rows, codes = self._checked(X, y)
        warn_of_copies(self)
        self._fit(rows, codes)
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return scores: (n_rows,) for two classes, positive for the second; else (n_rows, K)."""
        scores = self._scores(check_new_rows(self, X))
        return scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 1 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return classes, shape (n_rows,)."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        predicted: NDArray[Any] = self.classes_[codes]
        return predicted

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of rows whose class is predicted, each with its weight (n_rows,)."""
        require_unmasked(y=y, sample_weight=sample_weight)
        return float(super().score(X, y, sample_weight))

    def _checked(self, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """Return rows and codes of their classes, after checking them and the settings."""
        self._check_settings()
        rows, codes, self.classes_ = check_training(
            self,
            X,
            y,
            row_norm=getattr(self, "row_norm", None),
            allow_constant=bool(getattr(self, "allow_constant", False)),
            classes=getattr(self, "classes", None),
        )
        return rows, codes

    def _check_settings(self) -> None:
        """Raise `SettingError` for settings that are wrong for any rows."""

    @abstractmethod
    def _fit(self, rows: NDArray[np.float64], codes: NDArray[np.intp]) -> None:
        """Set the fitted attributes from rows (n_rows, d) and codes of classes (n_rows,)."""

    @abstractmethod
    def _scores(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return scores of rows, shape (n_rows,), (n_rows, 1) or (n_rows, K)."""


class ProjectionMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):  # type: ignore[misc]
    """Projection of rows on components; comes before `Classifier` among the parents.

    Its scores have names (``get_feature_names_out``), so ``set_output`` makes frames of them.
    """

    components_: NDArray[np.float64]

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return scores ``X V_k``, shape (n_rows, k): private only if X is."""
        return project(check_new_rows(self, X), self.components_)

    def inverse_transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the rows ``Y V_k^T``, shape (n_rows, d), of scores Y (n_rows, k).

        Raise `DataError` if there are not as many scores as components or a value is not
        finite.
        """
        return check_scores(self, X) @ self.components_


def make_svm(
    kernel: object, *, C: object, gamma: Gamma, n_features: int, standardise: bool = False
) -> Any:
    """Make an untrained support vector machine; raise `SettingError` if a setting is out of range.

    ``gamma="auto"`` is one over ``n_features``. With ``standardise`` a first pipeline step shifts
    and scales every feature to mean 0 and deviation 1, by the training rows.
    """
    penalty = check_positive("C", C)
    if kernel == "linear":
        svm = LinearSVC(C=penalty, dual=False, max_iter=_MAX_ITERATIONS)
    elif kernel == "rbf":
        svm = SVC(
            C=penalty,
            kernel="rbf",
            gamma=resolve_gamma(gamma, n_features),
            decision_function_shape="ovr",
        )
    else:
        raise SettingError(f"kernel is {kernel!r}; it must be 'linear' or 'rbf'")
    return make_pipeline(StandardScaler(), svm) if standardise else svm


def has_converged(svm: Any) -> bool:
    """Return True if the solver of a trained `make_svm` stopped before its iteration limit."""
    last = svm[-1] if isinstance(svm, Pipeline) else svm
    return not isinstance(last, LinearSVC) or int(last.n_iter_) < _MAX_ITERATIONS


def resolve_gamma(gamma: Gamma, n_features: int) -> float:
    """Return gamma of ``exp(-gamma |x - z|^2)`` as a number independent of rows."""
    if isinstance(gamma, str):
        if gamma != "auto":
            raise SettingError(
                f"gamma is {gamma!r}; it must be a number above 0, or 'auto' for 1/n_features"
            )
        return 1.0 / n_features
    return check_positive("gamma", gamma)


def svm_scores(svm: Any, features: NDArray[np.float64], *, n_classes: int) -> NDArray[np.float64]:
    """Return scores of a trained machine, shape (n_rows,), or (n_rows, K) for K > 2 classes.

    A class without training rows has a score of minus infinity.
    """
    scores: NDArray[np.float64] = svm.decision_function(features)
    if n_classes == 2:
        return scores
    if scores.ndim == 1:
        scores = np.column_stack([-scores, scores])
    every = np.full((len(features), n_classes), -np.inf)
    every[:, svm.classes_] = scores
    return every
