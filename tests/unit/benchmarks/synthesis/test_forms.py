"""What of a row is released, and values brought to it and back."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.synthesis.forms import PLAIN, TARGETED, find_form, forms_of
from benchmarks.synthesis.subjects import load_subject
from dppca.common.errors import SettingError
from dppca.common.schema import Numeric, Schema


@pytest.mark.parametrize("name", forms_of("fair"))
def test_values_come_back_within_their_bin(name: str) -> None:
    subject = load_subject("fair")
    form = find_form(subject, name)
    schema = Schema.from_document(form.document)
    coded = form.forward(subject.columns)
    values = form.backward(coded, np.random.default_rng(0))
    assert set(form.bins) == {
        index
        for index, (a, b) in enumerate(
            zip(schema.attributes, subject.schema.attributes, strict=True)
        )
        if type(a) is not type(b)
    }
    for index, (now, then) in enumerate(zip(values, subject.columns, strict=True)):
        if index in form.bins:
            attribute = subject.schema.attributes[index]
            assert isinstance(attribute, Numeric)
            lower, upper = attribute.bounds
            assert np.abs(now - then).max() <= (upper - lower) / form.bins[index]
            assert coded[index].max() == form.bins[index] - 1
        else:
            np.testing.assert_array_equal(now, then)


def test_declared_targets_are_those_that_are_predicted() -> None:
    subject = load_subject("fair")
    assert find_form(subject, TARGETED).document["targets"] == ["affair"]
    assert "targets" not in find_form(subject, PLAIN).document


def test_cells_about_an_answer_hold_that_answer_alone() -> None:
    subject = load_subject("fair")
    schema = Schema.from_document(find_form(subject, TARGETED).document)
    index = schema.index_of("yrs_married")
    cells = schema.cells[index]
    assert cells is not None
    answers = np.array([0.5, 2.5, 6, 9, 13, 16.5, 23])
    assert cells.index(answers).tolist() == list(range(0, 13, 2))
    found = np.unique(cells.index(np.asarray(subject.columns[index], np.float64)))
    assert found.tolist() == list(range(0, 13, 2))


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(SettingError, match="no form 9 bins of fair"):
        find_form(load_subject("fair"), "9 bins")
