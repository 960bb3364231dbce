"""What a fitted estimator promises, as a value: what is private, how far, and what is not.

The papers' claims and what holds are two different things (``docs/explanation/privacy.md``), so a
guarantee has a field for each: ``claimed_epsilon`` is what the paper prints for the whole
estimator, ``epsilon`` is what holds for the attributes named by ``private``, and ``not_private``
names the rest. An estimator may leave its site only if its label is `Label.RELEASED`; with noise
from any source but the operating system's it is never that.

Limits: that ``max_rows_per_person`` is right, and that the number of rows, the columns and the set
of classes are public, are assertions of the person who fits; no software can check them. The
figures of ``published`` variants are for real-valued noise; they are drawn in floating point.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import partial

from dppca.common.documents.tables import html_table
from dppca.common.privacy.accounting import PrivacyCost
from dppca.common.privacy.labels import Label
from dppca.common.privacy.mechanisms import Calibration
from dppca.common.privacy.sensitivity import Relation


class Variant(StrEnum):
    """Which form of a method runs."""

    PUBLISHED = "published"
    """As its paper prints it, whether or not the paper's claim holds: benchmarks only."""
    SOUND = "sound"
    """With a privacy claim that holds."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What a fitted estimator promises.

    Attributes
    ----------
    method, source
        The method's name, and the section of the paper that prints it.
    variant
        None for a method without noise.
    label
        Label of the fitted estimator as a whole.
    private
        What is differentially private: fitted attributes by name; empty if nothing is.
    not_private
        What is not, and why; empty if everything is private.
    epsilon, delta
        What holds for ``private``; None where no finite figure is known, or nothing is private.
    claimed_epsilon, claimed_delta
        What the paper claims for the whole estimator; None in sound variants and without noise.
    relation, max_rows_per_person
        Which tables are neighbours. A paper's figures are for one row.
    sensitivity, sensitivity_of
        Number the noise was calibrated to, in real units, and of what and in which norm. In
        ``published`` variants it is the paper's number, right or wrong.
    split
        How epsilon is divided over several releases; empty if there is one.
    charge
        What a ledger is to charge; None where nothing may leave.
    noise
        The laws of integer noise that were drawn from; empty in published variants.
    """

    method: str
    source: str
    variant: Variant | None
    label: Label
    private: str
    not_private: str
    max_rows_per_person: int
    epsilon: Decimal | None = None
    delta: Decimal | None = None
    claimed_epsilon: Decimal | None = None
    claimed_delta: Decimal | None = None
    relation: Relation = Relation.REPLACE_ONE
    sensitivity: float | None = None
    sensitivity_of: str = ""
    split: str = ""
    charge: PrivacyCost | None = None
    noise: tuple[Calibration, ...] = ()

    def __str__(self) -> str:
        """A few sentences for people."""
        variant = "" if self.variant is None else f", {self.variant}"
        lines = [f"{self.method}{variant} ({self.source}): {self.label}"]
        if self.private:
            lines.append(f"private: {self.private}: {_figures(self.epsilon, self.delta)}")
        if self.not_private:
            lines.append(f"not private: {self.not_private}")
        if self.claimed_epsilon is not None:
            claim = _figures(self.claimed_epsilon, self.claimed_delta)
            lines.append(f"claimed by the paper for the whole: {claim}")
        if self.split:
            lines.append(f"split: {self.split}")
        lines.append(
            f"neighbours: {self.relation}, {self.max_rows_per_person} row(s) per person; "
            f"sensitivity: {self.sensitivity_of or 'none'}"
        )
        return "\n  ".join(lines)

    def _repr_html_(self) -> str:
        """Notebooks show what is private, how far, and what is not."""
        facts = {
            "label": self.label.value,
            "private": self.private and f"{self.private}: {_figures(self.epsilon, self.delta)}",
            "not private": self.not_private,
            "claimed by the paper for the whole": ""
            if self.claimed_epsilon is None
            else _figures(self.claimed_epsilon, self.claimed_delta),
            "split": self.split,
            "neighbours": f"{self.relation}, {self.max_rows_per_person} row(s) per person",
            "sensitivity": self.sensitivity_of,
        }
        variant = "" if self.variant is None else f", {self.variant}"
        caption = f"{self.method}{variant} ({self.source})"
        rows = [(name, text) for name, text in facts.items() if text]
        return html_table((), rows, caption=caption)


promise_as_printed = partial(
    Guarantee, variant=Variant.PUBLISHED, label=Label.PUBLISHED_METHOD, max_rows_per_person=1
)
"""The guarantee of a published form: no label but this one, and figures for one row a person."""


def _figures(epsilon: Decimal | None, delta: Decimal | None) -> str:
    if epsilon is None:
        return "no finite epsilon"
    return f"epsilon {epsilon}" + (f", delta {delta}" if delta else "")
