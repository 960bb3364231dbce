"""The lines at the end of a report ask what its result answers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dppca.common.analysis.estimates.face import estimates
from dppca.common.analysis.estimates.questions import QUESTIONS
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.schema import encode
from dppca.deploy.simulation.answers import list_answers
from tests.support.pooling import pooled_result
from tests.support.studies import binary_of, categorical_of, make_study, numeric_of

FALSE_ALARMS = 0.0  # the noise has a seed
ATTRIBUTES = [
    numeric_of("age", 0, 100),
    binary_of("sex", ["f", "m"]),
    binary_of("ill", ["no", "yes"]),
    categorical_of("stage", ["none", "early", "late"]),
]


def listed(
    n_rows: int,
    target: str | None,
    attributes: Sequence[dict[str, Any]] = ATTRIBUTES,
    **more: Any,
) -> tuple[Published, tuple[str, ...]]:
    study = make_study([*attributes], owners=["a"], epsilon="3", delta="1e-9", **more)
    rng = np.random.default_rng(1)
    columns = [
        rng.uniform(0, 100, n_rows)
        if each["type"] == "numeric"
        else rng.integers(0, 2, n_rows).astype(np.int32)
        for each in attributes
    ]
    rows = encode(
        study.table, [np.asarray(c, float if i == 0 else np.int32) for i, c in enumerate(columns)]
    )
    published = Published(study, pooled_result(study, [rows], seed=3))
    return published, list_answers(published, Path("out/a b.npz"), Path("ca.pem"), target)


def test_three_lines_ask_about_the_target_first() -> None:
    _, lines = listed(5000, "ill")
    before, after = "dppca-owner estimate 'out/a b.npz' ", " --ca ca.pem"
    asked = [line.removeprefix(before).removesuffix(after) for line in lines]
    assert asked == ["mean age", "share ill", "table ill sex"]
    _, lines = listed(5000, None)
    assert [line.removeprefix(before).removesuffix(after) for line in lines] == [
        "mean age",
        "share sex",
        "table sex ill",
    ]


def test_the_questions_of_the_study_are_answered_first() -> None:
    _, lines = listed(5000, "ill", questions=["mean age by sex"])
    assert lines[0] == "dppca-owner estimate 'out/a b.npz' --ca ca.pem"
    assert len(lines) == 3


@pytest.mark.parametrize(("n_rows", "third"), [(10, None), (5000, "correlation age weight")])
def test_no_line_asks_what_the_noise_hides(n_rows: int, third: str | None) -> None:
    numbers = [numeric_of("age", 0, 100), numeric_of("weight", 0, 100)]
    published, lines = listed(n_rows, None, [*numbers, ATTRIBUTES[1]])
    assert len(lines) == (2 if third is None else 3)
    assert third is None or third in lines[-1]
    face = estimates(published)
    for line in lines:
        question, *names = line.split("' ")[1].removesuffix(" --ca ca.pem").split()
        answer = QUESTIONS[question].ask(face, tuple(names), {})
        assert np.isfinite(answer.conf_int()).all(axis=1).any()
