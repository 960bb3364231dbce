"""Checks of the estimators' rows and targets; nothing is repaired.

An estimator refuses input that its guarantee or its mathematics does not cover, and says what to
change. It clips nothing, fills nothing in, and never runs without noise instead. It refuses:

- values that are missing or infinite, or hidden by a mask;
- rows longer than the declared ``row_norm``, by more than rounding (1e-9 of it). The bound is
  public, and must not be chosen from the rows; `UnitBall` scales rows into it by public numbers;
- fewer rows than columns, which determine no covariance;
- constant columns, unless ``allow_constant`` accepts them (one-hot tables have some);
- targets with a single class, unless the classes were declared.

A refusal depends on rows. It reveals something about them to its observers, and so does a fit that
succeeds; the guarantee covers the fitted values, not the fact of fitting. The federation's coding
is total for that reason (``dppca.common.kernel.schema.coding``); the estimators are for the user's
own tables.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dppca.common.analysis.estimators.base.masks import (
    require_labels,
    require_no_nulls,
    require_plain,
    require_unmasked,
)
from dppca.common.analysis.estimators.base.named_frames import read_named
from dppca.common.analysis.estimators.base.settings import check_positive
from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.schema import Schema

NORM_TOLERANCE = 1e-9  # relative: rounding may take a row of norm R beyond R
_NAMED_COLUMNS = 5  # in a message


def check_new_rows(
    estimator: Any, X: ArrayLike, *, schema: Schema | None = None
) -> NDArray[np.float64]:
    """Return rows to transform or predict, shape (n_rows, d), with the fitted columns.

    With a schema, frames with its columns are read by
    `dppca.common.analysis.estimators.base.named_frames`. Raise `DataError` if values are missing or
    infinite or the columns differ from the fitted ones, and scikit-learn's `NotFittedError` before
    a fit.
    """
    check_is_fitted(estimator)
    rows = read_named(estimator, X, schema, reset=False)
    return _validated(estimator, X, reset=False) if rows is None else rows


def check_scores(estimator: Any, X: ArrayLike) -> NDArray[np.float64]:
    """Return scores to convert to rows, shape (n_rows, k), for k kept components.

    Raise `DataError` if values are missing or infinite or the number of columns is not k, and
    scikit-learn's `NotFittedError` before a fit.
    """
    check_is_fitted(estimator)
    require_unmasked(X=X)
    try:
        scores: NDArray[np.float64] = check_array(X, dtype=np.float64)
    except ValueError as error:
        raise DataError(str(error)) from error
    if scores.shape[1] != (k := len(estimator.components_)):
        raise DataError(f"X has {scores.shape[1]} columns; there are {k} components")
    return scores


def check_fit_table(
    estimator: Any,
    X: ArrayLike,
    *,
    row_norm: object,
    allow_constant: bool,
    few_rows: bool = False,
    schema: Schema | None = None,
) -> NDArray[np.float64]:
    """Return rows to fit, shape (n_rows, d), float64; may be the caller's own memory.

    ``row_norm`` is the declared bound on the L2 norm of a row, None for a method without one;
    ``few_rows`` accepts fewer rows than columns; ``schema`` is as in `check_new_rows`. Raise
    `DataError` for the reasons in the module's docstring, and `SettingError` if ``row_norm`` is not
    a number above 0.
    """
    rows = read_named(estimator, X, schema, reset=True)
    if rows is None:
        rows = _validated(estimator, X, reset=True)
    if not few_rows:
        _require_enough(rows)
    _require_table(rows, row_norm=row_norm, allow_constant=allow_constant)
    return rows


def check_training(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    row_norm: object,
    allow_constant: bool,
    classes: Sequence[Any] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.intp], NDArray[Any]]:
    """Return rows (n_rows, d), codes of their classes (n_rows,), and sorted classes (K,), K >= 2.

    ``classes`` is the public list of classes; None treats those in the data as public.
    """
    require_plain(classes=classes)
    require_unmasked(y=y)
    if y is not None:  # else scikit-learn says that it is needed
        require_labels("y", y)
    rows, target = _validated(estimator, X, y=y, reset=True)
    try:
        check_classification_targets(target)
    except ValueError as error:
        raise DataError(str(error)) from error
    _require_enough(rows)
    _require_table(rows, row_norm=row_norm, allow_constant=allow_constant)
    sorted_classes, codes = np.unique(target, return_inverse=True)
    if classes is None:
        if len(sorted_classes) < 2:
            raise DataError(
                "the target has 1 class only: a classifier needs two or more; add rows of another "
                "class"
            )
        return rows, codes, sorted_classes
    declared = np.unique(np.asarray(classes))
    if len(declared) < 2:
        raise SettingError(f"classes names {len(declared)} class; a classifier needs two or more")
    if not np.isin(sorted_classes, declared).all():
        raise DataError(
            "the target holds a class that `classes` does not name: name every class there"
        )
    return rows, np.searchsorted(declared, target), declared


def make_signs(codes: NDArray[np.intp], n_classes: int) -> NDArray[np.float64]:
    """Return a column of -1 and +1 per machine: one for two classes, else one per class."""
    if n_classes == 2:
        return np.where(codes == 1, 1.0, -1.0)[:, None]
    return np.where(codes[:, None] == np.arange(n_classes), 1.0, -1.0)


def _validated(estimator: Any, X: Any, *, reset: bool, y: Any = "no_validation") -> Any:
    require_unmasked(X=X)
    try:
        return validate_data(estimator, X, y, reset=reset, dtype=np.float64)
    except ValueError as error:
        if "could not convert" in str(error):  # the rest of the message quotes a value
            raise DataError(
                "X must hold numbers: code text by public rules first; a method with a schema "
                "takes labels too, in a frame that has its columns"
            ) from None
        raise DataError(str(error)) from error
    except TypeError as error:
        require_no_nulls(X=X, y=y)  # what is no number at all stays scikit-learn's error
        raise error from None


def _require_enough(rows: NDArray[np.float64]) -> None:
    n_rows, d = rows.shape
    if n_rows < d:
        raise DataError(few_rows_message(n_rows, d))


def few_rows_message(n_rows: int, d: int) -> str:
    """Message for fewer rows than columns."""
    return (
        f"n_samples={n_rows} is below n_features={d}: the method needs at least as many rows "
        "as columns; give more rows or drop columns"
    )


def _require_table(rows: NDArray[np.float64], *, row_norm: object, allow_constant: bool) -> None:
    if row_norm is not None:
        bound = check_positive("row_norm", row_norm)
        largest = np.abs(rows).max(initial=0.0)
        inside = largest <= bound * (1 + NORM_TOLERANCE) and bool(
            np.all(np.linalg.norm(rows, axis=1) <= bound * (1 + NORM_TOLERANCE))
        )
        if not inside:
            raise DataError(
                f"a row is longer than row_norm={row_norm}, on which the noise depends: declare a "
                "public bound that all rows keep, or bring rows into it with UnitBall; neither "
                "may be chosen by looking at the rows"
            )
    if not allow_constant:
        constant = np.flatnonzero(np.ptp(rows, axis=0) == 0)
        if len(constant):
            names = ", ".join(str(column) for column in constant[:_NAMED_COLUMNS])
            more = ", ..." if len(constant) > _NAMED_COLUMNS else ""
            raise DataError(
                f"column {names}{more} of X is constant (n_samples={len(rows)}): drop it, or say "
                "allow_constant=True if it is meant, as in a table of indicators"
            )
