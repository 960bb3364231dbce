"""Findings of the self-test, and its report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, NotRequired, TypedDict

from dppca.common.kernel.documents.values import DecimalText


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


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check, with its figures."""

    check: Annotated[str, "what was looked at"]
    passed: Annotated[bool, "whether the promise held"]
    says: Annotated[str, "what was found, in words"]
    false_alarm: Annotated[float, "probability that the check fails where nothing is wrong"]
    figures: Annotated[Figures, "figures of the check"] = field(default_factory=Figures)
    release: Annotated[str, "kind of release whose noise was looked at; else empty"] = ""

    @classmethod
    def of_faults(cls, check: str, faults: list[str], otherwise: str) -> Finding:
        """Make the finding of a check that no honest installation fails."""
        return cls(check, not faults, "; ".join(faults) or otherwise, 0.0, {"faults": faults})


@dataclass(frozen=True, slots=True)
class SelfTest:
    """Findings of the audit of an installation."""

    quick: Annotated[bool, "whether the shorter test was run"]
    findings: Annotated[list[Finding], "one entry for each check"]
    seconds: Annotated[float, "time that the command took"]

    @property
    def audited(self) -> Annotated[list[str], "kinds of releases whose noise was looked at"]:
        """Kinds of releases whose noise was looked at, in the order of the checks."""
        return list(dict.fromkeys(each.release for each in self.findings if each.release))

    @property
    def passed(self) -> Annotated[bool, "whether every promise held"]:
        """Return True if every promise held."""
        return all(each.passed for each in self.findings)

    @property
    def false_alarm(self) -> Annotated[float, "probability that a sound installation fails"]:
        """Sum of the false-alarm probabilities over all checks."""
        return sum(each.false_alarm for each in self.findings)


def report_text(tested: SelfTest) -> str:
    """Return the report as text."""
    width = max(len(each.check) for each in tested.findings)
    verdict = (
        "Every promise that was tried held."
        if tested.passed
        else "A PROMISE IS BROKEN. Release nothing from this installation until it is understood."
    )
    return "\n".join(
        [
            *(
                f"{'ok    ' if each.passed else 'BROKEN'}  {each.check:{width}}  {each.says}"
                for each in tested.findings
            ),
            "",
            f"Releases that were audited: {'; '.join(tested.audited) or 'none'}.",
            f"{verdict} ({tested.seconds:.0f} s; a sound installation fails with "
            f"probability below {tested.false_alarm:.1g})",
        ]
    )
