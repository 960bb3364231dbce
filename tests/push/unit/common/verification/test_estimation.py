"""The command `estimate`, of sites and of curators, on files of version 0.1.0."""

from pathlib import Path

import click
import numpy as np
import pytest

from dppca.common.analysis.estimates.questions import QUESTIONS
from dppca.common.kernel.errors import AlteredError, ExitCode, SettingError
from dppca.common.shell.console import USAGE_EXIT_CODE
from dppca.curator.cli import cli as curator
from dppca.owner.cli import cli as owner
from tests.support.commands import answer_of, run_here
from tests.support.sites import make_trained_site
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
        ("ols", "sex=Male", "work", "--variance", "bound", "--adjust", "holm"),
        ("odds-ratio", "work=state", "sex=Male", "--against", "private"),
        ("share", "work=state", "--by", "sex"),
        ("logit", "sex", "work"),
        ("logit", "sex ~ work", "--log", "--adjust", "bonferroni"),
        ("marginal-effects", "sex", "work"),
        ("marginal-effects", "sex ~ work", "--adjust", "bonferroni"),
        ("components",),
        ("median", "age"),
        ("quantile", "age", "0.1", "0.9", "--adjust", "bonferroni"),
        ("iqr", "age"),
        ("sd", "age"),
        ("summary", "age", "sex", "--by", "work", "--format", "latex"),
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


def test_a_regression_says_its_terms_its_covariance_and_what_else_may_be_asked() -> None:
    asked = ("estimate", RESULT, "ols", "age", "sex", "work", *CA)
    _, document = answer_of("dppca-owner", owner, *asked)
    terms = [(each["attribute"], each["label"], each["against"]) for each in document["estimates"]]
    assert terms[0] == (None, None, None)
    assert terms[1] == ("sex", "Male", "Female")
    assert {each[2] for each in terms if each[0] == "work"} == {"private"}
    covariance = np.array(document["covariance"])
    np.testing.assert_allclose(
        np.sqrt(np.diag(covariance)), [each["bse"] for each in document["estimates"]], rtol=1e-9
    )
    np.testing.assert_allclose(covariance, covariance.T, rtol=1e-9)
    assert np.linalg.eigvalsh(covariance)[0] > 0
    assert abs(covariance[0, 1]) > 1e-3
    attributes = {each["name"]: each for each in document["attributes"]}
    assert (attributes["age"]["lower"], attributes["age"]["labels"]) == ("0", None)
    assert attributes["sex"]["labels"] == ["Female", "Male"]
    assert len(document["study_digest"]) == 64
    assert answer_of("dppca-owner", owner, *asked[:2], "mean", "age", *CA)[1]["covariance"] is None


def test_a_level_widens_and_narrows_the_interval() -> None:
    asked = ("estimate", RESULT, "mean", "age", *CA)
    widths = []
    for level in (None, "0.95", "0.5", "0.99"):
        more = () if level is None else ("--level", level)
        _, document = answer_of("dppca-owner", owner, *asked, *more)
        (found,) = document["estimates"]
        widths.append(found["high"] - found["low"])
        assert document["alpha"] == pytest.approx(1 - float(level or "0.95"))
    assert widths[0] == pytest.approx(widths[1])
    assert widths[2] < widths[1] < widths[3]
    assert run_here(owner, *asked, "--level", "1")[0] == USAGE_EXIT_CODE


def test_both_programs_say_the_same_and_again() -> None:
    asked = ("estimate", RESULT, "independence", "sex", "work", *CA)
    assert run_here(owner, *asked) == run_here(curator, *asked)


def test_without_an_authority_nobody_vouches() -> None:
    code, out, err = run_here(owner, "estimate", RESULT, "share", "sex", "--these-rows")
    assert code == ExitCode.UNVOUCHED
    assert "for these rows" in out
    assert "NOBODY VOUCHES" in err


def test_a_refusal_names_what_is_hidden_and_promises_nothing_where_a_strength_is_noise() -> None:
    code, out, _ = run_here(owner, "estimate", RESULT, "correlation", "age", "sex", *CA)
    assert code == 0
    assert "not estimable: the noise hides the variance of age" in out
    assert "would be enough" not in out


@pytest.mark.parametrize(
    ("question", "told"),
    [
        (("risk-difference", "age"), "adjusted, for `marginal-effects`"),
        (("percentile", "age"), "ask for `quantile`, such as `quantile age 0.9`"),
        (("regression", "sex", "age"), "ask for `ols` of a number, for `logit` of two labels"),
        (("survival", "age", "sex"), "counted no cells of age beside sex"),
        (("median", "work"), "work is not a number: ask for `share`"),
        (("median", "age", "--by", "sex"), "no cells of age beside sex: that needs a table of"),
        (("quantile", "age", "half"), "levels of a quantile are numbers such as 0.25, not half"),
        (("count", "sex"), "count: ask for `share`"),
        (("mean", "age", "--by", "sex", "--by", "work"), "is given 2 times (sex, work)"),
    ],
)
def test_a_question_that_has_no_answer_is_told_the_way_out(
    question: tuple[str, ...], told: str
) -> None:
    code, _, err = run_here(owner, "estimate", RESULT, *question, *CA)
    assert code in (USAGE_EXIT_CODE, SettingError.exit_code)
    assert told in " ".join(err.split())


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


def test_without_a_question_those_of_the_study_are_answered_together(tmp_path: Path) -> None:
    asked = ["logit ill ~ colour", "mean x0"]
    site, study = make_trained_site(tmp_path / "site", epsilon="100", questions=asked)
    result = site.folder / "studies" / study.name / "components.npz"
    code, document = answer_of("dppca-owner", owner, "--site", site.folder, "estimate", result)
    assert (code, document["questions"]) == (0, asked)
    first, second = document["answers"]
    assert len(first["estimates"]) == 3
    assert first["family"] == second["family"] == 4
    assert first["adjustment"] == "bonferroni"
    (together,), (alone,) = (
        second["estimates"],
        answer_of("dppca-owner", owner, "--site", site.folder, "estimate", result, "mean", "x0")[1][
            "estimates"
        ],
    )
    assert together["low"] < alone["low"] < alone["high"] < together["high"]
    for question, is_told in ((("mean", "x0"), False), (("mean", "x1"), True)):
        code, text, _ = run_here(owner, "--site", site.folder, "estimate", result, *question)
        assert ("it is exploratory: 1 interval in 20 misses" in " ".join(text.split())) == is_told
    code, text, _ = run_here(owner, "--site", site.folder, "estimate", result, "--adjust", "holm")
    assert "holm of all 4 of the study" in " ".join(text.split())
    wrong = run_here(owner, "--site", site.folder, "estimate", result, "--by", "ill")
    assert wrong[0] == USAGE_EXIT_CODE
    assert "--by belongs to a question: name one" in wrong[2]


def test_a_study_without_questions_says_that_it_has_none() -> None:
    code, _, err = run_here(owner, "estimate", RESULT, *CA)
    assert code == SettingError.exit_code
    assert "has no questions of its own: name one" in err


@pytest.mark.parametrize("program", [owner, curator])
def test_what_a_release_cannot_know_is_refused_in_words(program: click.Command) -> None:
    code, out, err = run_here(program, "estimate", RESULT, "logit", "sex ~ work:age", *CA)
    assert (code, out) == (SettingError.exit_code, "")
    assert "cannot be known from pairs: it needs a released table of work, age, sex" in err


@pytest.mark.parametrize(
    ("question", "why"),
    [(("table", "sex"), "takes 2 names or labels, not 1"), (("difference", "age"), "needs --by")],
)
def test_a_question_that_lacks_something_says_what(question: tuple[str, ...], why: str) -> None:
    code, _, err = run_here(owner, "estimate", RESULT, *question, *CA)
    assert code == USAGE_EXIT_CODE
    assert why in err


OPTIONS = {
    "by": ("sex",),
    "labels": ("Male", "Female"),
    "against": ("private",),
    "variance": ("sandwich",),
    "format": ("html",),
    "log": (),
}
NAMES = {
    **dict.fromkeys(("mean", "difference", "median", "quantile", "iqr", "sd"), ("age",)),
    **dict.fromkeys(("odds-ratio", "relative-risk"), ("sex=Male", "work=state")),
    **dict.fromkeys(("table", "independence", "survival"), ("sex", "work")),
    **dict.fromkeys(("correlation", "ols", "poisson"), ("age", "sex")),
    **dict.fromkeys(("logit", "marginal-effects"), ("sex", "work")),
    "share": ("work",),
    "components": (),
    "summary": (),
}
FOR = {
    "by": ["mean", "share", "difference", "median", "quantile", "sd", "iqr", "summary", "survival"],
    "format": ["summary"],
    "labels": ["difference"],
    "against": ["odds-ratio", "relative-risk"],
    "variance": ["ols"],
    "log": ["logit", "poisson"],
}


def test_the_help_lists_every_question_with_what_follows_it() -> None:
    code, out, _ = run_here(owner, "estimate", "--help")
    assert code == 0
    for name, question in QUESTIONS.items():
        assert f"\n    {name} {question.usage}".rstrip() + "\n" in out


def test_every_option_of_a_question_alone_is_known_here() -> None:
    shared = {
        "these_rows",
        "population",
        "level",
        "adjust",
        "first",
        "crl",
        "ca",
        "as_json",
        "help",
    }
    for program in (owner, curator):
        command = program.get_command(click.Context(program), "estimate")
        assert command is not None
        options = {each.name for each in command.params if isinstance(each, click.Option)}
        assert options - shared == set(OPTIONS)


@pytest.mark.parametrize(
    ("question", "option"),
    [(each, option) for each in QUESTIONS for option in OPTIONS if each not in FOR[option]],
)
def test_an_option_that_a_question_does_not_have_is_a_usage_error(
    question: str, option: str
) -> None:
    for program, name in ((owner, "dppca-owner"), (curator, "dppca-curator")):
        asked = ("estimate", RESULT, question, *NAMES[question], f"--{option}", *OPTIONS[option])
        code, out, err = run_here(program, *asked, *CA)
        assert (code, out) == (USAGE_EXIT_CODE, "")
        assert f"{question} takes no --{option}: it is for {', '.join(FOR[option])}" in err
        code, document = answer_of(name, program, *asked, *CA)
        assert code == USAGE_EXIT_CODE
        assert f"takes no --{option}" in document["error"]["message"]


def test_an_empty_option_is_none_that_was_left_out() -> None:
    code, _, err = run_here(owner, "estimate", RESULT, "table", "sex", "work", "--by", "", *CA)
    assert code == USAGE_EXIT_CODE
    assert "takes no --by" in err


@pytest.mark.parametrize("layout", ["html", "latex", "csv"])
def test_table_1_is_printed_as_asked(layout: str) -> None:
    starts = {"html": "<table>", "latex": r"\begin{tabular}", "csv": "variable,statistic,"}
    for program in (owner, curator):
        asked = ("estimate", RESULT, "summary", "--by", "sex", "--format", layout, *CA)
        code, out, _ = run_here(program, *asked)
        assert code == 0
        assert out.startswith(starts[layout])
