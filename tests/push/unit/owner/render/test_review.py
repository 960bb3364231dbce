"""What a steward is asked: of which attributes, for whom, at what cost, and what is asserted."""

import json
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dppca.common.analysis.study_file import study_from_document
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.privacy.accounting import Budget
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study, study_from_mapping
from dppca.common.shell.study_header import StudyHeader
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.entries import Reservation
from dppca.owner.records.faults import CheckReport
from dppca.owner.release.contribution import request_contribution, review
from dppca.owner.render.review import (
    ContributionPreview,
    ReviewDocument,
    consent_facts,
    review_text,
)
from dppca.owner.site.config import Site
from tests.support.ledgers import BUDGET, account_of, history_of
from tests.support.studies import binary_of, categorical_of, make_study, numeric_of, study_document

EMPTY = History()
STUDY = make_study("small")


def _review(study: Study = STUDY) -> Any:
    return review(study, EMPTY, n_rows=1000, account=account_of(budget=BUDGET))


def _document(found: Any, *, with_forecast: bool = False) -> ReviewDocument:
    """What is asked at the site owner-1, all of whose rows are coded as they are."""
    unread: Any = None
    site, counted = Site(Path(), "owner-1", "hub:7443"), CheckReport(found.n_rows, 0, {}, {}, ())
    seen = ContributionPreview(site, found.study, StudyState.OPEN, found, unread, unread, counted)
    return seen.document() if with_forecast else seen.without_forecast


def test_what_a_study_does_not_say_stands_beside_the_question() -> None:
    unread: Any = None
    site, found = Site(Path(), "owner-1", "hub:7443"), _review()
    counted = CheckReport(found.n_rows, 0, {}, {}, ())
    for words, told in (
        ({}, "NOT SAID: purpose, contact, approval. Ask its operator"),
        ({"purpose": "a", "contact": "b"}, "NOT SAID: approval. Ask its operator"),
        ({"purpose": "a", "contact": "b", "approval": "none needed"}, ""),
    ):
        study = make_study("small", **words)
        seen = ContributionPreview(site, study, StudyState.OPEN, found, unread, unread, counted)
        facts = dict(consent_facts(seen.without_forecast))
        assert ("Not said by the operator" in facts) is bool(told)
        for text in (seen.brief(), seen.text(), seen.question()):
            assert told in text
            assert ("NOT SAID" in text) is bool(told)


def test_a_review_forecasts_the_questions_of_the_study() -> None:
    found = _review(make_study("census", questions=["mean age", "mean height"]))
    text = _text(found, with_forecast=True)
    assert "  mean: age: age ± " in text
    assert "  mean: age: " not in _text(found)
    assert "mean: height: CANNOT BE ANSWERED: " in text


def _text(found: Any, *, with_forecast: bool = False) -> str:
    return review_text(_document(found, with_forecast=with_forecast))


@pytest.mark.parametrize(
    ("overlap", "epsilon", "says", "elsewhere"),
    [
        (False, "1", "is also at owner-2 or owner-3.", True),
        (True, "3", "sums of the owners'", False),
        ([["owner-1", "owner-3"]], "2", "owner-1 + owner-3", True),
    ],
    ids=["no overlap", "all", "a group"],
)
def test_a_review_prints_what_all_owners_together_cost_one_person(
    overlap: object, epsilon: str, says: str, elsewhere: bool
) -> None:
    owners = ["owner-1", "owner-2", "owner-3"]
    study = make_study("small", owners=owners, overlap=overlap)
    found = review(study, EMPTY, n_rows=1000, account=account_of())
    assert (found.federation.epsilon, found.federation.delta) == (epsilon, "0")
    text = _text(found)
    assert f"privacy loss is then at most epsilon {epsilon}, delta 0" in text
    assert says in text
    assert ("Nobody in these rows is also at owner-2" in text) == elsewhere
    assert "Nobody has more than one row here." in text


def test_a_review_says_which_codes_count_as_missing() -> None:
    own = binary_of("ill", ["no", "yes"], missing_values={"9": ""})
    schema = study_document([own, numeric_of("age", 0, 9), numeric_of("height", 0, 9)])["schema"]
    schema |= {"missing_values": {"-99": "refused", "98": ""}}
    found = review(make_study("small", schema=schema), EMPTY, n_rows=1000, account=account_of())
    words = ("9: ill", "-99 (refused), 98: age, height")
    assert _document(found).missing_values == words
    assert all(f"  counted as missing: {each}\n" in _text(found) for each in words)
    assert "counted as missing" not in _text(_review())


def test_a_review_names_all_in_whose_cells_rows_are_counted() -> None:
    document = json.loads(STUDY.canonical_bytes())
    attributes = document["schema"]["attributes"]
    numerics = [each for each in attributes if each["type"] == "numeric"]
    target = next(each["name"] for each in attributes if each["type"] == "binary")
    numerics[0]["histogram"] = True
    names = [numerics[0]["name"], target]
    document["schema"]["tables"] = [{"table": names, "cells": {names[0]: 5}}]
    document["schema"]["random_trees"] = {"count": 3, "leaves": 4, "target": target, "seed": 1}
    study = study_from_document(document)
    found = review(study, EMPTY, n_rows=1000, account=account_of())
    assert found.n_entries == STUDY.table.layout.n_entries + 40 + 5 * 2 + 3 * 4 * 2
    text = _text(found)
    assert "histogram of 40 cells\n" in text
    for named in (
        f"{names[0]} and {target} together (10 cells)",
        f"trees by {target} (12 leaves in 3)",
    ):
        assert f"the rows in each cell of {named}\n" in text
    assert "in each cell" not in _text(_review())


def test_a_review_names_every_attribute_with_what_counts_and_what_it_is_used_for() -> None:
    attributes = [
        numeric_of("age", 17, 90, integer=True, histogram=True),
        numeric_of("paid", 0, 5e6, score="log", bins=5, products="bins"),
        {"name": "seen", "type": "date", "lower": "2023-01-01", "upper": "2023-12-31"},
        {"name": "stage", "type": "ordinal", "levels": ["I", "II", "III"]},
        binary_of("ill", ["no", "yes"]),
        categorical_of("ward", [f"w{place}" for place in range(14)]),
    ]
    study = make_study(attributes, targets=["ill"], components={"contribution_rate": 0.9})
    found = review(study, EMPTY, n_rows=1000, account=account_of())
    text = _text(found)
    table = text.partition("attributes of data set")[2].splitlines()[2:8]
    assert [re.split("  +", line.strip()) for line in table] == [
        ["age", "whole number", "17 to 90", "histogram of 74 cells"],
        ["paid", "number, on a log scale", "0 to 5e+06", "products by its bins"],
        ["seen", "date", "2023-01-01 to 2023-12-31"],
        ["stage", "one of 3, in order", "I, II, III"],
        ["ill", "one of 2", "no, yes", "target"],
        ["ward", "one of 14", f"{', '.join(f'w{place}' for place in range(12))} and 2 more"],
    ]
    assert "the joint components with 0.9 of the variance" in text


def test_a_review_warns_where_the_noise_hides_relations() -> None:
    reviews = [replace(_review(), n_rows=n_rows) for n_rows in (20, 100_000)]
    texts = [_text(each, with_forecast=True).replace("\n  ", "\n") for each in reviews]
    few = _document(reviews[0], with_forecast=True).forecast
    assert few is not None
    assert few.relations is not None
    for each in few.widths:
        assert f"\n  {each.question}: {each.text}\n" in texts[0]
    assert "\n".join(few.relations.warning) in texts[0]
    assert "THE NOISE HIDES RELATIONS" in texts[0]
    assert "THE NOISE HIDES RELATIONS" not in texts[1]


@pytest.mark.parametrize(
    ("epsilons", "budget", "why"),
    [
        (
            ["0.5"],
            ("3", "1e-6"),
            "not by 0.5: costs of Gaussian noise add up to less than their sum",
        ),
        (["0.5", "0.5"], ("3", "1e-6"), "costs of Gaussian noise add up to less than their sum."),
        (
            ["0.5"],
            ("3", "1e-12"),
            "not by 0.5: the same noise costs more at the budget's delta, 0.0",
        ),
        (["0.5"], ("0.1", "1e-6"), None),
        (["0.5"], ("3", "0"), None),
    ],
)
def test_a_budget_that_does_not_fall_by_epsilon_says_why(
    epsilons: list[str], budget: tuple[str, str], why: str | None
) -> None:
    account = account_of(budget=Budget(*map(Decimal, budget)))
    kind = {"epsilon": epsilons[-1]}
    if budget[1] != "0":
        kind |= {"mechanism": "gaussian", "delta": "1e-9"}
    other = make_study("small", name="other", **kind)
    request = request_contribution(other, calibrate(other), account=account)
    earlier = [Reservation(1, "", bytes(16), request) for _ in epsilons[1:]]
    history = history_of(*earlier)
    found = review(make_study("small", **kind), history, n_rows=1000, account=account)
    document = _document(found)
    assert (document.budget_why is None) == (why is None)
    assert why is None or why in str(document.budget_why)
    assert ("The budget falls by" in review_text(document)) == (why is not None)


@pytest.mark.parametrize(
    ("budget", "said"),
    [("3", "It costs epsilon 1, once; 2 of 3 are left."), ("0.5", "does not cover.")],
)
def test_the_question_says_what_is_sent_and_what_it_costs_and_leaves(
    budget: str, said: str
) -> None:
    account = account_of(budget=Budget(Decimal(budget), Decimal(0)))
    asked = _document(review(STUDY, EMPTY, n_rows=1000, account=account)).question
    assert asked.startswith(
        f"Send {STUDY.table.layout.n_entries} noised numbers on 1,000 rows, 3 attributes, "
        "to the curator at hub:7443."
    )
    assert said in asked


@pytest.mark.parametrize("unit", ["row", "person"])
def test_a_secret_number_is_in_no_question_or_consent_and_marked_where_it_is_shown(
    unit: str,
) -> None:
    most = 1 if unit == "row" else None
    study = make_study("small", neighbours="added", unit=unit, max_rows_per_person=most)
    found = review(study, EMPTY, n_rows=4711, account=account_of()).with_read(4711, 4711)
    document = _document(found, with_forecast=True)
    counts = "rows" if unit == "row" else "people"
    assert (document.rows, document.secret_rows, document.counts) == (None, 4711, counts)
    facts = consent_facts(document)
    assert dict(facts)["From"].startswith(f"a secret number of {counts} of data set")
    assert f"on a secret number of {counts}, " in document.question
    assert not re.search("4,?711", document.question + str(facts))
    lines = [each for each in review_text(document).splitlines() if re.search("4,?711", each)]
    assert len(lines) == 1
    assert lines[0].endswith("Here it is 4711, which is site-only")
    public = _document(_review())
    assert (public.rows, public.secret_rows) == (1000, None)


def test_a_study_that_continues_another_says_what_both_cost_or_that_it_does_not_know() -> None:
    first = make_study("small", name="before", epsilon="0.5")
    made = study_document(
        [each.model_dump(mode="json") for each in first.table.attributes],
        name="after",
        epsilon="0.7",
        owners=list(first.owners),
        components=None,
        only_tables=True,
        tables=[{"table": [each.name for each in first.table.attributes[:2]]}],
        continues={"study": first.digest, "result": "0" * 64},
    )
    study = study_from_mapping(made)
    for known, epsilon in ((first, "1.2"), (None, "0.7")):
        found = review(study, EMPTY, n_rows=1000, account=account_of(), first=known)
        document = _document(found)
        assert (document.federation.epsilon, document.epsilon) == (epsilon, Decimal("0.7"))
        assert document.together_with == (None if known is None else "before")
        said = "together with study before, which it continues."
        if known is None:
            said = "of this study alone: the study that it continues is not known here, and its "
        assert f"at most epsilon {epsilon}, delta 0, {said}" in review_text(document)
        rows = dict(StudyHeader(study, first=known).rows())
        told = "together with study before" if known else "of this study alone"
        together = rows["One person, all owners together"]
        assert together == f"epsilon {epsilon}, delta 0, {told}"
    assert "alone" not in str(StudyHeader(first).rows())


def test_a_secret_number_is_where_a_review_says() -> None:
    """Tables alone have no entry of their own for it."""
    table = {"tables": [{"table": ["sex", "plan"]}], "neighbours": "added"}
    digests = {"study": "0" * 64, "result": "1" * 64}
    alone = {"only_tables": True, "components": None, "continues": digests}
    for more, where in (
        ({}, "it is one of these numbers"),
        (alone, "the cells of each table or tree add up to it"),
    ):
        for unit in ({}, {"unit": "person", "max_rows_per_person": None}):
            study = make_study("small", **table, **more, **unit)
            text = _text(replace(_review(study), people=70 if unit else None))
            counts = study.unit.counts
            assert f"the number of {counts}, with noise only: {where}. Here it is" in text
            assert f"also counted: the {counts} in each cell of sex and plan together" in text
