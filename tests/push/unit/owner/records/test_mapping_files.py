"""A mapping's faults are found before a row is read, all at once, each with its line."""

from pathlib import Path

import pytest

from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.schema import Schema
from dppca.owner.records.check import check_table
from dppca.owner.records.faults import CellOutcome
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.mapping_places import MappingPlace
from dppca.owner.records.table import Table, moments_of_table, open_table
from dppca.owner.records.text_format import TextFormat

SCHEMA = Schema.from_document(
    {
        "attributes": [
            {"name": "sex", "type": "binary", "values": ["male", "female"]},
            {"name": "age", "type": "numeric", "lower": 0, "upper": 110},
            {"name": "born", "type": "date", "lower": "1900-01-01", "upper": "2030-01-01"},
            {"name": "work", "type": "categorical", "categories": ["a", "b"], "unknown": "?"},
        ]
    }
)
ROWS = "Sex,Age,born,work,id\nm,20,2000-01-31,a,7\nw,999,1990-02-28,b,7\nx,30,1990-02-28,?,8\n"
SOUND = """\
version: 1
missing: [999]
attributes:
  sex: {column: Sex, recode: {m: male, w: female}}
  age: Age
"""


def open_mapped(folder: Path, text: str, rows: str = ROWS, form: TextFormat | None = None) -> Table:
    (folder / "rows.csv").write_text(rows, encoding="utf-8")
    (folder / "mapping.yaml").write_text(text, encoding="utf-8")
    place = local_files(folder / "rows.csv", form or TextFormat())
    return open_table(place.mapped(MappingPlace(folder / "mapping.yaml")), SCHEMA)


def test_a_mapping_is_read_and_the_rest_found_by_its_name(tmp_path: Path) -> None:
    table = open_mapped(tmp_path, SOUND)
    ((sex, age, _, work),) = table.batches()
    assert sex.tolist() == [0, 1, -1]
    assert age[[0, 2]].tolist() == [20, 30]
    assert age[1] != age[1]  # missing
    assert work.tolist() == [0, 1, 2]
    assert table.extra_columns == ("id",)
    assert len(table.reading_sha256) == 64


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("sexx: Sex", "line 3, sexx: the study has no attribute sexx; did you mean sex?"),
        ("sex: Sax", "line 3, sex: .*rows.csv has no column Sax; did you mean Sex?"),
        ("sex: {column: Sex, recode: {m: mal}}", "mal is none of male, female; did you mean male?"),
        ("age: {column: Sex, recode: {m: high}}", "line 3, age: high is no number"),
        ("born: {constant: 2020-13-01x}", "is no day"),
        ("born: {column: born, part: year}", "it gives a number, and born is a day"),
        ("age: {column: Age, cut: {edges: [2, 1], labels: [1, 2, 3]}}", "ascending order"),
        ("age: {column: Age, cut: {edges: [1], labels: [1, 2, 3]}}", "one label more than edges"),
        ("age: {column: Age, over: 0}", "over must not be 0"),
        ("age: {column: Age, times: .inf}", "must be a number|finite"),
        ("age: {column: Age, times: 2, part: year}", "a column has one of them"),
        ("age: {column: Age, times: 2, otherwise: 3}", "otherwise is for recode"),
        ("sex: {column: Sex, recode: {1: male, 1.0: female}}", "two keys are one number"),
        ('sex: {column: Sex, recode: {"01.": male, 1: female, " 1 ": male}}', "is there twice"),
        ('sex: {column: Sex, recode: {"1.0": male, 1: female}}', "are one number"),
        ("sex: {column: Sex, missing: [m], recode: {m: male}}", "m is also a code for missing"),
        ("sex: {absent: true}", "does not say what a missing sex counts as"),
        ("sex:   # DECIDE: Sex? (by description)", "line 3, attributes.sex: is not decided"),
        ("sex: {column: Sex, recode: {m: }}", "is not decided"),
        ("sex: {column: Sex, recode: {a: male}}\n  age: {column: Sex, times: 2}", "one kind"),
        ("sex: {column: Sex, recoed: {m: male}}", "did you mean `recode`?"),
        ("sex: {column: Sex, pattern: 'm.*'}", "`pattern` is not a field"),
        ("sex: {first_of: [Sex]}", "2 entries or more"),
        (
            "age: {first_of: [Age, {first_of: [Age, {first_of: [Age, {constant: 1}]}]}]}",
            "two deep at most",
        ),
        ("sex: {cases: [{if: {Age: {at_least: 3, below: 3}}, then: Sex}]}", "less than below"),
        ("sex: {constant: male, column: Sex}", "give one of column, constant"),
    ],
)
def test_a_fault_is_named_with_its_line_before_a_row_is_read(
    tmp_path: Path, rule: str, said: str
) -> None:
    with pytest.raises(SettingError, match=said):
        open_mapped(tmp_path, f"version: 1\nattributes:\n  {rule}\n")


def test_all_faults_are_named_at_once(tmp_path: Path) -> None:
    text = "attributes:\n  sex: {column: Sex, recode: {m: mal}}\n  age: Alter\n  wrok: work\n"
    with pytest.raises(SettingError) as raised:
        open_mapped(tmp_path, text)
    assert [word in str(raised.value) for word in ("mal", "Alter", "wrok")] == [True] * 3


def test_a_mapping_that_is_not_there_or_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(ROWS)
    place = local_files(tmp_path / "rows.csv").mapped(MappingPlace(tmp_path / "no.yaml"))
    with pytest.raises(SettingError, match="is not there"):
        open_table(place, SCHEMA)
    with pytest.raises(SettingError, match="more than 1,048,576 bytes"):
        open_mapped(tmp_path, SOUND + "#" * (1 << 20))


def test_the_key_is_the_column_as_it_is(tmp_path: Path) -> None:
    table = open_mapped(tmp_path, SOUND.replace("[999]", "[999, 7]"))
    with table.latest("id") as latest:
        assert latest.count_keys("id", allowed=1).most == 2
    text = (
        "attributes:\n  sex: {constant: male}\n  age: Age\n  work: {column: id, recode: {7: a}}\n"
    )
    rows = ROWS.replace("work,id", "id,work")
    mapped = open_mapped(tmp_path, text, rows)
    with pytest.raises(SettingError, match="rule for work, which is also the key"):
        mapped.require_key("work")


@pytest.mark.parametrize(
    ("kind", "rule", "of_study", "of_mapping"),
    [
        ({"type": "numeric", "lower": 0, "upper": 100}, "", 3, 2),
        ({"type": "numeric", "lower": 0, "upper": 100}, ", times: 1", 0, 5),
        ({"type": "categorical", "categories": ["1", "2"], "unknown": "?"}, "", 3, 2),
        (
            {"type": "categorical", "categories": ["1", "2"], "unknown": "?"},
            ", recode: {1: 1}",
            0,
            5,
        ),
    ],
)
def test_a_code_that_study_and_mapping_name_is_counted_once(
    kind: dict[str, object], rule: str, of_study: int, of_mapping: int, tmp_path: Path
) -> None:
    """What a step makes has the study's codes; the cells before it are the mapping's alone."""
    attribute = {"name": "x", "missing_values": {"999": "not known"}, **kind}
    if kind["type"] == "numeric":
        attribute["missing"] = "indicator"
    schema = Schema.from_document({"max_rows_per_person": 1, "attributes": [attribute]})
    (tmp_path / "rows.csv").write_text("X\n1\n1\n999\n999\n999\n888\n888\nNA\n")
    path = tmp_path / "mapping.yaml"
    path.write_text(f"attributes:\n  x: {{column: X, missing: [888, 999]{rule}}}\n")
    place = local_files(tmp_path / "rows.csv").mapped(MappingPlace(path))
    found = check_table(open_table(place, schema), schema).attributes["x"]
    assert found.outcomes == {CellOutcome.CODE: of_mapping}
    assert found.missing_values["999"].count == of_study


def test_what_a_mapping_made_is_counted_and_described_without_a_word_of_rows(
    tmp_path: Path,
) -> None:
    text = SOUND.replace("w: female}}", "w: female}, otherwise: male}")
    report = check_table(open_mapped(tmp_path, text), SCHEMA)
    assert report.attributes["sex"].outcomes == {CellOutcome.CODE: 0, CellOutcome.OTHERWISE: 1}
    assert report.attributes["age"].outcomes == {CellOutcome.CODE: 1}
    assert report.mapping[:2] == (
        "sex is column Sex: m is male, w is female; else male",
        "age is column Age, as it is",
    )
    assert report.mapping[2:] == (
        "by their own names: born, work",
        "missing in every column: 999",
    )
    assert report.without_values().mapping == ()


def test_the_digest_is_of_what_is_applied_to_the_study(tmp_path: Path) -> None:
    plain = open_mapped(tmp_path, SOUND).reading_sha256
    for same in (SOUND + "# a comment\n", SOUND + "  work: work\n"):
        assert open_mapped(tmp_path, same).reading_sha256 == plain
    others = {
        open_mapped(tmp_path, SOUND.replace("w: female", "w: male")).reading_sha256,
        open_mapped(tmp_path, SOUND.replace("999", "998")).reading_sha256,
        open_mapped(tmp_path, SOUND, form=TextFormat(missing=("none",))).reading_sha256,
    }
    assert len({plain, *others}) == 4
    (tmp_path / "own.csv").write_text("sex,age,born,work\nmale,1,2000-01-01,a\n")
    assert open_table(tmp_path / "own.csv", SCHEMA).reading_sha256 == ""


def test_words_for_missing_are_no_keys_of_a_table(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="words for missing are labels"):
        open_mapped(tmp_path, SOUND, form=TextFormat(missing=("m",)))


def test_a_wrong_delimiter_is_said_before_the_columns_that_it_hides(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="separated by semicolons"):
        open_mapped(tmp_path, SOUND, ROWS.replace(",", ";"))


def test_text_and_infinite_numbers_stay_what_they_are_under_arithmetic(tmp_path: Path) -> None:
    rows = "sex,Age,born,work\nmale,x,,a\nmale,inf,,a\nmale,1e308,,a\nmale,-1e308,,a\nmale,,,a\n"
    table = open_mapped(tmp_path, "attributes:\n  age: {column: Age, times: 10}\n", rows)
    found = check_table(table, SCHEMA).attributes["age"].found
    assert {kind.value: each.count for kind, each in found.items()} == {
        "missing": 1,
        "text": 1,
        "infinite": 3,
    }


def test_fahrenheit_is_the_usual_formula_to_the_last_bit(tmp_path: Path) -> None:
    values = [k / 7 for k in range(-300, 700)]
    rows = "sex,Age,born,work\n" + "".join(f"male,{value!r},,a\n" for value in values)
    table = open_mapped(
        tmp_path, "attributes:\n  age: {column: Age, minus: 32, times: 5, over: 9}\n", rows
    )
    ((_, found, *_),) = table.batches()
    assert found.tolist() == [(value - 32) * 5 / 9 for value in values]


def test_one_changed_row_changes_the_sums_of_one_row(tmp_path: Path) -> None:
    text = "attributes:\n  age: Age\n  sex: {column: id, recode: {7: female}, otherwise: male}\n"
    before = moments_of_table(open_mapped(tmp_path, text), SCHEMA).packed
    after = moments_of_table(open_mapped(tmp_path, text, ROWS.replace("?,8", "?,7")), SCHEMA).packed
    moved = ROWS.splitlines()
    one = [
        moments_of_table(
            open_mapped(tmp_path, text, "\n".join([moved[0], line]) + "\n"), SCHEMA
        ).packed
        for line in (moved[3], moved[3].replace("?,8", "?,7"))
    ]
    assert ((after - before) == (one[1] - one[0])).all()
