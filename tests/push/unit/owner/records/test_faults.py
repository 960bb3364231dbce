"""Values coded by rule are counted in one way, shown to the steward, and decide no release."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.kernel.documents.values import to_document
from dppca.common.kernel.errors import StudyError
from dppca.common.kernel.schema import MISSING, UNKNOWN, Schema, find_attribute_faults
from dppca.common.kernel.schema.texts import INFINITE, NOT_A_NUMBER
from dppca.common.kernel.study import FaultRule, Study, study_from_canonical, study_from_mapping
from dppca.owner.records.check import FaultCounts, check_table
from dppca.owner.records.faults import MALFORMED, CheckReport, FaultKind
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.source_facts import FaultCount, LineFault
from dppca.owner.records.table import open_table
from dppca.owner.records.text_format import TextFormat
from dppca.owner.render.faults import (
    alarm_lines,
    check_text,
    counts_line,
    counts_text,
    with_counts,
    with_counts_line,
)
from tests.support.examples import examples
from tests.support.sites import make_trained_site
from tests.support.studies import binary_of, categorical_of, make_schema, make_study, numeric_of

OWN: dict[str, Any] = categorical_of("work", ["private", "state"], unknown="?")
AGE: dict[str, Any] = numeric_of("age", 0, 100)
SCHEMA = make_schema([AGE, OWN], max_rows_per_person=1)
TEN = "age,work\n" + "".join(
    f"{age},{work}\n"
    for age, work in [
        *((30, "private"),) * 5,
        (130, "state"),
        ("", "farm"),
        ("x", "farm"),
        (20, ""),
        (20, "?"),
    ]
)


ONE = {"count": 1, "rows": []}
UNREMARKED: dict[str, Any] = {
    "missing_values": {},
    "missing_words": {},
    "listed_words": {},
    "zones": [],
    "midnights": [],
    "declared_missing": 0,
    "commonest_out": "",
    "value_labels": {},
    "near_labels": {},
    "outcomes": {},
}


def _study(**changes: Any) -> Study:
    schema = SCHEMA.model_dump(mode="json")
    return make_study(**{"schema": schema, "components": {"count": 1}, **changes})


def _report(folder: Path, text: str = TEN, schema: Schema = SCHEMA) -> CheckReport:
    path = folder / "rows.csv"
    path.write_text(text)
    return check_table(open_table(path, schema), schema, limit=0)


def test_every_value_coded_by_rule_is_counted_with_what_it_became(tmp_path: Path) -> None:
    report = _report(tmp_path)
    document = to_document(report)
    assert document["label"] == "site-only"
    assert "choice made from data" in document["warning"]
    assert document["attributes"] == {
        "age": {
            "missing_allowed": False,
            "coded_as": "50, the middle of the bounds",
            "form": "a number",
            "found": dict.fromkeys(("missing", "text", "out-of-bounds"), ONE),
            **UNREMARKED,
            "by_rule": 3,
            "faults": 3,
        },
        "work": {
            "missing_allowed": True,
            "coded_as": "?, a label of its own",
            "form": "one of its labels",
            "found": {"missing": ONE, "unknown": {"count": 2, "rows": []}},
            **UNREMARKED,
            "by_rule": 3,
            "faults": 2,
        },
    }
    text = counts_text(report)
    assert "work: 3 of 10 (30.00%)" in text
    assert "1 out-of-bounds, coded as the nearest bound" in text
    assert "choice made from data" in text
    line = "Coded by rule: 2 attributes; `dppca-owner check census` lists them"
    assert counts_line(report, "census") == line
    assert with_counts_line("Sent.", report, "census").endswith(f"\nSent.\n{line}")


CELLS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 50.0, 100.0, -1.0, 101.0, np.nan, INFINITE, NOT_A_NUMBER]),
        st.sampled_from([0, 1, 2, UNKNOWN, MISSING]),
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=examples(100))
@given(cells=CELLS, cut=st.integers(1, 7))
def test_counts_are_those_of_the_slow_look_whatever_the_batches(
    cells: list[tuple[float, int]], cut: int
) -> None:
    numbers = np.array([number for number, _ in cells])
    labels = np.array([label for _, label in cells], np.int32)
    tally = FaultCounts(SCHEMA)
    for start in range(0, len(cells), cut):
        tally.add([numbers[start : start + cut], labels[start : start + cut]])
    reports = tally.report().attributes
    for attribute, column in zip(SCHEMA.attributes, (numbers, labels), strict=True):
        report = reports[attribute.name]
        slow = find_attribute_faults(attribute, column)
        by_rule = slow.missing.sum() + slow.invalid.sum() + slow.out.sum()
        assert report.by_rule == by_rule
        missing = report.found.get(FaultKind.MISSING)
        assert (missing.count if missing else 0) == slow.missing.sum()


def test_a_code_for_missing_that_the_study_forgot_is_named_and_asked_about(tmp_path: Path) -> None:
    rows = "".join(f"{age},state\n" for age in [*range(94), 999, 999, 999.0, 999, 130])
    assert _report(tmp_path, f"age,work\n{rows}").attributes["age"].commonest_out == ""
    report = _report(tmp_path, f"age,work\n{rows}999,state\n-5,state\n")
    assert report.attributes["age"].commonest_out == "999"
    (line,) = alarm_lines(report)
    assert "7 of 101 (6.93%) values of age are out of bounds, and most of these are 999" in line
    assert "Is it a code for a missing value?" in line
    assert "missing_values" in line
    for text in (check_text(report), with_counts("", report), with_counts_line("", report, "s")):
        assert line in text
    assert to_document(report)["attributes"]["age"]["commonest_out"] == "999"
    sent = report.without_values()
    assert (sent.attributes["age"].commonest_out, alarm_lines(sent)) == ("", [])
    assert (sent.attributes["age"].by_rule, sent.rows) == (7, 101)
    named = make_schema([{**AGE, "missing_values": {999: "not asked"}}, OWN], max_rows_per_person=1)
    assert not alarm_lines(_report(tmp_path, f"age,work\n{rows}999,state\n", named))


def test_parts_of_a_cluster_name_the_same_value_in_any_order() -> None:
    columns = [[np.array([999.0] * n + [-n, 50.0]), np.zeros(n + 2, np.int32)] for n in range(1, 6)]
    texts = []
    for column in columns:
        part = FaultCounts(SCHEMA)
        part.add(column)
        texts.append(part.to_json())
    for order in (texts, texts[::-1]):
        whole = FaultCounts(SCHEMA)
        for text in order:
            whole.merge(text, first_row=0)
        assert whole.report().attributes["age"].commonest_out == "999"


def test_a_rule_compares_each_attribute_and_malformed_rows(tmp_path: Path) -> None:
    report = _report(tmp_path)
    assert report.above == report.under(None).above == {}
    assert report.under(FaultRule(refuse_if_above=0.25)).above == {"age": 0.3}
    assert report.under(FaultRule(refuse_if_above=0.3)).above == {}
    # The missing label is provided for by a label of its own; the two that are not listed count.
    assert report.under(FaultRule(refuse_if_above=0.1)).above == {"age": 0.3, "work": 0.2}
    broken = _report(tmp_path, "age,work\n1,state\n1,state,2\n")
    above = broken.under(FaultRule(refuse_if_above=0.4))
    assert above.above == {MALFORMED: 0.5}
    assert "TOO MANY FAULTS" in check_text(above)
    assert "50.0%. Correct" in counts_text(above)
    assert "Coded by rule: 1 malformed lines; `" in counts_line(above, "s")
    assert "50.0%. Correct" in counts_line(above, "s"), "what is too much is always said"
    assert "TOO MANY FAULTS" not in check_text(broken.under(FaultRule(refuse_if_above=0.5)))


@pytest.mark.parametrize("share", [-0.1, 1, 1.5, float("nan"), "many"])
def test_a_share_is_at_least_0_and_below_1(share: object) -> None:
    document = _study().model_dump(mode="json", by_alias=True)
    with pytest.raises(StudyError, match="refuse_if_above"):
        study_from_mapping({**document, "faults": {"refuse_if_above": share}})


def test_training_says_what_was_coded_by_rule(tmp_path: Path) -> None:
    site, study = make_trained_site(tmp_path / "site")
    rows = site.folder / "rows.csv"
    lines = rows.read_text().splitlines()
    rows.write_text("\n".join([*lines, lines[1].replace(lines[1].split(",")[0], "x", 1)]) + "\n")
    stays = site.run("train", study.name, "--target", "ill")[1]["coded_by_rule"]
    leaves = ("--method", "dp-svm", "--epsilon", "1", "--yes")
    code, document = site.run("train", study.name, "--target", "ill", *leaves)
    assert code == 0
    assert stays == document["coded_by_rule"]
    assert stays["label"] == "site-only"
    assert sum("text" in each["found"] for each in stays["attributes"].values()) == 1
    again = site.run("train", study.name, "--target", "ill", *leaves)[1]
    assert again["coded_by_rule"] is None  # no row was read


DATES = make_schema(
    [
        {"name": "day", "type": "date", "lower": "2023-01-01", "upper": "2023-12-31"},
        binary_of("town", ["Köln", "Ulm"]),
    ]
)


def _told_first(path: Path, lines: list[str], encoding: str) -> list[str]:
    path.write_text("\n".join(["day,town", *lines, ""]), encoding=encoding)
    report = check_table(open_table(path, DATES), DATES)
    found = alarm_lines(report)
    assert check_text(report).splitlines()[: len(found)] == found
    assert with_counts("What would leave", report).splitlines()[: len(found)] == found
    return found


@pytest.mark.parametrize(
    ("n_wrong", "n_missing", "said"),
    [
        (20, 0, "no value of day is a date as YYYY-MM-DD"),
        (1, 19, "no value of day is a date as YYYY-MM-DD"),
        (2, 0, "2 of 20 (10.00%) values of day are not a date as YYYY-MM-DD"),
        (1, 0, None),
        (0, 20, None),
    ],
)
def test_dates_in_another_form_are_told_before_everything_else(
    tmp_path: Path, n_wrong: int, n_missing: int, said: str | None
) -> None:
    days = ["17/02/2023"] * n_wrong + [""] * n_missing
    days += ["2023-02-17"] * (20 - len(days))
    found = _told_first(tmp_path / "rows.csv", [f"{day},Ulm" for day in days], "utf-8")
    middle = "; each is coded as 2023-07-02, the middle of the bounds"
    assert found == ([] if said is None else [f"NOT READ: {said}{middle}"])


def test_dates_that_are_not_of_the_form_that_was_given_are_told_by_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("day,town\n" + "2023-02-17,Ulm\n" * 3)
    place = local_files(path, TextFormat(dates="DD.MM.YYYY"))
    (line,) = alarm_lines(check_table(open_table(place, DATES), DATES))
    assert line.startswith("NOT READ: no value of day is a date as DD.MM.YYYY;")


@pytest.mark.parametrize("before", [0, 100_000])  # in the first block, and in a later one
def test_bytes_that_are_not_utf8_are_told_before_everything_else(
    tmp_path: Path, before: int
) -> None:
    lines = ["2023-02-17,Ulm"] * before + ["2023-02-17,Köln", "2023-02-17,Ulm"]
    path = tmp_path / "rows.csv"
    assert _told_first(path, lines, "utf-8") == []
    (line,) = _told_first(path, lines, "latin-1")
    assert line.startswith(f"NOT UTF-8: 1 of {before + 2} (")
    table = open_table(path, DATES)
    assert table.source.facts.malformed == {LineFault.ENCODING: FaultCount(1, (before + 1,))}
    unknown = check_table(table, DATES).attributes["town"].found
    assert unknown == {FaultKind.UNKNOWN: FaultCount(1, (before + 1,))}


def test_the_rule_is_in_the_digest_of_the_study_and_not_in_the_schemas() -> None:
    ruled = _study(faults={"refuse_if_above": 0.05})
    assert ruled.digest != _study().digest
    assert ruled.table.digest == _study().table.digest
    assert study_from_canonical(ruled.canonical_bytes()) == ruled
