"""Intervals of estimates cover what they say, over releases with the real calibration and noise.

All seeds are fixed, so a test says the same every time.
"""

import gzip
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.studies import NLTCS_COLUMNS, adult, nltcs, parse_rows
from dppca.common.analysis.estimates.face import Estimates
from dppca.common.kernel.moments.moments import compute_moments
from dppca.common.kernel.schema import ColumnKind, encode
from tests.support.coverage import (
    PEOPLE,
    QUESTIONS,
    Cell,
    Question,
    Releases,
    Tally,
    coded_people,
    people,
    pooled,
    tally,
)
from tests.support.studies import binary_of, categorical_of

FALSE_ALARMS = 0.0  # all noise has a seed
RELEASES = 400
CELLS = [
    Cell(law, trust, owners, epsilon)
    for law, trust, owners, epsilon in product(
        ("gaussian", "laplace"), ("owner", "aggregate"), (3, 10), ("0.5", "1", "3")
    )
]
_ENOUGH = 300  # given answers of a cell, whose share then has a deviation of .013


def _require(cells: Sequence[dict[str, Tally]]) -> None:
    for name in cells[0]:
        each = [found[name] for found in cells]
        assert all(one.share >= 0.89 for one in each if one.given >= _ENOUGH), name
        assert 0.935 <= pooled(each).share <= 0.99, name


def _tallies(these_rows: bool, count: int = RELEASES) -> list[dict[str, Tally]]:
    found = []
    for seed, cell in enumerate(CELLS):
        study = cell.study(PEOPLE)
        releases = Releases(study, coded_people(study), seed=seed)
        found.append(tally(releases, QUESTIONS, count=count, these_rows=these_rows))
    return found


@pytest.mark.parametrize("these_rows", [False, True])
def test_intervals_cover_a_population_and_its_rows(these_rows: bool) -> None:
    _require(_tallies(these_rows, RELEASES if not these_rows else RELEASES // 4))


@pytest.mark.parametrize(
    ("trust", "changes"),
    [
        ("aggregate", {}),
        ("owner", {"neighbours": "added", "sum_weight": 1.0, "max_rows": 10**9}),
        ("owner", {"targets": ["ill", "score"], "target_weight": 2}),
    ],
    ids=["masked", "rows added", "targets"],
)
def test_intervals_cover_under_noise_of_a_whole_release(
    trust: str, changes: dict[str, Any]
) -> None:
    # `docs/evidence/matrix-noise.json` has 400 releases of ten cells.
    study = Cell("matrix-laplace", trust, 3, "1").study(PEOPLE, **changes)
    releases = Releases(study, coded_people(study))
    found = tally(releases, QUESTIONS, count=100, these_rows=False)
    assert all(each.share >= 0.85 for each in found.values() if each.given >= 100)
    assert 0.93 <= pooled(list(found.values())).share <= 0.985


def test_intervals_cover_with_heavy_squares_and_with_halved_products() -> None:
    cell, found = Cell("gaussian", "owner", 3, "0.5"), []
    heavy = cell.study(PEOPLE, square_weight=4)
    names = ("mean", "difference of means", "correlation", "regression")
    questions = {name: QUESTIONS[name] for name in names}
    found.append(tally(Releases(heavy, coded_people(heavy)), questions, count=300, these_rows=True))
    ball = cell.study(
        [
            {"name": name, "type": "numeric", "centre": centre, "scale": scale}
            for name, centre, scale in (("age", 45, 100), ("years", 10, 20), ("score", 50, 60))
        ],
        row_norm={"halved_products": True},
    )
    rows = encode(ball.table, people()[:3])
    questions = {
        "mean": lambda e: e.mean("score"),
        "correlation": lambda e: e.correlation("age", "score"),
        "regression": lambda e: e.ols("score", ["age", "years"]),
    }
    found.append(tally(Releases(ball, rows), questions, count=300, these_rows=True))
    for cells in found:
        _require([cells])


def test_answers_about_a_number_that_rows_lack_are_of_the_rows_that_have_it() -> None:
    """More people of one sex lack their score."""
    asked: dict[str, Question] = {
        "mean": lambda e: e.mean("score"),
        "group mean": lambda e: e.mean("score", by="region"),
        "difference": lambda e: e.difference("score", "sex"),
        "share": lambda e: e.mean("score=missing", by="sex"),
        "regressor": lambda e: e.ols("ill", ["score", "sex"]),
    }
    attributes = [
        {**each, "missing": "indicator"} if each["name"] == "score" else each for each in PEOPLE
    ]
    rows = people()
    lacks = np.random.default_rng(6).random(len(rows[0])) < 0.1 + 0.2 * rows[3]
    rows[2] = np.where(lacks, np.nan, rows[2])
    found = []
    for seed, cell in enumerate(CELLS[1::3]):
        study = cell.study(attributes)
        releases = Releases(study, encode(study.table, rows), seed=seed)
        found.append(tally(releases, asked, count=100, these_rows=False))
    for name in asked:
        assert 0.92 <= pooled([each[name] for each in found]).share <= 0.99, name


def test_a_test_of_independence_has_its_size() -> None:
    """Of attributes that are drawn from different rows."""
    pairs = [("sex", "job"), ("region", "sex"), ("ill", "job")]
    values = []
    for seed, cell in enumerate(CELLS):
        study = cell.study(PEOPLE)
        releases = Releases(study, coded_people(study), seed=seed)
        for _, noised in releases.draw(40, apart=([3], [4], [5, 6, 7, 8])):
            asked = Estimates(releases.moments(noised, n_rows=releases.rows))
            values += [asked.independence(*pair).pvalues[0] for pair in pairs]
    assert 0.04 <= np.mean(np.array(values) <= 0.05) <= 0.065


@pytest.fixture(scope="module")
def tables(data_folder: Path) -> dict[str, tuple[list[dict[str, Any]], list[list[str]]]]:
    """Attributes and rows of three real tables."""
    census, survey = adult(data_folder), nltcs(data_folder)
    wanted = ("age", "education_num", "hours_per_week", "sex", "income", "race", "marital_status")
    places = [place for place, each in enumerate(census.attributes) if each["name"] in wanted]
    with gzip.open(data_folder / "mushrooms" / "agaricus-lepiota.data.gz", "rt") as file:
        fungi = [line.strip().split(",") for line in file]
    kept = {"edible": 0, "bruises": 4, "odour": 5, "gill": 8, "stalk": 10, "ring": 19}
    labels = {name: sorted({row[place] for row in fungi}) for name, place in kept.items()}
    return {
        "adult": (
            [census.attributes[place] for place in places],
            [[row[place] for place in places] for row in census.rows],
        ),
        "nltcs": (survey.attributes, survey.rows),
        "mushrooms": (
            [
                binary_of(name, each) if len(each) == 2 else categorical_of(name, each)
                for name, each in labels.items()
            ],
            [[row[place] for place in kept.values()] for row in fungi],
        ),
    }


def _releases(
    cell: Cell, table: tuple[list[dict[str, Any]], list[list[str]]], *, seed: int = 0
) -> Releases:
    study = cell.study(table[0])
    return Releases(study, encode(study.table, parse_rows(study.table, table[1])), seed=seed)


_FITS: dict[str, tuple[str, list[list[str]]]] = {
    "adult": (
        "hours_per_week",
        [
            ["age", "education_num", "sex"],
            ["sex", "income"],
            ["age", "education_num", "sex", "income", "race"],
            ["age", "sex", "marital_status", "race"],
        ],
    ),
    "nltcs": (NLTCS_COLUMNS[0], [list(NLTCS_COLUMNS[1:k]) for k in (4, 8, 16)]),
    "mushrooms": ("edible", [["bruises", "ring"], ["gill", "bruises", "stalk"], ["odour", "gill"]]),
}


@pytest.mark.parametrize("name", sorted(_FITS))
def test_regressions_and_correlations_of_real_rows_have_the_noise_that_is_said(
    tables: dict[str, Any], name: str
) -> None:
    outcome, fits = _FITS[name]
    columns = {"adult": ("age", "hours_per_week", "income"), "nltcs": NLTCS_COLUMNS[:4]}
    asked: dict[str, Question] = {
        "regression": lambda e: e.ols(outcome, fits[0]),
        "correlation": lambda e: e.correlation(*columns.get(name, ("edible", "bruises", "gill=n"))),
    }
    found = []
    for seed, cell in enumerate(CELLS[::3]):
        releases = _releases(replace(cell, epsilon="3" if seed % 2 else "1"), tables[name])
        found.append(tally(releases, asked, count=150, these_rows=True))
    for each in asked:
        parts = [one[each] for one in found]
        assert all(one.share >= 0.89 for one in parts if one.given >= _ENOUGH), each
        assert 0.93 <= pooled(parts).share <= 0.99, each


def test_weak_fits_have_no_end_or_no_answer_and_strong_ones_have_both(
    tables: dict[str, Any],
) -> None:
    """By the weakest true strength of a regressor, given the others."""
    refused = {"weak": [0, 0], "strong": [0, 0]}
    for name, (outcome, fits) in _FITS.items():
        for epsilon, owners in (("0.5", 10), ("1", 3), ("3", 3), ("8", 3)):
            releases = _releases(Cell("gaussian", "owner", owners, epsilon), tables[name])
            truth = compute_moments(releases.population, releases.study.table.layout)
            asked = Estimates(releases.moments(truth.packed, n_rows=truth.n_rows))
            kinds = [_kind(asked, x) for x in fits]
            for _, noised in releases.draw(30):
                other = Estimates(releases.moments(noised, n_rows=releases.rows))
                for x, kind in zip(fits, kinds, strict=True):
                    if kind is not None:
                        answer = other.ols(outcome, x, reference=_largest(asked, x))
                        refused[kind][0] += not np.isfinite(answer.conf_int()).all()
                        refused[kind][1] += 1
    assert min(asked for _, asked in refused.values()) > 100
    assert refused["weak"][0] >= 0.94 * refused["weak"][1]
    assert refused["strong"][0] <= 0.05 * refused["strong"][1]


def _largest(asked: Estimates, x: list[str]) -> dict[str, str]:
    """The true largest label of each attribute, whichever a release finds the largest."""
    found = {}
    for name in x:
        names = asked.moments.names
        if names.kind(names.attribute(name)) is ColumnKind.INDICATOR:
            shares = asked.proportion(name)
            found[name] = shares.names[int(np.argmax(shares.params))].partition("=")[2]
    return found


def _kind(asked: Estimates, x: list[str]) -> str | None:
    weakest = min(asked.strengths(x, reference=_largest(asked, x)).values())
    return "weak" if weakest < 2 else "strong" if weakest >= 8 else None
