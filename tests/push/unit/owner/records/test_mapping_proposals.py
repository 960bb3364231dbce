"""Columns and labels are proposed by their words: never by codes, and never without doubt shown."""

import pytest

from dppca.common.kernel.schema import Attribute, Schema
from dppca.owner.records.mapping_proposals import (
    SiteColumn,
    Sureness,
    propose_columns,
    propose_labels,
)
from tests.support.studies import binary_of, categorical_of, numeric_of

SURE, DOUBTFUL, LEFT = Sureness


def attributes(*documents: dict[str, object]) -> tuple[Attribute, ...]:
    more = [numeric_of("zzz1", 0, 1), numeric_of("zzz2", 0, 1)]
    return Schema.from_document({"attributes": [*documents, *more]}).attributes[:-2]


def labels(study: list[str], words: dict[str, str]) -> dict[str, tuple[str, Sureness]]:
    make = binary_of if len(study) == 2 else categorical_of
    (attribute,) = attributes(make("a", study))
    found = propose_labels(attribute, words)
    return {cell: (each.label, each.sureness) for cell, each in found.items()}


def own(*words: str) -> dict[str, str]:
    return {word: word for word in words}


@pytest.mark.parametrize(
    ("study", "words", "meant"),
    [
        (["male", "female"], own("männlich", "weiblich"), ("male", "female", SURE)),
        (["male", "female"], {"1": "homme", "2": "femme"}, ("male", "female", SURE)),
        (["m", "f"], own("Man", "Woman"), ("m", "f", SURE)),
        (["no", "yes"], {"1": "Ja", "0": "Nein"}, ("yes", "no", SURE)),
        (["male", "female"], own("m", "w"), ("male", "female", DOUBTFUL)),
        (["male", "female"], own("h", "m"), ("male", "female", DOUBTFUL)),
        (["no", "yes"], own("1", "0"), ("yes", "no", DOUBTFUL)),
        (["no", "yes"], own("true", "false"), ("yes", "no", SURE)),
    ],
)
def test_a_set_of_two_words_decides(
    study: list[str], words: dict[str, str], meant: tuple[str, str, Sureness]
) -> None:
    first, second, sureness = meant
    assert [*labels(study, words).values()] == [(first, sureness), (second, sureness)]


def test_a_third_word_is_left_and_two_sets_that_disagree_decide_nothing() -> None:
    found = labels(["male", "female"], own("m", "w", "d"))
    assert found["m"] == ("male", DOUBTFUL)
    assert found["d"] == ("", LEFT)
    assert {*labels(["male", "female"], own("h", "m", "f")).values()} == {("", LEFT)}


def test_codes_are_not_compared_but_by_what_a_file_says_they_mean() -> None:
    assert labels(["1", "2", "3"], {"1": "high", "2": "low"})["1"] == ("1", DOUBTFUL)
    words = {"2": "never", "0": "Current", "9": "keine Angabe"}
    found = labels(["never", "former", "current"], words)
    assert found == {"2": ("never", SURE), "0": ("current", SURE), "9": ("", LEFT)}


def test_labels_that_differ_only_by_capitals_are_themselves_alone() -> None:
    found = labels(["A", "a", "b"], own("A", "a", "Á", "B"))
    assert found["A"] == ("A", SURE)
    assert found["a"] == ("a", SURE)
    assert found["Á"] == ("", LEFT)
    assert found["B"] == ("b", SURE)


def test_words_for_missing_and_codes_of_the_study_are_not_asked() -> None:
    document = {**binary_of("a", ["no", "yes"]), "missing": "no", "missing_values": ["9"]}
    (attribute,) = attributes(document)
    assert [*propose_labels(attribute, own("yes", "9", "NA", " ", "9.0"))] == ["yes"]


def test_a_column_is_sure_by_its_name_alone_if_no_other_comes_near() -> None:
    study = attributes(numeric_of("sbp", 0, 300), numeric_of("birth_date", 0, 9))
    names = ["SBP", "BirthDate", "dbp"]
    found = propose_columns(study, [SiteColumn(name) for name in names])
    assert [(each.column, each.sureness) for each in found.values()] == [
        ("SBP", SURE),
        ("BirthDate", SURE),
    ]
    twice = propose_columns(study, [SiteColumn("SBP"), SiteColumn("sbp")])
    assert twice["sbp"].sureness is DOUBTFUL
    assert twice["birth_date"].sureness is LEFT
    like = propose_columns(study, [SiteColumn("sbp_1")])
    assert (like["sbp"].column, like["sbp"].sureness) == ("sbp_1", DOUBTFUL)
    assert propose_columns(study, [])["sbp"].column == ""


def test_one_column_for_two_attributes_is_doubtful_for_both() -> None:
    study = attributes(numeric_of("height cm", 0, 300), numeric_of("cm height", 0, 300))
    found = propose_columns(study, [SiteColumn("Height_cm")])
    assert {each.sureness for each in found.values()} == {DOUBTFUL}


def test_labels_that_fit_make_one_of_two_like_names_the_nearer() -> None:
    study = attributes(binary_of("smoker", ["no", "yes"]))
    columns = [
        SiteColumn("Smoker2", own("x", "y", "z")),
        SiteColumn("Smoker", own("ja", "nein")),
    ]
    assert propose_columns(study, columns)["smoker"].column == "Smoker"


@pytest.mark.parametrize(
    ("concept", "column", "meant"),
    [
        ("LOINC:8480-6", SiteColumn("rr1", concept="loinc: 8480-6"), (SURE, "the same concept")),
        ("LOINC:8480-6", SiteColumn("sbp", concept="LOINC:8480-6"), (SURE, "the same concept")),
        ("LOINC:8480-6", SiteColumn("sbp", concept="LOINC:8462-4"), (DOUBTFUL, "another concept")),
        ("LOINC:8480-6", SiteColumn("sbp"), (SURE, "the same name")),
        (None, SiteColumn("sbp", concept="LOINC:8462-4"), (SURE, "the same name")),
        (None, SiteColumn("rr1", note="systolic blood pressure"), (DOUBTFUL, "by description")),
        (None, SiteColumn("rr1", note="SBP"), (DOUBTFUL, "by description")),
        (None, SiteColumn("rr1", note="heart rate"), (LEFT, "no name is like it")),
    ],
)
def test_a_concept_is_as_good_as_a_name_and_a_description_never_is(
    concept: str | None, column: SiteColumn, meant: tuple[Sureness, str]
) -> None:
    said = {"description": "Systolic blood pressure", "concept": concept}
    (sbp,) = attributes(numeric_of("sbp", 50, 250, **said))
    found = propose_columns([sbp], [column, SiteColumn("other")])["sbp"]
    assert (found.sureness, found.why) == meant
