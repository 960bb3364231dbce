"""What of a row is released, and values brought to it and back."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.synthesis.forms import BINS, BINS_TARGETED, TARGETED, find_form
from benchmarks.synthesis.subjects import load_subject
from dppca.common.schema import Schema


@pytest.mark.parametrize("name", BINS)
def test_some_numerics_have_bins_in_products(name: str) -> None:
    schema = Schema.from_document(find_form(load_subject("fair"), name))
    assert schema.products_of_bins == ("rate_marriage", "age", "yrs_married")
    widths = {
        attribute.name: stop - start
        for attribute, (start, stop) in zip(schema.attributes, schema.layout.groups, strict=True)
    }
    # Forty bins are the most; where the shape of an answer is known, it says the bins.
    expected = {"age": 11, "yrs_married": 13} if name == BINS_TARGETED else {"age": BINS[name]}
    assert widths.items() >= expected.items()
    assert widths["educ"] == 1


def test_cells_about_an_answer_hold_that_answer_alone() -> None:
    subject = load_subject("fair")
    schema = Schema.from_document(find_form(subject, TARGETED))
    index = schema.find_index("yrs_married")
    cells = schema.cells[index]
    assert cells is not None
    answers = np.array([0.5, 2.5, 6, 9, 13, 16.5, 23])
    assert cells.index(answers).tolist() == list(range(0, 13, 2))
    found = np.unique(cells.index(np.asarray(subject.columns[index], np.float64)))
    assert found.tolist() == list(range(0, 13, 2))
