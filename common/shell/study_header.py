"""Header of a study: the facts that texts and pages say of it beside their own matter.

`FACTS` is the list. A fact of the promise that people should see everywhere is one more row, with
``in_texts``: commands then say it below the operator's words, and pages among the study's details.
Facts are computed when they are shown, since a calibration takes tens of milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from dppca.common.analysis.estimates.questions import question_words
from dppca.common.kernel.documents.amounts import spent_text
from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.privacy.composition import Round, compose_guarantee
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema.units import Person
from dppca.common.kernel.study import Study
from dppca.common.shell.study_words import exact_time, show_state


@dataclass(frozen=True)
class StudyHeader:
    """A study as each text and page shows it.

    ``state`` is None where it is not known or has no meaning; ``first`` is the study that this one
    continues, if it is known: one person's loss is by both.
    """

    study: Study
    state: StudyState | None = None
    first: Study | None = None

    @cached_property
    def cost(self) -> Calibration:
        """Noise of one owner's release."""
        return calibrate(self.study)

    def lines(self) -> list[str]:
        """Return lines of a terminal: the operator's words, then facts that texts show."""
        facts = ((each.name, each.of(self)) for each in FACTS if each.in_texts)
        return [*self.study.stated.lines(), *(f"{name}: {told}" for name, told in facts if told)]

    def rows(self) -> list[tuple[str, str]]:
        """Return names and values for a page, the study's name first, without empty values."""
        facts = ((each.name, each.of(self)) for each in FACTS)
        return [(name, told) for name, told in facts if told]


@dataclass(frozen=True, slots=True)
class HeaderFact:
    """A fact of a study, by its name for people; an empty text is not shown.

    ``in_texts`` is True if commands show it, too; it must then be empty for studies that an earlier
    version could make, whose texts stay.
    """

    name: str
    of: Callable[[StudyHeader], str]
    in_texts: bool = False


def _each_release(header: StudyHeader) -> str:
    return header.cost.price.claim_text


def _one_person(header: StudyHeader) -> str:
    study, first = header.study, header.first
    before = None if first is None else Round(first, calibrate(first))
    whole = compose_guarantee(study, header.cost, first=before)
    together = "" if first is None else f", together with study {first.name}"
    if study.continues is not None and first is None:
        together = ", of this study alone"
    return f"epsilon {spent_text(whole.epsilon)}, delta {whole.delta}{together}"


def _number_of_rows(header: StudyHeader) -> str:
    return "secret: it leaves with noise alone" if header.study.has_secret_rows else ""


def _people(header: StudyHeader) -> str:
    unit = header.study.unit
    return unit.text if isinstance(unit, Person) else ""


def _questions(header: StudyHeader) -> str:
    return "; ".join(question_words(each) for each in header.study.questions or ())


def _signatories(header: StudyHeader) -> str:
    pins = (header.study.signatories or {}).items()
    return "; ".join(f"{many(pin.needed, 'people')} of {owner}" for owner, pin in pins)


def _deadline(header: StudyHeader) -> str:
    return "" if header.study.deadline is None else exact_time(header.study.deadline)


FACTS = (
    HeaderFact("Study", lambda header: header.study.name),
    HeaderFact("State", lambda header: "" if header.state is None else show_state(header.state)),
    HeaderFact("Each owner's release", _each_release),
    HeaderFact("One person, all owners together", _one_person),
    HeaderFact("A person's rows", _people, in_texts=True),
    HeaderFact("Number of rows", _number_of_rows, in_texts=True),
    HeaderFact("It is to answer", _questions, in_texts=True),
    HeaderFact("Must be signed by", _signatories, in_texts=True),
    HeaderFact("Owners", lambda header: ", ".join(header.study.owners)),
    HeaderFact("Deadline", _deadline),
    HeaderFact("Trust", lambda header: header.study.trust.value),
    HeaderFact("Digest", lambda header: header.study.digest),
)
