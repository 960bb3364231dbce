"""The sheets of a dossier: what an officer fills in, with what is known filled in.

A sheet is headings with *facts* and *questions*. A fact names the signed field that it is from. A
question is an open line: nobody signed an answer, and an answer of ours would be a lawyer's. No
sheet says that a law is met.

Sources of the headings: NIST SP 800-226, "Guidelines for Evaluating Differential Privacy
Guarantees" (March 2025), its pyramid from the most direct measures down to how data are collected;
Regulation (EU) 2016/679, article 35; Regulation (EU) 2025/327, articles 66 and 68, recital 77; 45
CFR 164.514(b)(1).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.verification.dossier.facts import Facts


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known: its name, text, and the place that it is from."""

    name: str
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class OpenLine:
    """What is not known, as an open line."""

    text: str


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with its facts and questions."""

    heading: str
    items: tuple[Fact | OpenLine, ...]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A page; ``whose`` says which text its headings follow."""

    title: str
    whose: str
    sections: tuple[Section, ...]
    origin: str


_NO_VERDICT = "It says what was done, and not that a law is met: that is for those who sign it."


def guarantee_sheet(facts: Facts) -> Sheet:
    """Return the sheet by the layers of NIST SP 800-226."""
    return Sheet(
        f"What {facts.title} promises",
        f"By the layers of NIST SP 800-226. {_NO_VERDICT}",
        (
            Section(
                "The most direct measures",
                (
                    _epsilon(facts),
                    _odds(facts),
                    Fact("Unit of privacy", f"{facts.unit}. {facts.adjacent}", "study, schema"),
                    OpenLine("Is a row, or a key, really one person's?"),
                ),
            ),
            Section(
                "What can undermine them",
                (
                    Fact("Mechanism", facts.noise, "receipt, mechanism"),
                    _unprotected(facts),
                    Fact("Trust", facts.trust, "study, privacy"),
                    Fact(
                        "Side channels",
                        "Noise is drawn in integers modulo 2^64. How long a site computes is not "
                        "hidden.",
                        "software",
                    ),
                    Fact(
                        "Security",
                        "TLS 1.3 with a certificate for each party; rows stay where they were.",
                        "software",
                    ),
                    OpenLine("Who can read the machines on which the rows lie?"),
                    OpenLine("Whom does the noise harm: which groups are too small?"),
                ),
            ),
            Section("How the rows were collected", (OpenLine("By whom, from whom, and how?"),)),
        ),
        facts.origin,
    )


def impact_sheet(facts: Facts) -> Sheet:
    """Return the annex to a data protection impact assessment."""
    reasons = [f"{name}: {why}" for name, _, why in facts.columns if why]
    silent = [name for name, _, why in facts.columns if not why]
    needed: list[Fact | OpenLine] = []
    if reasons:
        needed.append(Fact("Why each column", "; ".join(reasons), "schema, why"))
    if silent:
        needed.append(OpenLine(f"Why is it needed: {', '.join(silent)}?"))
    return Sheet(
        f"Annex to an impact assessment: {facts.title}",
        f"By Regulation (EU) 2016/679, article 35. {_NO_VERDICT}",
        (
            Section(
                "35(7)(a): the processing and its purposes",
                (
                    _purpose(facts),
                    Fact("What leaves", facts.product, "receipt, kind"),
                    Fact("Who takes part", facts.actors, "receipt, certificates"),
                    *_approval(facts),
                    OpenLine("Who is controller, and on which legal basis?"),
                ),
            ),
            Section(
                "35(7)(b): necessity and proportionality",
                (*needed, OpenLine("Could fewer columns, or coarser ones, do?")),
            ),
            Section(
                "35(7)(c): risks to people",
                (
                    _odds(facts),
                    _unprotected(facts),
                    OpenLine("How severe would it be for these people?"),
                ),
            ),
            Section(
                "35(7)(d): measures",
                (
                    _epsilon(facts),
                    Fact("Trust", facts.trust, "study, privacy"),
                    Fact("Budget", facts.composition, "software"),
                ),
            ),
            Section(
                "35(2), 35(9), 35(11): advice, views, review",
                (
                    OpenLine("Advice of the data protection officer, and its date:"),
                    OpenLine("Views of the people concerned, and their date:"),
                    OpenLine("Day of the next review:"),
                ),
            ),
        ),
        facts.origin,
    )


def export_sheet(facts: Facts) -> Sheet:
    """Return the annex for the check of an export by a health data access body."""
    return Sheet(
        f"Annex to an export check: {facts.title}",
        f"By Regulation (EU) 2025/327, articles 66 and 68 and recital 77. {_NO_VERDICT}",
        (
            Section(
                "Article 66: minimisation and purpose",
                (
                    _purpose(facts),
                    Fact(
                        "Columns",
                        "; ".join(
                            f"{name} ({why or 'why: open'})" for name, _, why in facts.columns
                        ),
                        "schema",
                    ),
                ),
            ),
            Section(
                "Article 68: permit",
                (*_approval(facts), OpenLine("Number of the permit, and until when it holds:")),
            ),
            Section(
                "Recital 77: what may be downloaded",
                (
                    Fact("What it is", facts.product, "receipt, kind"),
                    Fact("Rows of people", "None is in the file.", "receipt, kind"),
                    _epsilon(facts),
                    _unprotected(facts),
                    Fact("Check", facts.origin, "receipt"),
                    OpenLine("Does the body decide that it holds no personal data? Name, day:"),
                ),
            ),
        ),
        facts.origin,
    )


def expert_sheet(facts: Facts) -> Sheet:
    """Return the statement that an expert completes and signs."""
    return Sheet(
        f"Statement of method, risk and result: {facts.title}",
        "By 45 CFR 164.514(b)(1), for an expert to complete and sign. "
        "Nothing below is a determination.",
        (
            Section(
                "Methods",
                (
                    Fact("Mechanism", facts.noise, "receipt, mechanism"),
                    Fact("Unit", f"{facts.unit}. {facts.adjacent}", "study, schema"),
                ),
            ),
            Section(
                "Results",
                (
                    _epsilon(facts),
                    _odds(facts),
                    _unprotected(facts),
                ),
            ),
            Section(
                "To be completed",
                (
                    OpenLine("Anticipated recipients, and what else they can reasonably have:"),
                    OpenLine(
                        "Is the risk very small that they identify somebody? On which ground?"
                    ),
                    OpenLine("The expert's knowledge and experience:"),
                    OpenLine("Name, day, signature:"),
                ),
            ),
        ),
        facts.origin,
    )


SHEETS: Mapping[str, Callable[[Facts], Sheet]] = {
    "guarantee": guarantee_sheet,
    "impact-assessment": impact_sheet,
    "export-check": export_sheet,
    "expert-statement": expert_sheet,
}


def _epsilon(facts: Facts) -> Fact:
    epsilon, delta = decimal_text(facts.epsilon), decimal_text(facts.delta)
    text = f"epsilon {epsilon}, delta {delta}. {facts.parameters}"
    return Fact("Privacy loss of one person", text, "receipt, guarantee")


def _odds(facts: Facts) -> Fact:
    return Fact("As odds", facts.odds, "epsilon")


def _unprotected(facts: Facts) -> Fact:
    return Fact("Without noise", facts.unprotected, "receipt, releases")


def _purpose(facts: Facts) -> Fact:
    source = "answered" if facts.study.purpose is None else "study, purpose: its operator's words"
    return Fact("Purpose", facts.answers.texts["purpose"], source)


def _approval(facts: Facts) -> tuple[Fact | OpenLine, ...]:
    approval = facts.study.approval
    if approval is None:
        return (OpenLine("Who has approved it, and under which number?"),)
    return (Fact("Approval", approval, "study, approval: its operator's words"),)
