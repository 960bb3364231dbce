"""Values that are missing without being NaN: a mask hides them, and labels may be none.

NumPy's masked arrays keep a value under each mask, and `numpy.asarray` hands it on as if it were
true. Whatever takes arrays asks here first, so that a hidden value is refused as NaN is. Frames
(pandas, polars, Arrow) turn their own nulls into NaN when they become arrays.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from dppca.common.kernel.errors import DataError, SettingError


def is_masked(value: Any) -> bool:
    """Whether a mask hides any value, in the array or in one that a list or table holds."""
    mask = getattr(value, "mask", None)  # of numpy.ma, and of astropy; a frame has a method
    if isinstance(mask, np.ndarray | np.bool_ | bool):
        # A structured array has one bit of its mask for each field.
        if np.frombuffer(np.asarray(mask).tobytes(), np.bool_).any():
            return True
    elif hasattr(value, "__array__") and not isinstance(value, np.ndarray | np.generic):
        # What becomes an array of its own accord may become one with a mask, as of Dask.
        return _may_hide(value) and is_masked(np.asanyarray(value))
    if isinstance(value, np.ndarray):
        return value.dtype == object and any(map(is_masked, value.flat))
    return _becomes_array(value) and any(
        is_masked(each) for each in value if not isinstance(each, str | int | float)
    )


def require_unmasked(**values: ArrayLike | None) -> None:
    """Raise `DataError` if a mask hides a value of one of these arrays, by its name."""
    for name, value in values.items():
        if is_masked(value):
            raise DataError(
                f"{name} is masked in places: what lies under a mask is no value. Fill it in by a "
                "public rule, or leave these rows out"
            )


def require_plain(**settings: object) -> None:
    """Raise `SettingError` if a mask hides a value of one of these settings, by its name."""
    for name, value in settings.items():
        if is_masked(value):
            raise SettingError(f"{name} is masked in places: write the numbers that are meant")


def require_labels(name: str, labels: ArrayLike) -> None:
    """Raise `DataError` if a label of an array is none: None, NaN, or a null of pandas."""
    # In a list, NaN beside text would become the text "nan".
    found = np.asarray(labels, object if _becomes_array(labels) else None)
    if found.dtype == object and any(map(_is_none, found.flat)):
        raise DataError(f"{name} has missing labels (None, NaN or NA): leave these rows out")


def require_no_nulls(**values: Any) -> None:
    """Raise `DataError` if a cell of an array is a null, which pandas has beside NaN, by its name.

    For what could not become numbers: scikit-learn then raises a `TypeError` of NumPy's.
    """
    for name, value in values.items():
        if any(map(_is_none, np.asarray(value, object).flat)):
            raise DataError(f"{name} contains NaN, or another missing value (None, NA, NaT)")


def _is_none(label: object) -> bool:
    if label is None or type(label).__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return True
    return isinstance(label, float | np.floating) and label != label


def _becomes_array(value: Any) -> TypeGuard[Iterable[object]]:
    """Whether NumPy makes an array of its items: of any sequence, such as a deque.

    Not a sparse matrix, which has no mask: NumPy takes it whole, and estimators refuse it in words.
    """
    if isinstance(value, str | bytes | Mapping) or hasattr(value, "__array__") or issparse(value):
        return False
    return hasattr(value, "__len__") and hasattr(value, "__getitem__")


def _may_hide(value: object) -> bool:
    return type(value).__module__.partition(".")[0] not in ("pandas", "polars", "pyarrow")
