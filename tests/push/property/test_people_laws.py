"""People with any number of rows: exact sums, and the sensitivity to one person."""

from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dppca.common.kernel.moments.people import WHOLE, PeopleMoments, PeopleSums
from dppca.common.kernel.privacy.added_rows import AddedShape, added_sensitivity
from dppca.common.kernel.privacy.people import of_people, of_weighed_rows
from dppca.common.kernel.privacy.release import schema_sensitivity, sensitivity_shape
from dppca.common.kernel.privacy.sensitivity import Relation, sensitivity
from dppca.common.kernel.schema import MISSING, Schema
from tests.support.examples import examples
from tests.support.missing_numbers import draw_row, draw_schema, one_row
from tests.support.studies import binary_of, make_schema, numeric_of

People = list[NDArray[np.float64]]
"""Rows of each person, shape (k, n_attributes)."""


def schema_of_people(rng: np.random.Generator, resolution_bits: int, **more: object) -> Schema:
    """A random small schema on any grid."""
    schema = None
    while schema is None:
        schema = draw_schema(rng)
    document = schema.model_dump(mode="json")
    document |= {"resolution_bits": resolution_bits, "unit": "person"} | more
    document["sum_weight"] = max(1, round(2 * document["sum_weight"])) / 2
    del document["max_rows_per_person"]
    return Schema.from_document(document)


def draw_person(schema: Schema, rng: np.random.Generator, most: int) -> NDArray[np.float64]:
    k = int(rng.integers(1, most + 1))
    if rng.random() < 0.5:  # an average of equal rows is at an end of the hull
        return np.array([draw_row(schema, rng)] * k)
    return np.array([draw_row(schema, rng) for _ in range(k)])


def sums_of(schema: Schema, people: People, cuts: int = 1, seed: int = 0) -> PeopleMoments:
    """Moments of people whose rows come in any order, in so many parts of batches."""
    rng, rows = np.random.default_rng(seed), np.vstack(people)
    ks = np.repeat([len(each) for each in people], [len(each) for each in people])
    order = rng.permutation(len(rows))
    parts = [PeopleSums(schema) for _ in range(cuts)]
    for number, batch in enumerate(np.array_split(order, 2 * cuts)):
        if len(batch):
            columns = [
                rows[batch, place]
                if each.type == "numeric"
                else rows[batch, place].astype(np.int32)
                for place, each in enumerate(schema.attributes)
            ]
            parts[number % cuts].add(columns, ks[batch].astype(np.int64))
    for each in parts[1:]:
        parts[0].merge(each)
    counts: dict[int, int] = {}
    for person in people:
        counts[len(person)] = counts.get(len(person), 0) + 1
    return parts[0].total(counts)


def undivided(schema: Schema, people: People) -> list[int]:
    """The sum of equation (1) over all people, with Python's integers, row by row."""
    blank = [np.nan if each.type == "numeric" else MISSING for each in schema.attributes]
    default = [int(each) for each in one_row(schema, blank)]
    total, c = [0] * len(default), schema.rows_counted
    for person in people:
        whole = WHOLE * min(c, len(person))
        factor = whole // len(person)
        for row in person:
            added = one_row(schema, list(row)).tolist()
            total = [t + factor * a for t, a in zip(total, added, strict=True)]
        rest = whole - factor * len(person)
        total = [t + rest * d for t, d in zip(total, default, strict=True)]
    return total


@settings(max_examples=examples(40), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    bits=st.sampled_from([1, 2, 10]),
    counted=st.sampled_from([1, 3, 8]),
    neighbours=st.sampled_from(["added", "replaced"]),
)
def test_counts_of_a_study_that_continues_another_move_no_more_than_the_claim(
    seed: int, bits: int, counted: int, neighbours: str
) -> None:
    """Tables alone, with no number of people beside: some pair moves all but the addends."""
    rng = np.random.default_rng(seed)
    flags = [binary_of(name, ["n", "y"]) for name in "abc"]
    tables = {"only_tables": True, "tables": [{"table": ["a", "b"]}, {"table": ["b", "c"]}]}
    people = {"unit": "person", "rows_counted": counted, "neighbours": neighbours}
    schema = make_schema(flags, resolution_bits=bits, **tables, **people)
    claim = schema_sensitivity(schema)
    others = [draw_person(schema, rng, 8) for _ in range(3)]
    ends = [np.array([[label] * 3] * counted, float) for label in (0, 1)]
    pairs = [(draw_person(schema, rng, 30), draw_person(schema, rng, 30)) for _ in range(3)]
    largest = 0
    for one, other in [*pairs, (ends[0], ends[1])]:
        without = [*others] if neighbours == "added" else [*others, other]
        before, after = (sums_of(schema, each) for each in ([*others, one], without))
        change = np.abs(before.packed - after.packed).astype(object)
        largest = max(largest, int(change.sum()))
        assert change.sum() <= claim.l1
        assert (change**2).sum() <= claim.l2_squared
    assert largest >= claim.l1 - 2 * schema.layout.n_entries


@settings(max_examples=examples(40), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    cuts=st.integers(1, 4),
    bits=st.sampled_from([1, 4, 10, 14]),
    counted=st.sampled_from([1, 3, 8]),
)
def test_sums_are_the_obvious_ones_in_any_order_and_any_parts(
    seed: int, cuts: int, bits: int, counted: int
) -> None:
    rng = np.random.default_rng(seed)
    schema = schema_of_people(rng, bits, rows_counted=counted, neighbours="added")
    people = [draw_person(schema, rng, 20) for _ in range(rng.integers(1, 6))]
    found = sums_of(schema, people, cuts, seed)
    assert found.packed.tolist() == [each // WHOLE for each in undivided(schema, people)]
    assert found.n_rows == sum(min(len(person), counted) for person in people)


@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 2**32), bits=st.sampled_from([1, 2, 10]))
def test_no_replaced_person_moves_the_sums_more_than_the_claim(seed: int, bits: int) -> None:
    rng = np.random.default_rng(seed)
    schema = schema_of_people(rng, bits)
    claim = schema_sensitivity(schema)
    others = [draw_person(schema, rng, 8) for _ in range(rng.integers(0, 4))]
    for _ in range(4):
        one, other = draw_person(schema, rng, 30), draw_person(schema, rng, 30)
        before, after = (sums_of(schema, [*others, each]) for each in (one, other))
        change = np.abs(before.packed - after.packed).astype(object)
        assert change.sum() <= claim.l1
        assert (change**2).sum() <= claim.l2_squared
        assert before.n_rows == after.n_rows


@settings(max_examples=examples(40), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    bits=st.sampled_from([1, 2, 10]),
    counted=st.sampled_from([1, 3, 12]),
)
def test_no_added_person_moves_the_sums_more_than_the_claim(
    seed: int, bits: int, counted: int
) -> None:
    rng = np.random.default_rng(seed)
    schema = schema_of_people(rng, bits, neighbours="added", rows_counted=counted)
    claim = schema_sensitivity(schema)
    assert claim.relation is Relation.ADD_OR_REMOVE_PERSON
    others = [draw_person(schema, rng, 8) for _ in range(rng.integers(1, 4))]
    for _ in range(4):
        more = sums_of(schema, [*others, draw_person(schema, rng, 30)])
        change = np.abs(more.packed - sums_of(schema, others).packed).astype(object)
        assert change.sum() <= claim.l1
        assert (change**2).sum() <= claim.l2_squared


@settings(max_examples=examples(40), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    bits=st.sampled_from([1, 2, 10]),
    counted=st.sampled_from([1, 3, 12]),
)
def test_a_replaced_person_with_a_cap_moves_no_more_than_is_priced(
    seed: int, bits: int, counted: int
) -> None:
    rng = np.random.default_rng(seed)
    schema = schema_of_people(rng, bits, neighbours="added", rows_counted=counted)
    layout = schema.layout
    row = sensitivity(sensitivity_shape(schema), resolution_bits=bits)
    shape = AddedShape(sensitivity_shape(schema), layout.count_weight)
    added = added_sensitivity(shape, resolution_bits=bits)
    weighed = of_weighed_rows(row, added, rows_counted=counted)
    claim = of_people(weighed, n_entries=layout.n_entries)
    others = [draw_person(schema, rng, 8) for _ in range(rng.integers(0, 3))]
    for most in (1, 30, 30):
        one, other = draw_person(schema, rng, most), draw_person(schema, rng, 30)
        before, after = (sums_of(schema, [*others, each]) for each in (one, other))
        change = np.abs(before.packed - after.packed).astype(object)
        assert change.sum() <= claim.l1
        assert (change**2).sum() <= claim.l2_squared


@settings(max_examples=examples(40), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    bits=st.sampled_from([1, 2, 10]),
    counted=st.sampled_from([3, 12]),
    weight=st.sampled_from([0.5, 1, 4]),
)
def test_no_replaced_person_moves_sums_and_total_weight_more_than_the_claim(
    seed: int, bits: int, counted: int, weight: float
) -> None:
    rng = np.random.default_rng(seed)
    schema = schema_of_people(rng, bits, rows_counted=counted, count_weight=weight)
    claim = schema_sensitivity(schema)
    assert claim.relation is Relation.REPLACE_PERSON
    others = [draw_person(schema, rng, 8) for _ in range(rng.integers(0, 3))]
    for most in (1, 30, 30):
        one, other = draw_person(schema, rng, most), draw_person(schema, rng, 30)
        before, after = (sums_of(schema, [*others, each]) for each in (one, other))
        change = np.abs(before.packed - after.packed).astype(object)
        assert change.sum() <= claim.l1
        assert (change**2).sum() <= claim.l2_squared
        assert change[-1] == schema.layout.count_unit * abs(before.n_rows - after.n_rows)


@pytest.mark.parametrize("weight", [1.0, 64.0])
def test_a_replaced_person_with_a_cap_comes_near_the_claim_and_a_count_alone_would_miss_it(
    weight: float,
) -> None:
    flags = [binary_of(f"b{i}", ["x", "y"]) for i in range(6)]
    capped = {"resolution_bits": 10, "unit": "person", "rows_counted": 3, "count_weight": weight}
    schema = make_schema(flags, **capped)
    claim, ends = schema_sensitivity(schema), [[0] * 6, [1] * 3 + [0] * 3, [1] * 4 + [0] * 2]
    sums = [
        sums_of(schema, [np.array([end] * k, float)]).packed.astype(object)
        for end in ends
        for k in (1, 3)
    ]
    most = max(int(np.abs(a - b).sum()) for a in sums for b in sums)
    row = sensitivity(sensitivity_shape(schema), resolution_bits=10)
    assert 0.99 * claim.l1 <= most <= claim.l1
    if weight == 64:
        assert most > 3 * row.l1 + schema.layout.n_entries


@pytest.mark.parametrize(("k", "other"), [(1, 1), (3, 17), (32, 1)])
def test_on_a_fine_grid_some_people_come_within_a_hundredth_of_the_claim(
    k: int, other: int
) -> None:
    schema = make_schema(
        [binary_of(f"b{i}", ["x", "y"]) for i in range(6)], resolution_bits=10, unit="person"
    )
    row = sensitivity(sensitivity_shape(schema), resolution_bits=10)
    near, far = np.zeros((k, 6)), np.array([[1, 1, 1, 0, 0, 0]] * other, float)
    options = [far, np.array([[1] * 6] * other, float)]
    options += [np.array([[1] * n + [0] * (6 - n)] * other, float) for n in (4, 5)]
    changes = [
        np.abs(sums_of(schema, [near]).packed - sums_of(schema, [each]).packed) for each in options
    ]
    assert max(int(each.sum()) for each in changes) >= Fraction(99, 100) * row.l1
    assert max(int((each**2).sum()) for each in changes) >= Fraction(98, 100) * row.l2_squared


@pytest.mark.parametrize("counted", [1, 3, 8])
def test_on_a_fine_grid_an_added_person_comes_as_close_at_any_cap(counted: int) -> None:
    schema = make_schema(
        [binary_of(f"b{i}", ["x", "y"]) for i in range(6)],
        resolution_bits=10,
        unit="person",
        neighbours="added",
        rows_counted=counted,
    )
    claim, others = schema_sensitivity(schema), [np.zeros((2, 6))]
    added = np.ones((counted + 4, 6))
    change = sums_of(schema, [*others, added]).packed - sums_of(schema, others).packed
    assert 0.99 * claim.l1 <= np.abs(change).sum() <= claim.l1
    assert 0.98 * claim.l2_squared <= (change.astype(object) ** 2).sum() <= claim.l2_squared


def test_the_division_may_move_every_entry_by_one_so_the_claim_has_an_addend_for_each() -> None:
    schema = make_schema(
        [binary_of(f"b{i}", ["x", "y"]) for i in range(16)], resolution_bits=1, unit="person"
    )
    same, n = np.ones((1, 16)), schema.layout.n_entries
    other = np.vstack([np.ones((84, 16)), 1 - np.eye(16)])  # each product and sum a little lower
    change = sums_of(schema, [same]).packed - sums_of(schema, [other]).packed
    one, all_others = undivided(schema, [same]), undivided(schema, [other])
    real = Fraction(sum(abs(a - b) for a, b in zip(one, all_others, strict=True)), WHOLE)
    assert change.tolist() == [1] * n
    assert real < 6
    row = sensitivity(sensitivity_shape(schema), resolution_bits=1)
    assert schema_sensitivity(schema).l1 == row.l1 + n


def test_the_addend_of_l2_is_added_to_the_norm() -> None:
    schema = make_schema(
        [binary_of(f"b{i}", ["x", "y"]) for i in range(5)], resolution_bits=1, unit="person"
    )
    row = sensitivity(sensitivity_shape(schema), resolution_bits=1)
    found, n = schema_sensitivity(schema), schema.layout.n_entries
    assert found.l1 == row.l1 + n
    exact = row.l2_squared + n + 2 * (row.l2_squared * n) ** 0.5
    assert exact <= found.l2_squared < exact + 1 + 1e-9
    assert isqrt(found.l2_squared) <= isqrt(row.l2_squared) + isqrt(n) + 2


@pytest.mark.parametrize("held", [1, 2 * 9])
def test_sums_of_more_factors_than_are_held_are_the_same_integers(
    held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = make_schema([numeric_of(name, 0, 1) for name in "abc"], unit="person")
    assert schema.layout.n_entries == 9
    rng = np.random.default_rng(3)
    people = [rng.uniform(0, 1, (k, 3)) for k in rng.integers(1, 9, 200)]
    expected = sums_of(schema, people, 2, 1).packed.tolist()
    monkeypatch.setattr("dppca.common.kernel.moments.people._HELD", held)
    assert sums_of(schema, people, 3, 2).packed.tolist() == expected


def test_a_person_of_more_rows_than_the_whole_weight_counts_as_one_that_says_nothing() -> None:
    schema = make_schema([binary_of(n, ["x", "y"]) for n in "ab"], unit="person")
    rows = [np.ones(WHOLE + 1, np.int32)] * 2
    sums = PeopleSums(schema)
    sums.add(rows, np.full(WHOLE + 1, WHOLE + 1))
    blank = one_row(schema, [MISSING, MISSING])
    assert sums.total({WHOLE + 1: 1}).packed.tolist() == blank.tolist()
