"""The guarantee of a fitted estimator as a value: private attributes, figures, and the rest.

A paper's claims may not hold (``docs/explanation/privacy.md``), so a guarantee has separate fields:
``claimed_epsilon`` is the paper's figure for the whole estimator, ``epsilon`` holds for the
attributes named by ``private``, and ``not_private`` names the rest. An estimator may leave its site
only if its label is `Label.RELEASED`; with noise from any source other than the operating system's
it never has that label.

Limits: the user asserts that ``max_rows_per_person`` is right, and that the number of rows, the
columns and the set of classes are public; no software can check this. The figures of ``published``
variants are for real-valued noise, but the noise is drawn in floating point.
"""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import partial

from dppca.common.kernel.documents.tables import html_table
from dppca.common.kernel.privacy.accounting import PrivacyCost
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.sensitivity import Relation


class Variant(StrEnum):
    """Form of a method."""

    PUBLISHED = "published"
    """The paper's printed form, even if the paper's claim does not hold: benchmarks only."""
    SOUND = "sound"
    """A form whose privacy claim holds."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """Promise of a fitted estimator.

    Attributes
    ----------
    method, source
        The method's name, and the section of the paper that prints it.
    variant
        None for a method without noise.
    label
        Label of the fitted estimator as a whole.
    private
        Names of the fitted attributes that are differentially private; empty if none is.
    not_private
        The other attributes, and why; empty if everything is private.
    epsilon, delta
        Figures that hold for ``private``; None if no finite figure is known, or nothing is private.
    claimed_epsilon, claimed_delta
        The paper's claim for the whole estimator; None in sound variants and without noise.
    relation, max_rows_per_person
        Neighbouring tables. A paper's figures are for one row.
    sensitivity, sensitivity_of
        Sensitivity of the noise's calibration, in real units, and its quantity and norm. In
        ``published`` variants it is the paper's number, right or wrong.
    split
        Division of epsilon over several releases; empty if there is one.
    charge
        Cost for a ledger; None if nothing may leave.
    noise
        Calibrations of the integer noise that was drawn; empty in published variants.
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
        """Description in a few sentences for people."""
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
        """Table for notebooks: private attributes, figures, and the rest."""
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
"""The guarantee of a published form, with the one label it can have and figures for one row a
person."""


def _figures(epsilon: Decimal | None, delta: Decimal | None) -> str:
    if epsilon is None:
        return "no finite epsilon"
    return f"epsilon {epsilon}" + (f", delta {delta}" if delta else "")
