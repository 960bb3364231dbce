"""Values under a mask are missing, and refused as NaN is, by whatever takes an array."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dppca.common.analysis.estimators.base.masks import is_masked
from dppca.common.analysis.rows.replicates import combine
from dppca.common.kernel.errors import DataError, SchemaMismatchError, SettingError
from dppca.common.kernel.schema.frames import decode
from dppca.common.papers import DPSUBN3, PPCADPMH, SVM, PrivBayes, UnitBall
from tests.support.estimators import ALL, each
from tests.support.studies import binary_of, make_schema, numeric_of

pytestmark = pytest.mark.filterwarnings("ignore::dppca.NoiseWarning")  # tables are small
X = np.random.default_rng(1).uniform(-0.45, 0.45, size=(60, 4))
Y = (X[:, 0] > 0).astype(np.int64)


class Lazy:
    """Becomes an array with a mask of its own accord, as an array of Dask."""

    def __init__(self, of: Any) -> None:
        self.of, self.shape = of, of.shape

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.of if dtype is None else self.of.astype(dtype)


class Sequential:
    """Has items by number and a length, which is all that NumPy asks of a sequence."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __len__(self) -> int:
        return len(self.of)

    def __getitem__(self, place: int) -> Any:
        return self.of[place]


class Masked(np.ndarray):
    """An array with a mask that is not of numpy.ma, as of astropy."""

    mask: NDArray[np.bool_]


def hidden(values: NDArray[Any]) -> Any:
    found = np.ma.array(values.copy(), mask=np.zeros(values.shape, bool))
    found.mask[(2, *(0,) * (values.ndim - 1))] = True  # noise decides how many columns scores have
    return found


def forms(values: NDArray[Any]) -> Iterator[Any]:
    """The same values with one of them masked, in every form that an array is taken in."""
    masked = hidden(values)
    yield masked
    yield list(masked)
    yield tuple(masked)
    yield deque(masked)
    yield Sequential(masked)
    yield Lazy(masked)
    of_objects = values.astype(object)
    of_objects[(2, *(1,) * (values.ndim - 1))] = np.ma.masked
    yield of_objects
    other = values.copy().view(Masked)
    other.mask = masked.mask
    yield other


def nulls(values: NDArray[Any]) -> Iterator[Any]:
    """The same values with one that is null, in frames."""
    columns = [list(column) for column in (values.T if values.ndim == 2 else values[None])]
    columns[-1][2] = None
    for dtype in ("Float64", "Int64", "float64[pyarrow]"):
        shown = [[x if x is None or "loat" in dtype else round(x) for x in c] for c in columns]
        frame = pd.DataFrame({str(i): pd.array(c, dtype) for i, c in enumerate(shown)})
        yield frame if values.ndim == 2 else frame["0"]
    frame = pd.DataFrame({str(i): c for i, c in enumerate(columns)}, dtype=object)
    frame.iloc[2, -1] = pd.NA
    yield frame if values.ndim == 2 else frame["0"]
    table = pa.table({str(i): c for i, c in enumerate(columns)})
    yield table if values.ndim == 2 else table["0"]


def test_a_mask_is_seen_wherever_it_is_and_none_that_hides_nothing() -> None:
    assert all(map(is_masked, [*forms(X), *forms(Y), np.ma.masked, [[1.0, np.ma.masked]]]))
    structured = np.ma.array([(1.0, 2)], dtype="f8,i8", mask=[(False, True)])
    assert is_masked(structured)
    assert is_masked(np.ma.array(1.0, mask=True))
    for plain in (X, X.tolist(), 1.0, np.float64(1), "text", None, ["a", "b"], np.ma.array(X)):
        assert not is_masked(plain)
    assert not is_masked(np.ma.array(X, mask=np.zeros(X.shape, bool)))
    frames = (
        pd.DataFrame(X),
        pd.Series(Y),
        pa.table({"a": [1, 2]}),
        pd.Series(["a"], dtype=object),
    )
    assert not any(map(is_masked, [*frames, Lazy(X), np.array([1, "a"], dtype=object)]))


@each(ALL)
def test_an_estimator_refuses_a_masked_value_in_rows_and_labels(make: Callable[..., Any]) -> None:
    for rows in forms(X):
        with pytest.raises(DataError, match="X is masked in places"):
            make().fit(rows, Y)
    for rows in nulls(X):
        with pytest.raises(DataError, match="NaN"):
            make().fit(rows, Y)
    if "classes" not in make().get_params():
        return
    for labels in forms(Y):
        with pytest.raises(DataError, match="y is masked in places"):
            make().fit(X, labels)
    for labels in nulls(Y):
        with pytest.raises(DataError, match=r"NaN|missing labels"):
            make().fit(X, labels)
    with pytest.raises(SettingError, match="classes is masked"):
        make(classes=np.ma.array([0, 1, 2], mask=[0, 0, 1])).fit(X, Y)


@pytest.mark.parametrize(
    "missing", [None, float("nan"), np.float64("nan"), pd.NA, pd.NaT], ids=repr
)
def test_a_label_that_is_none_is_refused(missing: Any) -> None:
    words = [missing, *("yes" if y else "no" for y in Y[1:])]
    kept = (words, deque(words), Sequential(words), np.array(words, dtype=object))
    for labels in (*kept, pd.Series(words), pd.Categorical(words)):
        with pytest.raises(DataError, match=r"NaN|missing labels"):
            SVM().fit(X, labels)
    with pytest.raises(DataError, match="missing labels"):
        SVM().fit(X, pd.Series(words, dtype="string"))


def test_what_was_fitted_refuses_a_masked_value_in_every_method() -> None:
    machine = ALL["DPPCASVM"]().fit(X, Y)
    density = PPCADPMH(epsilon=9, max_rows_per_person=1, bounds=(-1, 1)).fit(X)
    asked = [machine.predict, machine.decision_function, machine.transform]
    asked += [density.transform, density.score_samples, density.score]
    asked += [UnitBall().fit, UnitBall().fit_transform, UnitBall().fit(X).transform]
    asked += [lambda rows: machine.score(rows, Y), density.decode]
    for ask in asked:
        for rows in forms(X):
            with pytest.raises(DataError, match="masked in places"):
                ask(rows)
    for fitted in (machine, density):
        with pytest.raises(DataError, match="X is masked in places"):
            fitted.inverse_transform(hidden(fitted.transform(X)))
    assert 0 <= machine.score(X, Y, np.ma.array(np.ones(60))) <= 1
    with pytest.raises(DataError, match="y is masked in places"):
        machine.score(X, hidden(Y))
    with pytest.raises(DataError, match="sample_weight is masked in places"):
        machine.score(X, Y, sample_weight=hidden(np.ones(60)))


def test_parties_and_public_numbers_are_not_masked() -> None:
    density = PPCADPMH(epsilon=9, max_rows_per_person=1, bounds=(-1, 1))
    with pytest.raises(DataError, match="groups is masked"):
        density.fit(X, groups=hidden(Y))
    with pytest.raises(DataError, match="groups has missing labels"):
        density.fit(X, groups=[None, *Y[1:]])
    two = np.ma.array([-1.0, 1.0], mask=[True, False])
    with pytest.raises(SettingError, match="bounds is masked"):
        PPCADPMH(epsilon=9, max_rows_per_person=1, bounds=two).fit(X)
    for wrong in ({"scale": hidden(np.ones(4))}, {"centre": hidden(np.zeros(4))}):
        with pytest.raises(SettingError, match="is masked in places"):
            UnitBall(**wrong).fit(X)


@pytest.mark.parametrize("network", [PrivBayes, DPSUBN3])
def test_networks_refuse_a_masked_value(network: Any) -> None:
    schema = make_schema([numeric_of("a", 0, 1), binary_of("b", ["0", "1"])])
    rows = np.column_stack([X[:, 0] + 0.5, Y])
    fit = network(epsilon=9, max_rows_per_person=1, schema=schema).fit
    for masked in forms(rows):
        with pytest.raises(DataError, match="X is masked in places"):
            fit([masked])


def test_other_functions_of_arrays_refuse_a_masked_value() -> None:
    with pytest.raises(SettingError, match="estimates is masked"):
        combine(hidden(np.ones(5)), [0.01] * 5, published=(2.0, 0.01), rows=500, study_rows=500)
    schema = make_schema([numeric_of("a", 0, 1), binary_of("b", ["0", "1"])])
    coded = np.array([[0.1, 0.5], [0.2, 0.5], [0.3, -0.5]])
    for rows in list(forms(coded))[:5]:
        with pytest.raises(SchemaMismatchError, match="no masked values"):
            decode(rows, schema)
    for rows in nulls(coded):
        with pytest.raises(SchemaMismatchError, match="finite numbers only"):
            decode(rows, schema)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia", "dok", "lil"])
def test_a_sparse_matrix_is_not_looked_through(form: str) -> None:
    """It has no mask, and some forms cannot be walked; estimators refuse it afterwards."""
    assert not is_masked(csr_array(np.eye(3)).asformat(form))
