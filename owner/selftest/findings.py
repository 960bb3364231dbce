"""What a check of the self-test found, and how the whole is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, NotRequired, TypedDict

from dppca.common.documents.values import DecimalText, Document


class Figures(TypedDict):
    """Figures of a check; each check has its own."""

    lower_bound: NotRequired[Annotated[float, "epsilon that is spent at least, with confidence"]]
    claimed: NotRequired[Annotated[float, "epsilon that is claimed"]]
    delta: NotRequired[Annotated[float, "delta that is claimed"]]
    releases: NotRequired[Annotated[int, "releases that were drawn"]]
    coordinates: NotRequired[Annotated[int, "coordinates of a release"]]
    wrong: NotRequired[
        Annotated[list[int], "numbers of the coordinates whose noise has another law"]
    ]
    distance: NotRequired[Annotated[float, "largest distance between the laws"]]
    limit: NotRequired[Annotated[float, "distance from which on a law counts as another one"]]
    correlation: NotRequired[Annotated[float, "largest correlation between coordinates"]]
    repeated: NotRequired[Annotated[int, "draws of noise that occurred twice"]]
    bits_taken: NotRequired[Annotated[float, "random bits that were used"]]
    bits_needed: NotRequired[Annotated[float, "random bits that the law needs"]]
    faults: NotRequired[Annotated[list[str], "what went wrong, in words"]]
    tries: NotRequired[Annotated[int, "attacks that were tried"]]
    failed: NotRequired[Annotated[int, "attacks that succeeded"]]
    answers: NotRequired[Annotated[int, "answers that were received"]]
    charged: NotRequired[Annotated[DecimalText, "epsilon that was charged"]]
    distinct: NotRequired[Annotated[int, "answers that differ"]]
    right: NotRequired[Annotated[int, "right guesses of the attacker"]]
    trials: NotRequired[Annotated[int, "guesses of the attacker"]]
    allowed: NotRequired[Annotated[float, "probability of a right guess that the guarantee allows"]]
    without_noise: NotRequired[Annotated[list[int], "numbers of the coordinates without noise"]]
    change: NotRequired[Annotated[int, "largest change of a count that one row made"]]
    claimed_change: NotRequired[Annotated[int, "largest change that is claimed"]]


class CheckedPromise(Figures):
    """One check, with its figures."""

    check: Annotated[str, "what was looked at"]
    passed: Annotated[bool, "whether the promise held"]
    says: Annotated[str, "what was found, in words"]
    false_alarm: Annotated[float, "probability that the check fails where nothing is wrong"]


class SelfTestDocument(Document):
    """What the audit of an installation found."""

    quick: Annotated[bool, "whether the shorter test was run"]
    passed: Annotated[bool, "whether every promise held"]
    false_alarm: Annotated[float, "probability that a sound installation fails"]
    findings: Annotated[list[CheckedPromise], "one entry for each check"]
    seconds: Annotated[float, "time that the command took"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One check.

    Attributes
    ----------
    check
        What was looked at, in a few words.
    passed
        Whether the promise held.
    says
        One sentence, with the figures.
    false_alarm
        Most likely the check is to fail where nothing is wrong; 0 where it cannot.
    figures
        For the JSON document.
    """

    check: str
    passed: bool
    says: str
    false_alarm: float
    figures: Figures = field(default_factory=Figures)

    def to_document(self) -> CheckedPromise:
        """As JSON."""
        return {
            "check": self.check,
            "passed": self.passed,
            "says": self.says,
            "false_alarm": self.false_alarm,
            **self.figures,
        }


def passed(findings: Sequence[Finding]) -> bool:
    """Whether every promise held."""
    return all(finding.passed for finding in findings)


def report_text(findings: Sequence[Finding], *, seconds: float) -> str:
    """The plain report."""
    width = max(len(finding.check) for finding in findings)
    lines = [
        f"{'ok    ' if each.passed else 'BROKEN'}  {each.check:{width}}  {each.says}"
        for each in findings
    ]
    chance = sum(finding.false_alarm for finding in findings)
    verdict = (
        "Every promise that was tried held."
        if passed(findings)
        else "A PROMISE IS BROKEN. Release nothing from this installation until it is understood."
    )
    return "\n".join(
        [
            *lines,
            "",
            f"{verdict} ({seconds:.0f} s; an honest installation is accused with probability "
            f"below {chance:.1g})",
        ]
    )
