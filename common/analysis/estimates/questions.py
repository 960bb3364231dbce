"""Questions that a result answers, by name; and those that a study asks, each in one line.

A line is what follows RESULT on a command line of ``estimate``, with ``by``, ``against``,
``labels`` and ``variance`` as words: ``median age by sex``, ``logit ill ~ age + sex``. Names with
blanks stand in quotes.

Nothing here loads NumPy, so that pages of help and texts before consent stay fast.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from dppca.common.kernel.errors import SettingError

if TYPE_CHECKING:
    from dppca.common.analysis.estimates.answers import EstimateAnswer
    from dppca.common.analysis.estimates.face import Estimates
    from dppca.common.analysis.estimates.formula import Term

_WORDS: Final = {"by": 1, "against": 1, "variance": 1, "labels": 2}
"""Words of a line that are options, with the number of words that follow each."""

_OF_PRINT: Final = frozenset({"log", "format"})  # options that ask nothing else
_OF_FORMULAS: Final = frozenset({"logit", "marginal-effects", "poisson"})


@dataclass(frozen=True, slots=True)
class Question:
    """A question of ``fewest`` to ``most`` names; None is any number.

    ``words`` say what it is, and ``usage`` what follows it on a command line. ``options`` are those
    that it has beside the ones of every question. Intervals of ``ratios`` are even in logarithms.
    """

    words: str
    usage: str
    fewest: int
    most: int | None
    ask: Callable[[Estimates, tuple[str, ...], dict[str, Any]], EstimateAnswer]
    options: tuple[str, ...] = ()
    ratios: bool = False


QUESTIONS: Mapping[str, Question] = MappingProxyType(
    {
        "mean": Question(
            "mean",
            "NUMBER [--by ATTRIBUTE]",
            1,
            1,
            lambda asked, names, more: asked.mean(names[0], **more),
            ("by",),
        ),
        "share": Question(
            "share",
            "ATTRIBUTE[=LABEL] [--by ATTRIBUTE]",
            1,
            1,
            lambda asked, names, more: asked.proportion(names[0], **more),
            ("by",),
        ),
        "difference": Question(
            "difference",
            "NAME --by ATTRIBUTE",
            1,
            1,
            lambda asked, names, more: asked.difference(names[0], **more),
            ("by", "labels"),
        ),
        "table": Question(
            "table", "ATTRIBUTE ATTRIBUTE", 2, 2, lambda asked, names, _: asked.table(*names)
        ),
        "independence": Question(
            "test of independence",
            "ATTRIBUTE ATTRIBUTE",
            2,
            2,
            lambda asked, names, _: asked.independence(*names),
        ),
        "odds-ratio": Question(
            "odds ratio",
            "LABEL LABEL",
            2,
            2,
            lambda asked, names, more: asked.odds_ratio(*names, **more),
            ("against",),
            ratios=True,
        ),
        "relative-risk": Question(
            "relative risk",
            "LABEL LABEL",
            2,
            2,
            lambda asked, names, more: asked.relative_risk(*names, **more),
            ("against",),
            ratios=True,
        ),
        "correlation": Question(
            "correlation",
            "NAME NAME ...",
            2,
            None,
            lambda asked, names, _: asked.correlation(*names),
        ),
        "ols": Question(
            "linear regression",
            "OUTCOME NAME ...",
            2,
            None,
            lambda asked, names, more: asked.ols(names[0], names[1:], **more),
            ("variance",),
        ),
        "logit": Question(
            "adjusted odds ratios",
            "OUTCOME NAME ... | 'OUTCOME ~ NAME + NAME:NAME'",
            1,
            None,
            lambda asked, names, more: asked.logit(names[0], names[1:] or None, **more),
            ("log",),
            ratios=True,
        ),
        "marginal-effects": Question(
            "adjusted differences of a share",
            "OUTCOME NAME ... | 'OUTCOME ~ NAME + NAME:NAME'",
            1,
            None,
            lambda asked, names, _: asked.marginal_effects(names[0], names[1:] or None),
        ),
        "poisson": Question(
            "adjusted ratios of means",
            "COUNT NAME ... | 'COUNT ~ NAME + NAME'",
            1,
            None,
            lambda asked, names, more: asked.poisson(names[0], names[1:] or None, **more),
            ("log",),
            ratios=True,
        ),
        "median": Question(
            "median",
            "NUMBER [--by ATTRIBUTE]",
            1,
            1,
            lambda asked, names, more: asked.median(names[0], **more),
            ("by",),
        ),
        "quantile": Question(
            "quantiles",
            "NUMBER [LEVEL ...] [--by ATTRIBUTE]",
            1,
            None,
            lambda asked, names, more: asked.quantile(names[0], *_levels(names[1:]), **more),
            ("by",),
        ),
        "sd": Question(
            "standard deviation",
            "NUMBER [--by ATTRIBUTE]",
            1,
            1,
            lambda asked, names, more: asked.sd(names[0], **more),
            ("by",),
        ),
        "iqr": Question(
            "interquartile range",
            "NUMBER [--by ATTRIBUTE]",
            1,
            1,
            lambda asked, names, more: asked.iqr(names[0], **more),
            ("by",),
        ),
        "summary": Question(
            "Table 1",
            "[NAME ...] [--by ATTRIBUTE] [--format FORMAT]",
            0,
            None,
            lambda asked, names, more: asked.summary(*names, by=more.get("by")),
            ("by", "format"),
        ),
        "survival": Question(
            "survival",
            "TIME EVENT [--by ATTRIBUTE]",
            2,
            2,
            lambda asked, names, more: asked.survival(*names, **more),
            ("by",),
        ),
        "components": Question("components", "", 0, 0, lambda asked, _, __: asked.components()),
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class StudyQuestion:
    """A question of a study."""

    line: str
    kind: str
    names: tuple[str, ...]
    options: Mapping[str, Any]

    @property
    def words(self) -> str:
        """What it asks, for people."""
        rest = self.line.partition(" ")[2]
        return QUESTIONS[self.kind].words + (rest and f": {rest}")

    @property
    def is_of_ratios(self) -> bool:
        """Whether its intervals are even in logarithms."""
        return QUESTIONS[self.kind].ratios

    @property
    def asks(self) -> tuple[str, tuple[str | Term, ...], frozenset[tuple[str, Any]]]:
        """What it asks, however it is written."""
        from dppca.common.analysis.estimates.formula import read_formula

        names: tuple[str | Term, ...] = self.names
        if self.kind in _OF_FORMULAS:
            outcome, terms = read_formula(self.names[0], self.names[1:] or None)
            names = (outcome, *terms)
        options = {each for each in self.options.items() if each[0] not in _OF_PRINT}
        return self.kind, names, frozenset(options)

    def ask(self, asked: Estimates, **more: Any) -> EstimateAnswer:
        """Answer it; `SettingError` says what the study did not release."""
        from dppca.common.analysis.estimates.answers import as_registered

        answer = QUESTIONS[self.kind].ask(asked, self.names, {**self.options, **more})
        own = asked.moments.study.questions or ()
        if any(self.asks == read_question(each).asks for each in own):
            return as_registered(answer)
        return answer


def read_question(line: str) -> StudyQuestion:
    """Read a line; `SettingError` if it is no question."""
    try:
        kind, *rest = shlex.split(line)
    except ValueError as error:
        raise SettingError(f"{line}: a quotation mark has no partner") from error
    if kind not in QUESTIONS:
        raise SettingError(f"{kind} is no question: {', '.join(QUESTIONS)}")
    options: dict[str, Any] = {}
    while found := [
        word
        for word, size in _WORDS.items()
        if word in QUESTIONS[kind].options and rest[-size - 1 : -size] == [word]
    ]:
        values = rest[-_WORDS[found[0]] :]
        options[found[0]] = tuple(values) if len(values) > 1 else values[0]
        del rest[-len(values) - 1 :]
    names = (" ".join(rest),) if "~" in rest else tuple(rest)
    if wrong := usage_fault(kind, names, options):
        raise SettingError(f"{line}: {wrong}")
    return StudyQuestion(line, kind, names, options)


def answer_study(
    asked: Estimates,
    method: Literal["bonferroni", "holm"] = "bonferroni",
    *,
    alpha: float = 0.05,
    ask: Callable[[Estimates, StudyQuestion], EstimateAnswer] = lambda asked, one: one.ask(asked),
) -> list[EstimateAnswer]:
    """Answer the study's own questions, adjusted for all of them; none where it has none."""
    from dppca.common.analysis.estimates.answers import as_family

    own = map(read_question, asked.moments.study.questions or ())
    return as_family([replace(ask(asked, each), alpha=alpha) for each in own], method)


def question_words(line: str) -> str:
    """Return what a line asks, for people; the line itself where it is no question known here."""
    try:
        return read_question(line).words
    except SettingError:
        return line


def usage_fault(kind: str, names: Collection[str], given: Collection[str]) -> str:
    """Return what is wrong with the names and options of a question; empty if nothing is."""
    question = QUESTIONS[kind]
    fewest, most = question.fewest, question.most
    if len(names) < fewest or (most is not None and len(names) > most):
        wanted = f"{fewest}" if most == fewest else f"{fewest} or more"
        return f"{kind} takes {wanted} names or labels, not {len(names)}"
    for option in given:
        if option not in question.options:
            takers = [each for each, one in QUESTIONS.items() if option in one.options]
            return f"{kind} takes no --{option}: it is for {', '.join(takers)}"
    if kind == "difference" and "by" not in given:
        return "a difference needs --by, the attribute of the two groups"
    return ""


def _levels(texts: tuple[str, ...]) -> list[float]:
    try:
        return [float(each) for each in texts]
    except ValueError:
        raise SettingError(
            f"levels of a quantile are numbers such as 0.25, not {' '.join(texts)}"
        ) from None
