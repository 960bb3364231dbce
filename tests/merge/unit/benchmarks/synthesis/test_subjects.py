"""Data sets whose bounds were written down before a row was read."""

from __future__ import annotations

import pytest

from benchmarks.synthesis.subjects import load_subject
from dppca.common.schema import find_faults


@pytest.mark.parametrize(("name", "n_rows", "most_out"), [("fair", 6366, 0), ("demo", 20190, 12)])
def test_every_value_is_known_and_hardly_any_is_out_of_its_bounds(
    name: str, n_rows: int, most_out: int
) -> None:
    subject = load_subject(name)
    assert subject.n_rows == n_rows
    for faults in find_faults(subject.schema, list(subject.columns)).values():
        assert not (faults.missing | faults.invalid).any()
        assert faults.out.sum() <= most_out
