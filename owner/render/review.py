"""The document that a steward consents to, and its text; the page shows the same document.

It is what `review` prints, what `contribute` asks about, and what the page shows: what leaves, of
which attributes, for whom, at what cost, and what is left.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from typing import Annotated

from dppca.common.analysis.estimates.reasons import RuledOut, describe_ruled_out, ruled_out
from dppca.common.analysis.estimators.relations import Relations, judge_relations, relations_lines
from dppca.common.analysis.outlook import Outlook, look_ahead
from dppca.common.kernel.documents.amounts import Whole, decimal_text, left_text, spent_text
from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.documents.stated import WHOSE, Stated, quoted_lines
from dppca.common.kernel.documents.tables import text_table
from dppca.common.kernel.documents.values import DigestText, TimeText
from dppca.common.kernel.errors import DppcaError
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.privacy.collusion import foresee_collusion
from dppca.common.kernel.privacy.composition import ComposedGuarantee, describe_overlap
from dppca.common.kernel.privacy.promises import Promise
from dppca.common.kernel.schema.units import LimitedRows
from dppca.common.kernel.study import Study
from dppca.common.shell.missing_values import describe_missing
from dppca.common.shell.study_header import StudyHeader
from dppca.common.shell.study_words import other_owners, waits_for_ever
from dppca.owner.records.faults import CheckReport, KeyReport
from dppca.owner.release.contribution import BudgetStatus, Review
from dppca.owner.release.dialogue import Outline, outline_release
from dppca.owner.release.next_step import NextStep
from dppca.owner.render.asked import (
    ReviewedAttribute,
    ReviewedEntries,
    describe_attributes,
    describe_components,
    describe_entries,
    entries_text,
    number_of_all,
)
from dppca.owner.render.charges import ChargedCost, explain_fall, standing_lines
from dppca.owner.render.faults import alarm_lines, counts_line, counts_text, mapping_lines
from dppca.owner.site.agreement import Agreement
from dppca.owner.site.config import Site
from dppca.owner.site.policy import DataSet

_NEXT = {
    NextStep.RESERVE: "charge it, draw the noise, and send",
    NextStep.DRAW: "charged already; an earlier attempt stopped before it sent anything: draw "
    "and send, at no further charge",
    NextStep.NOTHING: "do nothing: the curator holds a release, which was recovered or disowned",
    NextStep.SEND: "charged and stored already: send the same bytes again, at no further charge",
}


class Regrown(StrEnum):
    """Whether a study's trees are those that its rows and its seed give."""

    SAME = "same"
    DIFFERENT = "different"
    UNCHECKED = "unchecked"


_GROWN = {
    Regrown.SAME: "the trees were grown again on the file of rows: they are the same",
    Regrown.DIFFERENT: "THE TREES ARE DIFFERENT from those that the file of rows gives: ask the "
    "operator how they were chosen",
    Regrown.UNCHECKED: "the trees were not compared: give the file of rows with --grown-on",
}
_MASKED = (
    "They leave masked: only the sum over all owners can be read, once the openers have answered."
)
_OTHERWISE = (
    "CHANGED: for study {} this data set was read by another mapping, one_hot or format, so that "
    "numbers of the two studies may not mean the same"
)
_MOST_NAMED = 4  # owners in a sentence; of more, their number
_MOST_LABELS = 12  # of an attribute that are shown


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedAggregate:
    """Owners that make a masked sum, and the parties that it is protected against."""

    quorum: Annotated[int, "least number of owners in the sum"]
    colluders: Annotated[int, "owners that may work together with the curator"]
    honest: Annotated[int, "owners, this one among them, that must not work with the curator"]
    openers: Annotated[tuple[str, ...], "owners that take the masks away, once, after the deadline"]
    spares: Annotated[int, "openers that may never come back"]
    open_by: Annotated[TimeText, "when the study stops waiting for openers"]
    epsilon_one_more: Annotated[
        Decimal | None, "epsilon if one more owner colludes; null: less than promised"
    ]
    epsilon_all_others: Annotated[
        Decimal | None, "epsilon if all other owners collude; null: no protection"
    ]
    keys_verified: Annotated[bool, "whether the keys of all owners are verified"]
    unverified: Annotated[tuple[str, ...], "owners whose keys are not"]
    more: Annotated[str | None, "what is left if more owners collude, in words"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast(Outlook):
    """What the noise will leave, and of relations in synthetic rows."""

    relations: Annotated[
        Relations | None,
        "whether synthetic rows will show relations; null for unit-ball rows or one attribute",
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewDocument(ChargedCost):
    """Content and cost of a contribution before it is made."""

    study: Annotated[str, "name of the study"]
    stated: Annotated[Stated, "what it is for, in its operator's words"]
    digest: Annotated[DigestText, "digest of the study"]
    state: Annotated[StudyState, "state of the study"]
    data_set: Annotated[str, "data set that it would be computed from"]
    rows: Annotated[
        int | None, "number that leaves exactly: rows of the data set, or people; null if secret"
    ]
    secret_rows: Annotated[
        int | None, "site-only: the number that leaves with noise only; null if it is not secret"
    ]
    counts: Annotated[str, "what it counts: `rows`, or `people` where all rows of one weigh as one"]
    entries: Annotated[int, "noised sums that would leave"]
    kinds: Annotated[tuple[ReviewedEntries, ...], "what they are: every kind, with its count"]
    bytes: Annotated[int, "their size"]
    attributes: Annotated[tuple[ReviewedAttribute, ...], "those that it is computed from, all"]
    missing_values: Annotated[
        tuple[str, ...], "codes that count as missing, and of which attributes, in words"
    ]
    tables: Annotated[tuple[str, ...], "tables and trees in whose cells rows are counted"]
    curator: Annotated[str, "`HOST:PORT` of the curator, who gets it"]
    owners: Annotated[tuple[str, ...], "owners of the study, who get the components"]
    components: Annotated[str, "what comes out, in words"]
    deadline: Annotated[TimeText | None, "when the study stops waiting for owners; null for never"]
    mechanism: Annotated[str, "noise: name of its law, such as `laplace`"]
    nominal_epsilon: Annotated[Decimal | None, "the study's epsilon where the charge differs"]
    federation: Annotated[ComposedGuarantee, "the guarantee over all owners"]
    together_with: Annotated[
        str | None,
        "study that this one continues, whose cost is in `federation`, too; null if there is none, "
        "or its document is not known here",
    ]
    overlap: Annotated[str | None, "who may have rows at several owners; null for nobody"]
    asserted: Annotated[tuple[str, ...], "what the steward asserts: no software can check it"]
    question: Annotated[str, "what is asked, at what cost, in two sentences"]
    aggregate: Annotated[ReviewedAggregate | None, "with trust: aggregate; null else"]
    relation: Annotated[str, "which tables are neighbours"]
    max_rows_per_person: Annotated[
        int | None, "most rows of one person that are protected; null if any number is"
    ]
    parameters: Annotated[dict[str, Whole], "integers of the noise's law, in integer units"]
    resolution_bits: Annotated[int, "binary digits of a coded value"]
    budget: Annotated[BudgetStatus, "the population's lifetime budget"]
    budget_why: Annotated[
        str | None, "why the budget falls by another amount than epsilon; null where it does not"
    ]
    next: Annotated[NextStep, "what `contribute` would do next, where it is not refused"]
    continues: Annotated[bool, "whether it continues a study that was published"]
    forecast: Annotated[
        Forecast | None,
        "what may be found; null for a study that continues another, no row, or if unasked; "
        "site-only if `secret_rows` is not null",
    ]
    grown: Annotated[
        Regrown | None,
        "whether the trees are those that their file of rows gives; null if none were grown",
    ]
    read_otherwise: Annotated[
        str | None,
        "study of the data set's last release, if its cells were read in another way (mapping, "
        "one_hot, format); null if they were not, or there is none",
    ]
    refused: Annotated[
        str | None, "why `contribute` would refuse it, all reasons; null if it would not"
    ]
    coded_by_rule: Annotated[CheckReport, "values that coding replaced (site-only)"]
    ruled_out: Annotated[
        tuple[RuledOut, ...], "questions that no result of the study can answer, and why"
    ] = ()


def _review_aggregate(found: Review, agreement: Agreement) -> ReviewedAggregate:
    """Return the owners of a masked contribution, and its protection against collusion."""
    terms, study = agreement.terms, found.study
    against = foresee_collusion(study, found.calibration)
    return ReviewedAggregate(
        quorum=terms.quorum,
        colluders=terms.colluders,
        honest=terms.honest,
        openers=tuple(terms.openers),
        spares=terms.spares,
        open_by="" if study.open_by is None else study.open_by.isoformat(),
        epsilon_one_more=None if against is None else against.one_more,
        epsilon_all_others=None if against is None else against.all_others,
        keys_verified=agreement.is_verified,
        unverified=agreement.unknown,
        more=None if against is None else against.words,
    )


@dataclass(frozen=True)
class ContributionPreview:
    """Information for a steward before consent.

    Attributes
    ----------
    moments, counted
        Sums and counts of the rows that were read; site-only.
    agreement
        Agreement on the keys of a study with ``trust: aggregate``; else None.
    refusals
        All reasons why `contribute` would refuse it.
    grown
        Whether the study's trees are those of its file of rows; None if none were grown.
    is_live
        True if others may write to the rows.
    """

    site: Site
    study: Study
    state: StudyState
    review: Review
    moments: Moments
    data_set: DataSet
    counted: CheckReport
    agreement: Agreement | None = None
    refusals: tuple[DppcaError, ...] = ()
    grown: Regrown | None = None
    is_live: bool = False

    @property
    def outline(self) -> Outline:
        """Outline of the contribution (`ReleaseOffer`), with the number of rows that were read."""
        return outline_contribution(self.review, is_live=self.is_live)

    @property
    def n_counted(self) -> int:
        """Number that the study counts, of rows or people; site-only where it is secret."""
        counted = self.review.n_counted
        return self.moments.n_rows if counted is None else counted

    @property
    def alarms(self) -> list[str]:
        """See `ReleaseOffer`."""
        return alarm_lines(self.counted)

    def private(self) -> bytes:
        """Return the sums of the rows (`ReleaseOffer`)."""
        return self.moments.packed.tobytes()

    def text(self) -> str:
        """Return the document as text, and what was counted (`ReleaseOffer`)."""
        document = review_text(self.document(), refusals=[*map(str, self.refusals)])
        lines = (*self.header.lines(), document, counts_text(self.counted), self.study.stated.gap())
        return "\n".join(filter(None, lines))

    def question(self) -> str:
        """Return what is asked and asserted (`ReleaseOffer`)."""
        relations = self._relations
        hidden = () if relations is None else relations.warning[:1]
        return "\n".join((self._asked(), *hidden, "Contribute this?"))

    def brief(self) -> str:
        """Return what was agreed to beforehand (`ReleaseOffer`)."""
        return f"{self._asked()}\n{counts_line(self.counted, self.study.name)}"

    @property
    def header(self) -> StudyHeader:
        """Header of the study."""
        return StudyHeader(self.study, self.state, self.review.first)

    def _asked(self) -> str:
        asked = self.without_forecast
        asserted = f"You assert: {' '.join(asked.asserted)}"
        lines = (*self.header.lines(), asked.question, asserted, self.study.stated.gap())
        return "\n".join(filter(None, lines))

    @cached_property
    def _relations(self) -> Relations | None:
        if self.study.continues is not None or self.n_counted == 0:
            return None
        owner_rows = [self.n_counted] * len(self.study.owners)
        return judge_relations(self.study, self.review.calibration, owner_rows=owner_rows)

    @cached_property
    def forecast(self) -> Forecast | None:
        """Forecast of what may be found, from the study and the number of rows alone."""
        found = look_ahead(self.study, self.review.calibration, n_rows=self.n_counted)
        if found is None:
            return None
        given = {each.name: getattr(found, each.name) for each in fields(found)}
        return Forecast(**given, relations=self._relations)

    def document(self) -> ReviewDocument:
        """Return the document that ``review --json`` prints."""
        return replace(self.without_forecast, forecast=self.forecast)

    @cached_property
    def without_forecast(self) -> ReviewDocument:
        """The same before the forecast, which takes seconds; made once."""
        study, found, noise = self.study, self.review, self.review.calibration
        n, is_secret = self.n_counted, self.study.has_secret_rows
        return ReviewDocument(
            study=study.name,
            stated=study.stated,
            digest=study.digest,
            state=self.state,
            data_set=found.request.data_set,
            rows=None if is_secret else n,
            secret_rows=n if is_secret else None,
            counts=study.unit.counts,
            entries=found.n_entries,
            kinds=describe_entries(study),
            bytes=found.n_bytes,
            attributes=describe_attributes(study.table),
            missing_values=describe_missing(study.table.attributes),
            tables=study.table.counted,
            curator=self.site.curator,
            owners=study.owners,
            components=describe_components(study),
            deadline=None if study.deadline is None else study.deadline.isoformat(),
            mechanism=found.request.mechanism,
            **found.request.price.amounts(),
            nominal_epsilon=noise.nominal,
            federation=found.federation,
            together_with=None if found.first is None else found.first.name,
            overlap=describe_overlap(study) if study.overlap else None,
            asserted=_list_assertions(study, self.site.name, self.counted.key),
            question=_question(self.site, found, None if is_secret else n),
            aggregate=None if self.agreement is None else _review_aggregate(found, self.agreement),
            relation=noise.sensitivity.relation.value,
            max_rows_per_person=noise.max_rows_per_person,
            parameters={**noise.law.parameters()},
            resolution_bits=noise.sensitivity.resolution_bits,
            budget=found.budget_status,
            budget_why=explain_fall(found.budget_status, found.request.price.epsilon),
            next=found.step,
            continues=study.continues is not None,
            forecast=None,
            grown=self.grown,
            read_otherwise=found.read_otherwise,
            refused="; ".join(map(str, self.refusals)) or None,
            ruled_out=ruled_out(study.table),
            coded_by_rule=self.counted,
        )


def outline_contribution(found: Review, *, is_live: bool) -> Outline:
    """Return the outline of a contribution; ``is_live`` says that others may write to its rows."""
    return outline_release(
        found.study,
        found.request,
        found.budget_status,
        found.step,
        look=f"look at `dppca-owner review {found.study.name}`",
        numbers=found.n_entries,
        n_rows=found.n_rows,
        is_live=is_live,
    )


def _list_assertions(study: Study, site: str, key: KeyReport | None) -> tuple[str, ...]:
    """Return what a site's steward asserts of the rows, each as a sentence."""
    groups = () if isinstance(study.overlap, bool) else study.overlap
    own = next((group for group in groups if site in group), (site,))
    others = () if study.overlap is True else [name for name in study.owners if name not in own]
    where = f"any of the {len(others)} other owners"
    if len(others) <= _MOST_NAMED:
        where = " or ".join(filter(None, (", ".join(others[:-1]), *others[-1:])))
    told = "Each person has one key here."
    if isinstance(study.unit, LimitedRows):
        most = study.unit.most
        told = f"Nobody has more than {'one row' if most == 1 else f'{most} rows'} here."
    if key is not None and not key.missing:
        told = f"{told[:-1]}: each {key.column} is one person."
    return (
        *((f"Nobody in these rows is also at {where}.",) if others else ()),
        *((told,) if key is None or key.is_kept else ()),
    )


def _under_promise(budget: BudgetStatus) -> str:
    """Return what a release adds to what is spent; costs of Gaussian noise add up to less."""
    before, after = budget.spent_before, budget.spent_after
    return spent_text(None if before is None or after is None else after - before)


def _number(rows: int | None, counts: str) -> str:
    """Return how many rows or people, as it may be kept and printed; None is secret."""
    return f"a secret number of {counts}" if rows is None else many(rows, counts, ",")


def _question(site: Site, found: Review, n: int | None) -> str:
    """Return what would be sent, and what it costs and leaves; ``n`` is None if secret."""
    budget = found.budget_status
    ask = (
        f"Send {found.n_entries:,} noised numbers on {_number(n, found.study.unit.counts)}, "
        f"{many(len(found.study.table.attributes), 'attributes')}, "
        f"to the curator at {site.curator}."
    )
    if found.step is not NextStep.RESERVE:
        return f"{ask} It is already charged and costs nothing more."
    cost = f"It costs epsilon {decimal_text(found.request.price.epsilon)}, once"
    if not budget.admitted:
        return f"{ask} {cost}, which the lifetime budget does not cover."
    if found.request.replaced is not None and budget.promise is not Promise.PEOPLE_ADDED:
        cost += f", and under the budget's promise, {budget.promise}, {_under_promise(budget)}"
    left = f"{left_text(budget.remaining_after)} of {decimal_text(budget.epsilon)}"
    return f"{ask} {cost}; {left} are left. It cannot be taken back."


def consent_facts(found: ReviewDocument) -> list[tuple[str, str]]:
    """Return what a consent is kept of: names and words."""
    budget, whole = found.budget, found.federation
    masked = "" if found.aggregate is None else f". {_MASKED}"
    facts = [
        (
            "What leaves, once",
            f"{found.entries:,} noised numbers and no row: {entries_text(found.kinds)}{masked}",
        ),
        ("From", f"{_number(found.rows, found.counts)} of data set {found.data_set}"),
        ("To", f"the curator at {found.curator}"),
        ("What comes out", f"{found.components}, for {', '.join(found.owners)}"),
        ("Costs", f"ε {decimal_text(found.epsilon)}, δ {decimal_text(found.delta)}, once"),
        ("Of", budget.population + (f" ({budget.who})" if budget.who else "")),
    ]
    if found.stated.undecided:
        facts.append(("Not said by the operator", ", ".join(found.stated.undecided)))
    if found.coded_by_rule.mapping:
        facts.append(("Where attributes come from", "; ".join(found.coded_by_rule.mapping)))
    if found.read_otherwise is not None:
        facts.append(("Note", _OTHERWISE.format(found.read_otherwise)))
    if budget.remaining_after is not None:
        left = f"ε {left_text(budget.remaining_after)} of {decimal_text(budget.epsilon)}"
        facts.append(("Left afterwards", left))
    together = f"ε {spent_text(whole.epsilon)}, δ {whole.delta}, by {found.mechanism} noise"
    return [*facts, ("One person, all owners together", f"{together}{_together(found)}")]


def _where_counted(found: ReviewDocument) -> str:
    """Return where a secret number is in what leaves."""
    if any(each.what == number_of_all(found.counts) for each in found.kinds):
        return "it is one of these numbers"
    return "the cells of each table or tree add up to it"


def review_text(document: ReviewDocument, *, refusals: Sequence[str] = ()) -> str:
    """Return what is asked, of which attributes, for whom and at what cost; then the rest."""
    found, owners = document, ", ".join(document.owners)
    rows = [
        (each.name, each.kind, _shown(each.values), ", ".join(each.used_for))
        for each in found.attributes
    ]
    names = ("attribute", "what it is", "values that count", "also for")
    without = f"no deadline: {waits_for_ever(found.study)}"
    answer = without if found.deadline is None else f"answer by {found.deadline}"
    more = (
        [
            "  they continue a published study: synthetic rows are made of both, and the costs of "
            "both add up for each person"
        ]
        if found.continues
        else []
    )
    masked = [] if found.aggregate is None else [f"  {_MASKED}"]
    words = {each.name: each.words for each in found.attributes if each.words}
    relation = found.coded_by_rule.relation
    table = f", the table {relation}" if relation else ""
    lines = [
        f"Study {found.study} ({found.state.value}), requested by the curator at {found.curator}; "
        f"{answer}",
        "",
        "What leaves this site, once:",
        f"  {found.entries:,} noised numbers and no row ({found.bytes:,} bytes):",
        *(f"    {each.count:,} {each.what}" for each in found.kinds),
        *more,
        *([] if found.grown is None else [f"  {_GROWN[found.grown]}"]),
        *masked,
        f"  the number of {found.counts}, with noise only: {_where_counted(found)}. Here it is "
        f"{found.secret_rows}, which is site-only"
        if found.rows is None
        else f"  the number of {found.counts}, {found.rows}, exactly",
        "  a receipt of the guarantee; the length and last hash of this site's ledger",
        f"From {many(len(found.attributes), 'attributes')} of data set {found.data_set}{table}:",
        *(f"  {line}" for line in text_table(names, rows, width=None)),
        *(f"  counted as missing: {each}" for each in found.missing_values),
        *([f"  {WHOSE.lower()}:"] if words else []),
        *quoted_lines(words),
        *(f"  also counted: the {found.counts} in each cell of {each}" for each in found.tables),
        *mapping_lines(found.coded_by_rule),
        *([] if found.read_otherwise is None else [f"  {_OTHERWISE.format(found.read_otherwise)}"]),
        *map(describe_ruled_out, found.ruled_out),
        f"The curator adds up what all owners send. The result, {found.components}, "
        f"goes to {owners}.",
        "What it costs:",
        f"  {found.mechanism} noise; charged: epsilon {decimal_text(found.epsilon)}, "
        f"delta {decimal_text(found.delta)}",
        *standing_lines(found.budget, found.epsilon),
        "You assert this, because no software can check it:",
        *(f"  {each}" for each in found.asserted),
        f"Over all owners together, one person's privacy loss is then at most epsilon "
        f"{spent_text(found.federation.epsilon)}, delta {found.federation.delta}"
        f"{_together(found)}.",
        *([] if found.overlap is None else [f"  {found.overlap}"]),
        *([] if found.aggregate is None else _aggregate_lines(found, found.aggregate)),
    ]
    if found.forecast is not None:
        lines += _forecast_lines(found, found.forecast)
    if refusals:
        lines += ["Next: nothing. `contribute` would refuse:", *(f"  {each}" for each in refusals)]
    else:
        lines.append(f"`contribute` would: {_NEXT[found.next]}")
    return "\n".join(map(one_line, lines))


def _together(found: ReviewDocument) -> str:
    """Return whose costs a federation's guarantee counts, for a study that continues another."""
    if not found.continues:
        return ""
    if found.together_with is None:
        return (
            ", of this study alone: the study that it continues is not known here, and its cost "
            "adds to this"
        )
    return f", together with study {found.together_with}, which it continues"


def _shown(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - _MOST_LABELS} more" if len(labels) > _MOST_LABELS else ""
    return ", ".join(labels[:_MOST_LABELS]) + more


def _aggregate_lines(document: ReviewDocument, terms: ReviewedAggregate) -> list[str]:
    """Return lines on the protection, its conditions, and the figures if more owners collude."""
    spares = f", {terms.spares} of whom may never come back" if terms.spares else ""
    return [
        "Against whom (trust: aggregate):",
        f"  epsilon {decimal_text(document.epsilon)}, delta {decimal_text(document.delta)} against "
        f"the curator together with any {other_owners(terms.colluders)}, as long as "
        f"{terms.honest} owners, this one among them, run this software",
        *([] if terms.more is None else [f"  {terms.more}"]),
        "  computational: it rests on X25519 or ML-KEM-768, on AES-256, HKDF-SHA256 and ECDSA "
        "P-256",
        f"  openers, who come back once by {terms.open_by}: {', '.join(terms.openers)}{spares}",
        "  the keys of all owners are verified (peers.yaml)"
        if terms.keys_verified
        else f"  NOT VERIFIED: the keys of {', '.join(terms.unverified)}. `contribute` needs "
        "--digest, 64 digits, from another owner's steward; not from the curator or its operator",
        "  digest of the document that this site received; read it to other owners' stewards, who "
        f"compare it with theirs: {document.digest}",
    ]


def _forecast_lines(found: ReviewDocument, expected: Forecast) -> list[str]:
    alone = len(found.owners) == 1
    each = "as many as this site; site-only, for it follows from a secret number"
    if found.rows is not None:
        each = many(found.rows, found.counts) + ("" if alone else " each")
    who = "this site brings" if alone else f"all {len(found.owners)} owners bring"
    lines = [
        f"Forecast, if {who} {each} (from the study alone, not from your rows):",
        f"  noise alone reaches a variance of {expected.noise_edge:.4g} in one direction; the "
        f"schema allows {expected.largest_variance:.4g} in all directions together",
    ]
    if expected.noise_edge >= expected.largest_variance:
        lines.append("  NO table can show a component above this noise: use more rows or epsilon")
    else:
        lines.append(
            f"  if variances were in proportion to 1, 1/2, 1/3 ... (at most), "
            f"{many(expected.assumed_components, 'components')} would stand above it"
        )
    if expected.widths:
        lines.append(
            "  95 % intervals by `estimate`, if values are spread evenly over their bounds:"
        )
    lines += [f"    {each.question}: {each.text}" for each in expected.widths]
    lines += [f"  {each.line}" for each in expected.questions]
    return [*lines, *(f"  {line}" for line in relations_lines(expected.relations))]
