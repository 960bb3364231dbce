"""The command `estimate`, of sites and of curators, on files of version 0.1.0."""

from pathlib import Path

import click
import pytest

from dppca.common.kernel.errors import AlteredError, ExitCode
from dppca.curator.cli import cli as curator
from dppca.owner.cli import cli as owner
from tests.support.commands import answer_of, run_here
from tools.markdown import ROOT

EDITION = ROOT / "tests/golden/editions/0.1.0-owner"
RESULT = EDITION / "site/studies/edition/components.npz"
SECOND = EDITION / "site/studies/edition-second/components.npz"
CA = ("--ca", EDITION / "ca.pem")


@pytest.mark.parametrize(
    "question",
    [
        ("mean", "age"),
        ("mean", "age", "--by", "sex"),
        ("share", "work"),
        ("difference", "age", "--by", "work", "--labels", "state", "private"),
        ("table", "sex", "work"),
        ("independence", "sex", "work"),
        ("odds-ratio", "sex=Male", "work=state"),
        ("relative-risk", "work=state", "sex=Male", "--against", "private"),
        ("correlation", "age", "sex"),
        ("ols", "age", "sex", "work", "--adjust", "bonferroni"),
        ("components",),
    ],
    ids=" ".join,
)
def test_each_question_has_a_documented_answer(question: tuple[str, ...]) -> None:
    code, document = answer_of("dppca-owner", owner, "estimate", RESULT, *question, *CA)
    assert code == 0
    assert document["rows"] == 720
    assert document["estimates"]
    for each in document["estimates"]:
        assert (each["refusal"] is None) or each["estimate"] is None


def test_both_programs_say_the_same_and_again() -> None:
    asked = ("estimate", RESULT, "independence", "sex", "work", *CA)
    assert run_here(owner, *asked) == run_here(curator, *asked)


def test_without_an_authority_nobody_vouches() -> None:
    code, out, err = run_here(owner, "estimate", RESULT, "share", "sex", "--these-rows")
    assert code == ExitCode.UNVOUCHED
    assert "for these rows" in out
    assert "NOBODY VOUCHES" in err


def test_a_refusal_names_what_is_hidden_and_what_would_be_enough() -> None:
    code, out, _ = run_here(owner, "estimate", RESULT, "correlation", "age", "sex", *CA)
    assert code == 0
    assert "not estimable: the noise hides the variance of age" in out
    assert "would be enough" in out


def test_a_study_that_continues_another_is_read_with_its_first() -> None:
    code, _, err = run_here(owner, "estimate", SECOND, "share", "work", *CA)
    assert code != 0
    assert "did not count rows by work" in err
    code, document = answer_of(
        "dppca-owner", owner, "estimate", SECOND, "share", "work", "--first", RESULT, *CA
    )
    assert code == 0
    assert float(document["epsilon"]) > 2
    code, _, err = run_here(owner, "estimate", RESULT, "share", "work", "--first", SECOND, *CA)
    assert code != 0
    assert "does not continue" in err


@pytest.mark.parametrize("program", [owner, curator])
def test_a_file_that_was_altered_answers_nothing(program: click.Command, tmp_path: Path) -> None:
    content = bytearray(RESULT.read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "components.npz").write_bytes(content)
    envelope = next(RESULT.parent.glob("components.npz.*"))
    (tmp_path / envelope.name).write_bytes(envelope.read_bytes())
    code, out, _ = run_here(program, "estimate", tmp_path / "components.npz", "share", "sex", *CA)
    assert code == AlteredError.exit_code
    assert not out


@pytest.mark.parametrize(
    ("question", "why"),
    [(("table", "sex"), "takes 2 names or labels, not 1"), (("difference", "age"), "needs --by")],
)
def test_a_question_that_lacks_something_says_what(question: tuple[str, ...], why: str) -> None:
    code, _, err = run_here(owner, "estimate", RESULT, *question, *CA)
    assert code != 0
    assert why in err
