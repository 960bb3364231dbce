"""List of a site's studies, each with its cost, its deadline and the steward's next step."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Literal

from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.documents.stated import quoted_lines
from dppca.common.kernel.documents.values import DigestText
from dppca.common.kernel.durable.clock import duration_text
from dppca.common.shell.study_words import other_owners, show_state
from dppca.owner.release.next_step import NextStep
from dppca.owner.site.study_answers import AnswerKind


class Group(StrEnum):
    """Whom a study waits for, as a heading of the list."""

    YOU = "Waits for you"
    OTHERS = "Waits for others"
    RESULTS = "Results"
    ENDED = "Ended"


@dataclass(frozen=True, slots=True)
class Badge:
    """State of a study for a site."""

    group: Annotated[Group, "whom it waits for"]
    words: Annotated[str, "its state, in two or three words"]
    kind: Annotated[Literal["good", "wait", "bad", "idle"], "how it is meant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnStudy:
    """Study of the curator that names this site."""

    name: Annotated[str, "name of the study"]
    title: Annotated[str | None, "its title, in its operator's words; null without one"] = None
    digest: Annotated[DigestText, "digest of the study"]
    state: Annotated[StudyState, "state of the study"]
    contributions: Annotated[int, "contributions that the curator holds"]
    owners: Annotated[int, "owners that the study names"]
    contributed: Annotated[bool, "whether the curator holds one of this site"]
    deadline: Annotated[datetime | None, "when it stops waiting for owners; null for never"] = None
    seconds_left: Annotated[int | None, "until then, 0 once it has passed; null for never"] = None
    waits_for: Annotated[str | None, "for whom it waits, in words; null for nobody"] = None
    until: Annotated[
        datetime | None, "until when it waits for them: owners or openers; null for no limit"
    ] = None
    epsilon: Annotated[Decimal | None, "epsilon that a contribution costs this site"] = None
    delta: Annotated[Decimal | None, "its delta; null, as epsilon, if the study is refused"] = None
    badge: Annotated[Badge, "where it stands for this site, in short"]
    next: Annotated[str, "what to do now, in words"]


@dataclass(frozen=True, slots=True)
class OwnStudies:
    """Studies of the curator that name this site, newest first."""

    curator: Annotated[str, "`HOST:PORT` of the curator"]
    studies: Annotated[Sequence[OwnStudy], "one entry for each"]


@dataclass(frozen=True, slots=True)
class Standing:
    """State of a site in a study.

    Attributes
    ----------
    is_held
        True if the curator holds a contribution of this site.
    step
        Next step of a contribution, by the ledger.
    is_over
        True if the deadline has passed.
    opens
        True if this site is an opener that has not opened yet.
    has_components
        True if the components are here.
    uncovered
        Reason why policy.yaml does not cover it, before a charge; empty if it does.
    answer
        What the steward has answered in place of contributing; None without an answer.
    """

    state: StudyState
    is_held: bool
    step: NextStep
    is_over: bool = False
    opens: bool = False
    has_components: bool = False
    uncovered: str = ""
    answer: AnswerKind | None = None

    @property
    def may_contribute(self) -> bool:
        """True if a contribution may still be made, or made again."""
        return (
            self.state is StudyState.OPEN
            and not self.is_held
            and not (
                self.step is NextStep.NOTHING or (self.is_over and self.step is not NextStep.SEND)
            )
        )

    @property
    def badge(self) -> Badge:
        """Whom the study waits for, in two or three words."""
        if self.state is StudyState.ABORTED:
            return Badge(Group.ENDED, "ended", "bad")
        if self.state in (StudyState.DECOMPOSED, StudyState.CLOSED):
            # A list opens no result, so it does not say whether anything was found.
            return Badge(
                Group.RESULTS, "result here" if self.has_components else "result ready", "idle"
            )
        if self.state is StudyState.SEALED:
            if self.opens:
                return Badge(Group.YOU, "waits for you to open", "wait")
            return Badge(Group.OTHERS, "waits for openers", "idle")
        if not self.may_contribute:
            late = self.is_over and not self.is_held
            return Badge(Group.OTHERS, "too late" if late else "waits for others", "idle")
        if self.step is not NextStep.RESERVE:
            return Badge(Group.YOU, "charged, not sent", "bad")
        if self.answer == "declined":
            return Badge(Group.ENDED, "declined", "idle")
        if self.uncovered:
            return Badge(Group.YOU, "not covered", "bad")
        if self.answer == "later":
            return Badge(Group.YOU, "not now", "idle")
        return Badge(Group.YOU, "waits for you", "wait")


def advise(name: str, standing: Standing) -> str:
    """Return advice to a steward on a study: a command and its purpose, or the reason to wait."""
    if standing.state is StudyState.ABORTED:
        return f"nothing: it was aborted; `dppca-owner components {name}` says why"
    if standing.is_held and standing.step is NextStep.RESERVE:
        return "`dppca-owner doctor`: the curator holds a contribution that this ledger lacks"
    if standing.state is StudyState.OPEN:
        return _advise_open(name, standing)
    if standing.state is StudyState.SEALED:
        if standing.opens:
            return f"`dppca-owner open {name}`: look at what would be opened, as one of its openers"
        return "nothing: it waits for its openers"
    if not standing.has_components:
        return f"`dppca-owner components {name}`: look at what came out"
    if standing.state is StudyState.DECOMPOSED:
        return f"`dppca-owner synthesize {name}`: draw synthetic rows; `report` compares them"
    return "nothing: it is closed, and its components are here"


def _advise_open(name: str, standing: Standing) -> str:
    if standing.is_held or standing.step is NextStep.NOTHING:
        return "nothing: it waits for other owners" + (
            "; come back to open it" if standing.opens else ""
        )
    if standing.step is NextStep.SEND:
        return f"`dppca-owner contribute {name}`: it is charged and drawn, and not known to be sent"
    if standing.is_over:
        return "nothing: its deadline has passed by this site's clock"
    if standing.step is NextStep.DRAW:
        return f"`dppca-owner contribute {name}`: it is charged and not drawn (no further charge)"
    if standing.answer == "declined":
        return f"nothing: this site has declined; `dppca-owner review {name}` shows it all the same"
    if standing.uncovered:
        return f"nothing, it is not covered: {standing.uncovered}"
    return f"`dppca-owner review {name}`: look at what would leave; `contribute` sends it"


def waiting_text(standing: Standing, missing: int) -> str | None:
    """Return for whom a study waits, seen from a site; None where it waits for nobody.

    ``missing`` owners, of all, have not contributed.
    """
    if standing.state is StudyState.SEALED:
        return "you, to open the sum" if standing.opens else "its openers"
    if standing.state is not StudyState.OPEN or standing.is_over or not missing:
        return None
    if standing.is_held:
        return other_owners(missing)
    return f"you and {other_owners(missing - 1)}" if missing > 1 else "you"


def due_studies(found: OwnStudies, by: datetime) -> OwnStudies:
    """Return the studies that wait for this site, and wait until a time at most."""
    due = [
        each
        for each in found.studies
        if each.badge.group is Group.YOU and each.until is not None and each.until <= by
    ]
    return OwnStudies(found.curator, due)


def studies_text(found: OwnStudies) -> str:
    """Return the list, with some lines for each study."""
    if not found.studies:
        return f"No study of the curator at {found.curator} names this site."
    return "\n".join(line for each in found.studies for line in _lines(each))


def _lines(study: OwnStudy) -> list[str]:
    cost = "cost not known"
    if study.epsilon is not None:
        cost = f"epsilon {decimal_text(study.epsilon)}"
    if study.delta:
        cost += f", delta {decimal_text(study.delta)}"
    return [
        f"{study.name}: {show_state(study.state)}, {study.contributions} of "
        f"{many(study.owners, 'contributions')}, {cost}, {_until(study)}",
        *quoted_lines({"title": study.title} if study.title else {}),
        *([f"  waits for {study.waits_for}"] if study.waits_for else []),
        *_next_lines(study.next),
    ]


def _next_lines(advice: str) -> list[str]:
    """Return advice with its command, if it begins with one, on a line to paste."""
    command, colon, why = advice.partition("`: ")
    if not colon or not command.startswith("`"):
        return [f"  next: {advice}"]
    return [f"  next: {command[1:]}", f"        {why}"]


def _until(study: OwnStudy) -> str:
    left, deadline = study.seconds_left, study.deadline
    if left is None or deadline is None:
        return "no deadline"
    standing = f"{duration_text(timedelta(seconds=left))} left" if left else "passed"
    return f"deadline {deadline:%Y-%m-%d %H:%M} UTC ({standing})"
