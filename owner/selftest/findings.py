"""What a check of the self-test found, and how the whole is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


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
    figures: Mapping[str, Any] = field(default_factory=dict)

    def to_document(self) -> dict[str, Any]:
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
