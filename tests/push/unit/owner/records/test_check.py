"""`check` names every fault at once, by attribute and row number, and never a value."""

import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from dppca.common.kernel.documents.values import to_document
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.schema.texts import MISSING_WORDS
from dppca.owner.records.check import FaultCounts, check_table
from dppca.owner.records.faults import CheckReport, FaultKind, KeyReport
from dppca.owner.records.source_facts import FaultCount, LineFault
from dppca.owner.records.table import moments_of_table, open_table
from dppca.owner.render.faults import check_text, counts_text
from tests.support.studies import binary_of, categorical_of, make_schema, numeric_of

SCHEMA = make_schema(
    [
        numeric_of("age", 0, 100),
        binary_of("ill", ["no", "yes"], missing="no"),
        categorical_of("town", ["Ulm", "Bern", "Basel"]),
    ]
)

SCHEMA_TOWN = categorical_of("town", ["Ulm", "Bern", "Basel"], unknown="?")


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


WHOLE = make_schema(
    [numeric_of("children", 0, 20, integer=True, missing="level", histogram=True), SCHEMA_TOWN]
)


def test_a_number_that_is_not_whole_is_a_fault_of_that_name(tmp_path: Path) -> None:
    cells = ["2", "2.0", "2.5", "5.4e-79", "20.4", "20.6", "-0.2", "-1", "", "x"]
    path = save(tmp_path / "rows.csv", "children,town\n" + "".join(f"{c},Ulm\n" for c in cells))
    report = check_table(open_table(path, WHOLE), WHOLE)
    assert report.attributes["children"].found == {
        FaultKind.NOT_WHOLE: FaultCount(4, (3, 4, 5, 7)),
        FaultKind.OUT_OF_BOUNDS: FaultCount(2, (6, 8)),
        FaultKind.MISSING: FaultCount(1, (9,)),
        FaultKind.TEXT: FaultCount(1, (10,)),
    }
    assert "4 of 10 (40.00%) not-whole, coded as the nearest whole number" in check_text(report)


@pytest.mark.parametrize("word", ["NA", ".", "<NA>", "NULL", "None", "NaT", "#N/A", "#NULL!"])
def test_a_word_for_missing_has_the_verdict_of_an_empty_cell(tmp_path: Path, word: str) -> None:
    def report(cell: str) -> CheckReport:
        text = "children,town\n" + "3,Ulm\n" * 9 + f"{cell},{cell}\n"
        return check_table(open_table(save(tmp_path / "rows.csv", text), WHOLE), WHOLE)

    found, empty = report(word), report("")
    for name in ("children", "town"):
        assert found.attributes[name].found == empty.attributes[name].found
        assert found.attributes[name].missing_words == {word: 1}
    writer = MISSING_WORDS[word]
    assert f"children: 1 of the missing are {word}, the missing value of {writer}" in check_text(
        found
    )
    assert found.attributes["children"].faults == 0


@pytest.mark.parametrize("missing", [None, "level"])
def test_codes_for_missing_have_the_sums_and_the_verdict_of_empty_cells(
    tmp_path: Path, missing: str | None
) -> None:
    age = numeric_of("age", 0, 110, bins=4, histogram=True, missing=missing)
    ward = categorical_of("ward", ["1", "2", "3"])
    schema = make_schema([age, ward], missing_values={"99": "refused", "-1": ""})
    codes = pa.table({"age": [40, 99, -1, 99], "ward": [1, 2, 99, 3]})
    empty = pa.table({"age": [40, None, None, None], "ward": [1, 2, None, 3]})
    pq.write_table(codes, tmp_path / "codes.parquet")
    csv.write_csv(codes, tmp_path / "codes.csv")
    csv.write_csv(empty, tmp_path / "empty.csv")
    found = [
        open_table(tmp_path / name, schema) for name in ("empty.csv", "codes.csv", "codes.parquet")
    ]
    sums = [moments_of_table(table, schema).packed.tolist() for table in found]
    assert sums[0] == sums[1] == sums[2]
    reports = [check_table(table, schema) for table in found]
    tally, elsewhere = FaultCounts(schema), FaultCounts(schema)
    moments_of_table(found[1], schema, tally=elsewhere)
    tally.merge(elsewhere.to_json(), first_row=0)  # as what a worker of a cluster has counted
    for report in (*reports[1:], tally.report()):
        for name in ("age", "ward"):
            expected = reports[0].attributes[name].count(FaultKind.MISSING)
            assert report.attributes[name].count(FaultKind.MISSING) == expected
            assert [*report.attributes[name].found] == [FaultKind.MISSING]
        assert report.attributes["age"].faults == (0 if missing else 3)
        assert to_document(report)["attributes"]["age"]["missing_values"] == {
            "99": {"words": "refused", "count": 2},
            "-1": {"words": "", "count": 1},
        }
        text = check_text(report)
        assert "age: 2 of the missing are 99 (refused)" in text
        assert "age: 1 of the missing are -1\n" in text


def test_a_listed_word_stays_a_label_and_check_says_who_else_writes_it(tmp_path: Path) -> None:
    schema = make_schema([numeric_of("x", 0, 9), categorical_of("land", ["NA", "ZA", "BW"])])
    path = save(tmp_path / "rows.csv", "x,land\n1,NA\n2,ZA\n3,\n")
    report = check_table(open_table(path, schema), schema)
    assert report.attributes["land"].found == {FaultKind.MISSING: FaultCount(1, (3,))}
    assert report.attributes["land"].listed_words == {"NA": 1}
    assert "1 have its label NA, which is also the missing value of R" in check_text(report)


def test_a_column_without_one_listed_label_is_told_before_everything_else(tmp_path: Path) -> None:
    text = "age,ill,town\n1,no,1\n2,yes,2\n3,no,\n4,no,NA\n"
    report = check_table(open_table(save(tmp_path / "rows.csv", text), SCHEMA), SCHEMA)
    first = check_text(report).splitlines()[0]
    assert first.startswith("NOT READ: no value of town is one of its labels; each is coded as Ulm")
    one = check_table(open_table(save(tmp_path / "b.csv", text + "5,no,Bern\n"), SCHEMA), SCHEMA)
    assert "NOT READ" not in check_text(one)


def test_check_says_how_times_count_and_warns_of_midnights_of_elsewhere(tmp_path: Path) -> None:
    schema = make_schema(
        [
            {"name": "seen", "type": "date", "lower": "2020-01-01", "upper": "2020-12-31"},
            SCHEMA_TOWN,
        ]
    )
    days = pd.to_datetime(["2020-02-01", "2020-07-01"]).tz_localize("Europe/Berlin")
    said = []
    for number, seen in enumerate((days, days.tz_convert("UTC"))):
        path = tmp_path / f"{number}.parquet"
        pd.DataFrame({"seen": seen, "town": "Ulm"}).to_parquet(path)
        said.append(check_text(check_table(open_table(path, schema), schema)))
    assert "seen: its times have a zone (Europe/Berlin); each counts as its day there" in said[0]
    assert "A DAY EARLY" not in said[0]
    assert said[1].startswith("A DAY EARLY? Every time of seen is 22:00 or 23:00")


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


@pytest.mark.parametrize(
    ("names", "asked"),
    [
        (["record_id", "redcap_repeat_instrument", "redcap_repeat_instance"], True),
        (["record_id", "redcap_event_name"], True),
        (["id", "visits", "event"], False),
    ],
)
def test_a_table_whose_people_may_have_several_rows_asks_for_a_key(
    tmp_path: Path, names: list[str], asked: bool
) -> None:
    header = ",".join(names)
    path = save(tmp_path / "rows.csv", f"a,b,{header}\n" + f"1,1{',x' * len(names)}\n" * 3)
    schema = make_schema([numeric_of("a", 0, 1), numeric_of("b", 0, 1)], max_rows_per_person=1)
    table = open_table(path, schema)
    report = check_table(table, schema)
    assert report.repeating == tuple(name for name in names[1:] if asked)
    said = f"SEVERAL ROWS OF ONE PERSON? {', '.join(names[1:])} say"
    for text in (check_text(report), counts_text(report)):
        assert (said in text, "(such as record_id) as `key`" in text) == (asked, asked)
    with table.latest(names[0]) as latest:
        counted = check_table(latest, schema)
    assert (counted.repeating, counted.key) == ((), KeyReport(names[0], 1, 3, 0))
    assert "SEVERAL ROWS" not in check_text(counted)


def test_keys_that_may_be_one_person_are_asked_about_and_refuse_nothing(tmp_path: Path) -> None:
    path = save(tmp_path / "rows.csv", "a,b,person\n1,1,007\n1,1,7\n1,1,8\n")
    schema = make_schema([numeric_of(n, 0, 1) for n in "ab"], max_rows_per_person=1)
    with open_table(path, schema).latest("person") as table:
        counted = check_table(table, schema)
    assert counted.key == KeyReport("person", 1, 1, 0, alike=2, together=2)
    assert counted.faultless
    for text in (check_text(counted), counts_text(counted)):
        assert "ONE PERSON? 2 values of person are another one but for zeros in front" in text
        assert "one person has 2 rows, and the study allows 1" in text
