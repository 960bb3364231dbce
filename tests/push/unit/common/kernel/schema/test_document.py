"""Flags, and the number of rows as an entry: their form, and what they leave as it was."""

from typing import Any

import pytest

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema.document import Schema
from dppca.common.kernel.schema.units import NeighbourRelation
from tests.support.studies import binary_of, make_schema, numeric_of

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
        ({"count_weight": 2}, "it needs neighbours: added, or rows_counted above 1"),
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


@pytest.mark.parametrize("text", ["yes", "true", "no", "1", ""])
@pytest.mark.parametrize(
    ("kind", "fields", "place"),
    [
        ("centred", {"row_norm": {"halved_products": ...}}, "row_norm"),
        ("centred", {"row_norm": {"include_sums": ...}}, "row_norm"),
        ("flags", {"only_tables": ...}, "only_tables"),
        ("number", {"integer": ...}, "integer"),
        ("number", {"histogram": ...}, "histogram"),
    ],
)
def test_a_text_where_a_flag_belongs_is_refused_and_never_read_as_true(
    kind: str, fields: dict[str, Any], place: str, text: str
) -> None:
    def make(value: object) -> Schema:
        given = {
            name: dict.fromkeys(inner, value) if isinstance(inner, dict) else value
            for name, inner in fields.items()
        }
        if kind == "centred":
            centred = [
                {"name": name, "type": "numeric", "centre": 0, "scale": 1} for name in ("a", "b")
            ]
            return make_schema(centred, **given)
        if kind == "number":
            return make_schema([numeric_of("a", 0, 9, **given), *FLAGS[1:]])
        return make_schema(FLAGS, tables=[{"table": ["a", "b"]}], **given)

    make(True)
    make(False)
    with pytest.raises(SettingError, match=f"{place}.*: must be true or false"):
        make(text)


CODES = {-9: "refused"}
TABLE = [{"table": ["a", "b"]}]
BALL = [{"name": name, "type": "numeric", "centre": 0, "scale": 1} for name in "ab"]
EACH_FIELD: dict[str, dict[str, Any]] = {
    "resolution_bits": {"resolution_bits": 9},
    "max_rows_per_person": {"max_rows_per_person": 3},
    "unit": {"unit": "person", "max_rows_per_person": None},
    "rows_counted": {"unit": "person", "max_rows_per_person": None, "rows_counted": 1},
    "neighbours": {"neighbours": "added"},
    "count_weight": {"neighbours": "added", "count_weight": 2},
    "sum_weight": {"sum_weight": 2},
    "row_norm": {"row_norm": {"halved_products": True}, "attributes": BALL},
    "histogram_weight": {"histogram_weight": 2},
    "targets": {"targets": ["a"]},
    "target_weight": {"targets": ["a"], "target_weight": 3},
    "square_weight": {"square_weight": 2, "attributes": [numeric_of("a", 0, 1), FLAGS[1]]},
    "tables": {"tables": TABLE},
    "tables_weight": {"tables": TABLE, "tables_weight": 2},
    "only_tables": {"tables": TABLE, "only_tables": True},
    "missing_values": {"missing_values": CODES},
    "attributes": {"attributes": [{**FLAGS[0], "missing_values": CODES}, FLAGS[1]]},
}


@pytest.mark.parametrize("name", Schema.model_fields)
def test_a_document_is_written_without_what_its_caller_leaves_out(name: str) -> None:
    schema = Schema.from_document({"attributes": FLAGS, **EACH_FIELD[name]})
    whole = schema.model_dump(mode="json")
    some = schema.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert some.keys() == {key for key, value in whole.items() if value is not None}
    assert Schema.from_document(some).digest == schema.digest
    assert schema.model_dump(mode="json", exclude_defaults=True).keys() <= whole.keys()
    assert schema.model_dump(mode="json", exclude_unset=True).keys() <= whole.keys()
    for other in Schema.model_fields:
        written = schema.model_dump(mode="json", exclude={other})
        assert written.keys() == whole.keys() - {other}
