"""The canary leaves out nothing that a study may ask for."""

from itertools import combinations_with_replacement
from typing import get_args

import numpy as np
import pytest

from dppca.common.kernel.moments.accumulation import MomentSums
from dppca.common.kernel.schema import ColumnKind, Schema
from dppca.common.kernel.schema.attributes import Attribute
from dppca.owner.engines import canary
from dppca.owner.engines.canary import CANARY, canary_batches, sum_canary
from dppca.owner.engines.kernel import take_fingerprint


def test_the_canary_is_the_same_again_and_sees_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    first = sum_canary()
    assert first == sum_canary() == take_fingerprint().canary
    batches = canary_batches
    for left_out in range(3):
        monkeypatch.setattr(
            canary,
            "canary_batches",
            lambda schema, n=left_out: (b for k, b in enumerate(batches(schema)) if k != n),
        )
        assert sum_canary() != first


def test_the_canary_has_every_kind_of_attribute_and_what_each_may_say() -> None:
    attributes = [each for schema in CANARY for each in schema.attributes]
    kinds = get_args(get_args(Attribute)[0])
    assert {type(each) for each in attributes} == {*kinds}
    said = {
        name
        for each in attributes
        for name, of in type(each).model_fields.items()
        if getattr(each, name) != of.default
    }
    for_people = {"description", "concept", "unit", "why"}
    assert said >= {name for kind in kinds for name in kind.model_fields} - {"type", *for_people}
    of_schemas = {
        name
        for schema in CANARY
        for name, of in Schema.model_fields.items()
        if getattr(schema, name) != of.default
    }
    no_effect, refused = {"resolution_bits", "max_rows_per_person"}, {"unit", "rows_counted"}
    assert of_schemas >= {*Schema.model_fields} - no_effect - refused
    table, tree = CANARY[0].tables
    assert table.table
    splits = {node.by for node in tree.tree} - {None}
    assert {type(CANARY[0].attributes[CANARY[0].find_index(name)]) for name in splits} == {*kinds}


def test_no_entry_of_the_canary_is_empty_and_every_kind_is_there() -> None:
    pairs, forms = set(), set()
    for schema in CANARY:
        sums, layout = MomentSums(schema), schema.layout
        for batch in canary_batches(schema):
            sums.add(batch.columns())
        assert np.count_nonzero(sums.total().packed) == layout.n_entries
        pairs |= {
            frozenset((layout.kinds[i], layout.kinds[j]))
            for i, j in zip(*layout.product_index, strict=True)
        }
        forms.add((layout.unit_ball, layout.with_sums, bool(layout.histograms)))
    kinds = combinations_with_replacement(ColumnKind, 2)
    # Of two binaries there is a product where they are two attributes.
    assert pairs == {frozenset(pair) for pair in kinds}
    assert forms == {
        *((False, True, True), (False, False, False)),
        *((True, True, False), (True, False, False)),
    }
