"""Cells of numerics: every value is in one, and which one depends on nothing but the value."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.kernel.errors import StudyError
from dppca.common.kernel.moments.accumulation import MomentSums, ProductMethod
from dppca.common.kernel.moments.moments import compute_moments
from dppca.common.kernel.schema import Cells, Numeric, Schema, Score, encode, find_cells
from dppca.common.kernel.schema.decoding import decode_columns
from dppca.common.kernel.study import study_from_mapping
from tests.support.studies import binary_of, make_schema, numeric_of, study_document


def _schema(**fields: object) -> Schema:
    numeric = {"name": "a", "type": "numeric", **fields}
    other = binary_of("b", ["n", "y"])
    return make_schema([numeric, other])


def _cells(**fields: object) -> Cells:
    cells = _schema(**fields).cells[0]
    assert cells is not None
    return cells


def test_without_a_word_there_are_forty_equal_cells_and_edges_may_be_given() -> None:
    cells = _cells(lower=-1, upper=3)
    assert np.allclose(np.diff(cells.edges), 0.1)
    assert cells.n_cells == 40
    cells = _cells(lower=0, upper=100, bins=[18, 40, 65])
    assert cells.index(np.array([0, 17.9, 18, 64, 65, 100])).tolist() == [0, 0, 1, 2, 3, 3]


def test_a_whole_number_with_few_values_has_a_cell_for_each_else_edges_between_them() -> None:
    cells = _cells(lower=17, upper=90, integer=True)
    assert cells.n_cells == 74
    assert cells.index(np.arange(17.0, 91.0)).tolist() == list(range(74))
    assert np.allclose(cells.scale.values(cells.coordinates), np.arange(17, 91))
    cells = _cells(lower=0, upper=1000, integer=True, bins=7, score="log")
    assert np.all(cells.edges[1:-1] % 1 == 0.5)
    assert _cells(lower=0, upper=5, integer=True, bins=200).n_cells == 6


def test_a_spike_is_a_cell_of_its_own_after_all_intervals() -> None:
    cells = _cells(lower=0, upper=10, bins=5, histogram=True, spikes=[0, 4, 10])
    values = np.array([0.0, -0.0, -3.0, 1e-300, 4, 4 + 1e-9, 9, 10, 11, np.nan])
    assert cells.index(values).tolist() == [5, 5, 5, 0, 6, 2, 4, 7, 7, 2]
    assert cells.names == ("bin 1", "bin 2", "bin 3", "bin 4", "bin 5", "0", "4", "10")


def test_an_interval_that_holds_only_spikes_gets_no_cell() -> None:
    whole = _cells(lower=0, upper=10, integer=True, histogram=True, spikes=[0, 4, 5, 10])
    found = [7, 0, 1, 2, 8, 9, 3, 4, 5, 6, 10]
    assert whole.index(np.arange(11.0)).tolist() == found
    numbers = [1, 2, 3, 6, 7, 8, 9, 0, 4, 5, 10]
    assert whole.values(np.arange(11, dtype=np.int32)).tolist() == numbers
    near = np.nextafter(1e9, 2e9)
    floats = _cells(lower=1e9, upper=1e9 + 2, bins=[near], histogram=True, spikes=[1e9, near])
    assert floats.n_intervals == 1
    assert floats.index(np.array([1e9, near, np.nextafter(near, 2e9), 1e9 + 2])).tolist() == [
        1,
        2,
        0,
        0,
    ]


def test_the_middle_of_an_interval_is_a_value_of_its_cell_even_if_a_spike_lies_there() -> None:
    for integer, beside in ((True, 51.0), (False, np.nextafter(50, 51))):
        fields = {"bins": [45.5, 54.5], "integer": integer, "histogram": True}
        cells = _cells(lower=0, upper=100, **fields, spikes=[50])
        assert cells.values(np.array([1, 3])).tolist() == [beside, 50]


def test_a_schema_is_another_one_with_other_spikes_and_says_them_as_they_are_read() -> None:
    schema = _schema(lower=0, upper=10, histogram=True, spikes=[-0.0, 4])
    assert schema.model_dump(mode="json")["attributes"][0]["spikes"] == [0.0, 4.0]
    assert Schema.from_document(schema.model_dump(mode="json")).digest == schema.digest
    assert _schema(lower=0, upper=10, histogram=True, spikes=[0]).digest != schema.digest


def test_with_bins_in_products_a_value_is_coded_by_its_cell_alone() -> None:
    schema = _schema(lower=0, upper=10, bins=[2.5, 7], spikes=[0], products="bins")
    values = np.array([0.0, -3.0, 1e-9, 2.5, 6.9, 7, 99, np.nan, np.inf])
    labels = np.zeros(len(values), np.int32)
    codes = encode(schema, [values, labels])[:, :4]
    assert codes.sum(axis=1).tolist() == [1024] * len(values)
    # What is missing is the middle, 5.
    assert codes.argmax(axis=1).tolist() == [3, 3, 0, 1, 1, 2, 2, 1, 1]
    for row, value in enumerate(values):
        alone = encode(schema, [np.array([value]), labels[:1]])
        assert alone[0, :4].tolist() == codes[row].tolist()


@pytest.mark.parametrize("score", list(Score))
@given(st.lists(st.floats() | st.floats(-5, 1005) | st.just(40.0), min_size=1, max_size=50))
def test_the_cell_of_a_value_does_not_depend_on_its_neighbours(
    score: Score, values: list[float]
) -> None:
    schema = _schema(lower=0, upper=1000, histogram=True, spikes=[0, 40], score=score)
    cells = schema.cells[0]
    assert cells is not None
    together = cells.index(np.array(values))
    assert together.tolist() == [int(cells.index(np.array([value]))[0]) for value in values]
    labels = np.zeros(len(values), np.int32)
    codes = encode(schema, [np.array(values), labels])[:, 0].tolist()
    alone = [encode(schema, [np.array([value]), labels[:1]])[0, 0] for value in values]
    assert codes == alone


WHOLE = (
    st.floats()
    | st.floats(-3, 14)
    | st.sampled_from([5.4e-79, -5.4e-79, 2.5, 0.5, -0.5, 10.5, 1e300])
)


@pytest.mark.parametrize(
    "fields",
    [
        {"histogram": True, "spikes": [1, 7]},
        {"histogram": True, "score": "log", "missing": "level"},
        {"bins": [3, 8], "products": "bins"},
        {"bins": [3.5], "histogram": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("ends", [(0, 11), (0.5, 10.5), (-0.01, 10.99)])
@given(values=st.lists(WHOLE, min_size=1, max_size=12))
def test_of_whole_numbers_a_value_counts_as_the_nearest_one_between_the_bounds(
    ends: tuple[float, float], fields: dict[str, object], values: list[float]
) -> None:
    schema = _schema(lower=ends[0], upper=ends[1], integer=True, **fields)
    least, most = math.ceil(ends[0]), math.floor(ends[1])
    counted = [
        min(max(math.floor(v + 0.5), least), most) if math.isfinite(v) else math.nan for v in values
    ]
    labels = np.zeros(len(values), np.int32)
    given_, whole = ([np.array(each, np.float64), labels] for each in (values, counted))
    codes = encode(schema, given_)
    assert codes.tolist() == encode(schema, whole).tolist()
    for found, expected in zip(find_cells(schema, given_), find_cells(schema, whole), strict=True):
        assert found.tolist() == expected.tolist()
    oracle = compute_moments(codes, schema.layout, find_cells(schema, given_))
    for method in ProductMethod:
        sums = MomentSums(schema, method=method)
        sums.add(given_)
        assert sums.total().packed.tolist() == oracle.packed.tolist()


def test_rows_in_a_matrix_are_rounded_in_a_copy() -> None:
    wide = [numeric_of(f"a{i}", 0, 9, integer=i % 2 == 1) for i in range(3)]
    schema = make_schema(wide)
    rows = np.random.default_rng(0).uniform(-1, 10, (700, 3))
    expected = encode(schema, list(rows.T))
    for matrix in (rows.copy(), np.asfortranarray(rows)):
        sums = MomentSums(schema)
        sums.add(matrix)
        assert np.array_equal(matrix, rows)
        oracle = compute_moments(expected, schema.layout).packed
        assert sums.total().packed.tolist() == oracle.tolist()


def test_a_threshold_between_whole_numbers_stays_between_them() -> None:
    whole = numeric_of("a", 0, 10, integer=True)
    tree = [{"by": "a", "at_most": 9.5}, {}, {}]
    schema = make_schema(
        [whole, binary_of("b", ["n", "y"])], tables=[{"tree": tree, "target": "b"}]
    )
    (cells,) = find_cells(schema, [np.array([9.0, 9.4, 9.6, 10.0]), np.zeros(4, np.int32)])
    assert cells[0] == cells[1] != cells[2] == cells[3]


@given(st.floats(-10, 1e6))
def test_a_logarithmic_code_is_the_rounded_logarithm(value: float) -> None:
    schema = _schema(lower=0, upper=2000, score="log")
    code = encode(schema, [np.array([value]), np.zeros(1, np.int32)])[0, 0]
    place = min(max(value / 2000, 0), 1)
    exact = (np.log1p(1000 * place) / np.log1p(1000) - 0.5) * 1024
    assert abs(code - exact) <= 0.5 + 1e-9
    assert -512 <= code <= 512


def test_a_missing_value_is_coded_as_the_middle_of_the_logarithmic_scale() -> None:
    schema = _schema(lower=0, upper=1000, score="log")
    numeric = schema.attributes[0]
    assert isinstance(numeric, Numeric)
    values = np.array([np.nan, np.inf, numeric.middle])
    assert encode(schema, [values, np.zeros(3, np.int32)])[:, 0].tolist() == [0, 0, 0]
    assert numeric.middle == pytest.approx(30.64, abs=0.01)


@given(st.floats(-0.5, 0.5))
def test_decoded_values_are_within_bounds_and_whole_where_they_must_be(coordinate: float) -> None:
    schema = _schema(lower=0.5, upper=999.5, integer=True, score="log")
    value = decode_columns(schema, [np.array([coordinate]), np.zeros(1, np.int32)])[0][0]
    assert value == np.rint(value)
    assert 1 <= value <= 999


@pytest.mark.parametrize(
    ("fields", "settings", "words"),
    [
        ({"bins": [5, 3]}, {}, "ascending"),
        ({"bins": [0, 3]}, {}, "strictly between"),
        ({"bins": []}, {}, "1 to 255 edges"),
        ({"bins": 1}, {}, "2 or more"),
        (
            {"bins": [0.2, 0.4], "integer": True},
            {},
            "a whole number must lie between any two edges",
        ),
        ({"bins": [1, 1 + 2**-50]}, {}, "1e-12 of the range"),
        ({"zero": "separate", "histogram": True}, {}, "zero"),
        ({"spikes": [0]}, {}, "histogram: true or products: bins"),
        ({"spikes": [0], "histogram": True, "lower": 1}, {}, "lie between lower and upper"),
        ({"spikes": [3, 11], "histogram": True}, {}, "lie between lower and upper"),
        ({"spikes": [3, 3], "histogram": True}, {}, "differ, and be in ascending order"),
        ({"spikes": [4, 3], "histogram": True}, {}, "differ, and be in ascending order"),
        ({"spikes": [3.5], "histogram": True, "integer": True}, {}, "must be whole numbers"),
        ({"spikes": [*range(11)], "histogram": True, "integer": True}, {}, "another value"),
        ({"spikes": [], "histogram": True}, {}, "must not be empty"),
        ({"spikes": [*range(17)], "histogram": True, "upper": 99}, {}, "16 entries or fewer"),
        ({"spikes": [3], "type": "date"}, {}, "spikes is for type: numeric"),
        ({"lower": 0.2, "upper": 1.9, "integer": True}, {}, "fewer than two whole numbers"),
        ({"score": "square"}, {}, "'linear' or 'log'"),
        ({}, {"targets": ["c"]}, "targets names no attribute: c"),
        ({}, {"targets": ["b", "b"]}, "targets must differ: b"),
        ({}, {"targets": ["b"], "sum_weight": 0.25}, "sum_weight of at least 0.5"),
        ({}, {"targets": ["b"], "target_weight": 1}, "2 or more"),
        ({}, {"histogram_weight": 1e-9}, "histogram_weight times 4"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    fields: dict[str, object], settings: dict[str, object], words: str
) -> None:
    attributes = [{**numeric_of("a", 0, 10), **fields}, binary_of("b", ["n", "y"])]
    with pytest.raises(StudyError, match=words):
        study_from_mapping(study_document(attributes, **settings))
