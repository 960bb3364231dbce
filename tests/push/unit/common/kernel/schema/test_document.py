"""The number of rows as an entry: its fields, their form, and what they leave as it was."""

from typing import Any

import pytest

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema.document import NeighbourRelation, Schema
from tests.support.studies import binary_of, make_schema

FLAGS = [binary_of("a", ["n", "y"]), binary_of("b", ["n", "y"])]


def test_fields_at_their_defaults_leave_document_and_digest_as_they_were() -> None:
    plain = make_schema(FLAGS)
    said = make_schema(FLAGS, neighbours="replaced", count_weight=1)
    assert said.digest == plain.digest
    assert b"neighbours" not in plain.canonical_bytes()
    assert b"count_weight" not in plain.canonical_bytes()
    assert plain.layout.n_entries == 3
    assert not plain.layout.with_count


def test_a_secret_number_of_rows_is_one_more_entry_with_its_weight() -> None:
    for weight in (0.25, 1, 6):
        schema = make_schema(FLAGS, neighbours="added", count_weight=weight)
        assert schema.neighbours is NeighbourRelation.ADDED
        assert schema.layout.n_entries == 4
        assert schema.layout.count_weight == weight
        assert schema.layout.largest_weight >= weight
        again = Schema.from_document(schema.model_dump(mode="json"))
        assert (again, again.digest) == (schema, schema.digest)
        assert (b"count_weight" in schema.canonical_bytes()) is (weight != 1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"neighbours": "removed"}, "'replaced' or 'added'"),
        ({"count_weight": 2}, "it needs neighbours: added, without only_tables"),
        ({"neighbours": "added", "count_weight": 0}, "count_weight"),
        ({"neighbours": "added", "count_weight": 1 / 3}, r"4\*\*resolution_bits"),
        (
            {
                "neighbours": "added",
                "count_weight": 2,
                "only_tables": True,
                "tables": [{"table": ["a", "b"]}],
            },
            "without only_tables",
        ),
    ],
)
def test_a_weight_without_its_entry_or_off_the_grid_is_refused(
    settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(SettingError, match=words):
        make_schema(FLAGS, **settings)


def test_tables_alone_need_no_number_of_rows() -> None:
    alone = {"only_tables": True, "tables": [{"table": ["a", "b"]}]}
    added = make_schema(FLAGS, neighbours="added", **alone)
    assert added.layout.n_entries == make_schema(FLAGS, **alone).layout.n_entries
    assert not added.with_count
