"""`check` names every fault at once, by attribute and row number, and never a value."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dppca.common.documents.values import to_document
from dppca.common.errors import SettingError
from dppca.common.privacy.labels import Label
from dppca.owner.records.check import check_table
from dppca.owner.records.faults import FaultCount, FaultKind, LineFault
from dppca.owner.records.table import open_table
from dppca.owner.render.faults import check_text
from tests.support.studies import binary_of, categorical_of, make_schema, numeric_of

SCHEMA = make_schema(
    [
        numeric_of("age", 0, 100),
        binary_of("ill", ["no", "yes"], missing="no"),
        categorical_of("town", ["Ulm", "Bern", "Basel"]),
    ]
)


def save(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_every_fault_is_named_at_once_and_no_value(tmp_path: Path) -> None:
    rows = (
        "age,ill,town,secret-column\n"
        "1,no,Ulm,x\n"
        "foofoo,yes,Bern,x\n"
        "inf,maybe,,x\n"
        "31337,,Atlantis,x\n"
        ",no,Basel,x\n"
        "-0.5,no,Ulm,x\n"
    )
    table = open_table(save(tmp_path / "rows.csv", rows), SCHEMA)
    report = check_table(table, SCHEMA)
    found = {name: dict(each.found) for name, each in report.attributes.items()}
    assert found == {
        "age": {
            FaultKind.TEXT: FaultCount(1, (2,)),
            FaultKind.INFINITE: FaultCount(1, (3,)),
            FaultKind.OUT_OF_BOUNDS: FaultCount(2, (4, 6)),
            FaultKind.MISSING: FaultCount(1, (5,)),
        },
        "ill": {FaultKind.UNKNOWN: FaultCount(1, (3,)), FaultKind.MISSING: FaultCount(1, (4,))},
        "town": {FaultKind.UNKNOWN: FaultCount(1, (4,)), FaultKind.MISSING: FaultCount(1, (3,))},
    }
    assert not report.faultless
    document = json.dumps(to_document(report))
    for value in ("foofoo", "maybe", "31337", "Atlantis", "-0.5"):
        assert value not in document
    assert report.extra_columns == ("secret-column",)


def test_missing_value_is_no_fault_where_the_schema_provides_for_it(tmp_path: Path) -> None:
    table = open_table(save(tmp_path / "rows.csv", "z,age,ill,town\n?,1,,Ulm\n"), SCHEMA)
    report = check_table(table, SCHEMA)
    assert report.faultless
    assert to_document(report)["label"] == Label.SITE_ONLY
    assert report.attributes["ill"].found == {FaultKind.MISSING: FaultCount(1, (1,))}


def test_rows_are_counted_over_all_batches_and_named_up_to_the_limit(tmp_path: Path) -> None:
    n_rows = 200_000
    ages = [200.0 if row % 1000 == 999 else 5.0 for row in range(n_rows)]
    data = pa.table({"age": ages, "ill": ["no"] * n_rows, "town": ["Ulm"] * n_rows})
    pq.write_table(data, tmp_path / "rows.parquet")
    report = check_table(open_table(tmp_path / "rows.parquet", SCHEMA), SCHEMA, limit=100)
    found = report.attributes["age"].found[FaultKind.OUT_OF_BOUNDS]
    assert found.count == 200
    assert found.rows == tuple(range(1000, 100_001, 1000))


def test_blank_lines_and_open_quotes_are_named(tmp_path: Path) -> None:
    text = 'age,ill,town\n1,no,Ulm\n\n1,no,"Ulm\n1,no,"Bern"\n"\n'
    report = check_table(open_table(save(tmp_path / "rows.csv", text), SCHEMA), SCHEMA)
    assert report.rows == 5
    assert report.malformed_rows == {
        LineFault.FIELDS: FaultCount(1, (2,)),
        LineFault.OPEN_QUOTE: FaultCount(2, (3, 5)),
    }
    assert "2 rows leave a quote open" in check_text(report)
    assert "rows 3, 5" in check_text(report)


@pytest.mark.parametrize(
    ("towns", "occurring"), [(("Ulm", "Ulm", "Rome"), 1), (("Ulm", "Bern", ""), 2), (("?", ""), 0)]
)
def test_a_target_is_asked_about_without_being_a_fault(
    tmp_path: Path, towns: tuple[str, ...], occurring: int
) -> None:
    text = "\n".join(["age,ill,town", *(f"1,no,{town}" for town in towns)])
    path = save(tmp_path / "rows.csv", text)
    report = check_table(open_table(path, SCHEMA), SCHEMA, target="town")
    assert to_document(report)["target"] == {
        "name": "town",
        "labels": 3,
        "occurring": occurring,
        "trainable": occurring == 2,
    }
    assert ("cannot be trained" in check_text(report)) == (occurring < 2)
    assert check_table(open_table(path, SCHEMA), SCHEMA).target is None
    with pytest.raises(SettingError, match="age is not a binary or categorical"):
        check_table(open_table(path, SCHEMA), SCHEMA, target="age")
