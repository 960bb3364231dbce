"""Documents and texts of commands on budgets and ledgers; the JSON has every figure, too."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Literal

from dppca.common.kernel.documents.amounts import decimal_text, left_text, spent_text
from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.documents.tables import text_table
from dppca.common.kernel.documents.values import DigestText, Document, PathText, TimeText
from dppca.common.kernel.privacy.promises import Promise
from dppca.common.shell.study_words import other_owners
from dppca.owner.ledger.entries import Disowning
from dppca.owner.ledger.tools import LedgerEntry, PlannedRelease
from dppca.owner.render.charges import GAUSSIAN_SUM, ChargedCost


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerState:
    """Ledger that was verified as a whole."""

    path: Annotated[PathText, "the ledger's file"]
    entries: Annotated[int, "number of entries"]
    head: Annotated[bytes, "SHA-256 of the last entry"]
    verified: Annotated[bool, "always true: a ledger that does not verify is an error"] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationBudget:
    """Charges of a population, and the lifetime budget that policy.yaml gives it."""

    name: Annotated[str, "name of the population"]
    who: Annotated[str, "the people, as policy.yaml says (site-only); empty if it does not"] = ""
    data_sets: Annotated[tuple[str, ...], "data sets that draw on it now"] = ()
    tied_to: Annotated[tuple[str, ...], "populations that all of these charges count for too"]
    charged_epsilon: Annotated[Decimal, "sum of the charges in pure epsilon"]
    charged_rho: Annotated[Decimal, "sum of the charges in rho (zCDP)"]
    promise: Annotated[Promise, "what its budget promises a person, under which charges add up"] = (
        Promise.ROWS_REPLACED
    )
    weakened: Annotated[
        str | None,
        "study and day by which a number left that was to stay secret; null if none did",
    ] = None
    epsilon: Annotated[
        Decimal | None, "the lifetime budget; null if policy.yaml does not state it"
    ] = None
    delta: Annotated[Decimal | None, "delta of the budget"] = None
    spent: Annotated[
        Decimal | None, "epsilon of all charges of the population together, at that delta"
    ] = None
    remaining: Annotated[Decimal | None, "epsilon that is left to the population"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSetCharges:
    """Charges of a data set under its name."""

    name: Annotated[str, "name of the data set"]
    population: Annotated[str, "population that it draws on, or drew on last"]
    charged_epsilon: Annotated[Decimal, "sum of the charges in pure epsilon"]
    charged_rho: Annotated[Decimal, "sum of the charges in rho (zCDP)"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargedRelease(ChargedCost):
    """Charge with the state of its release."""

    sequence: Annotated[int, "number of the ledger's entry"]
    time: Annotated[TimeText, "when it was charged"]
    data_set: Annotated[str, "data set whose rows it was computed from"]
    population: Annotated[str, "population that was charged"]
    study: Annotated[str, "name of the study"]
    model: Annotated[str | None, "what was released besides moments; null for a contribution"]
    digest: Annotated[DigestText, "digest of the study, or of the request for a model"]
    release_id: Annotated[bytes, "identifier of the release"]
    mechanism: Annotated[str, "noise: name of its law, such as `laplace`"]
    rows: Annotated[int | None, "rows it was computed from; null: not drawn yet, or secret"]
    state: Annotated[Literal["reserved", "stored", "sent", "recovered"], "state of the release"]
    colluders: Annotated[int | None, "masked: owners that may collude with the curator; null else"]
    honest: Annotated[int | None, "masked: owners on whose noise it rests; null else"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedOpening:
    """Opener key of this site with its last step. Nothing is charged for it."""

    study: Annotated[str, "name of the study"]
    opener_key: Annotated[DigestText, "SHA-256 of the public opener key"]
    set_digest: Annotated[DigestText | None, "the one set that it is bound to; null before"]
    state: Annotated[Literal["offered", "voted", "opened", "acknowledged"], "its last step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteBudgets:
    """Charges and lifetime budgets of a site."""

    ledger: Annotated[LedgerState, "the ledger"]
    populations: Annotated[tuple[PopulationBudget, ...], "one entry for each population"]
    data_sets: Annotated[tuple[DataSetCharges, ...], "one entry for each data set"]
    releases: Annotated[tuple[ChargedRelease, ...], "all charges, in the ledger's order"]
    disowned: Annotated[tuple[Disowning, ...], "contributions that this site did not send"]
    openings: Annotated[
        tuple[OfferedOpening, ...], "opener keys of this site, in the ledger's order"
    ]
    locked: Annotated[str | None, "why nothing of what is left can be spent; else null"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredRelease(ChargedCost):
    """Contribution that the curator holds and the ledger did not contain."""

    study: Annotated[str, "name of the study"]
    data_set: Annotated[str, "data set that it was computed from"]
    population: Annotated[str, "population that it is charged to"]
    release_id: Annotated[bytes, "identifier of the release"]
    received: Annotated[datetime, "when the curator received it"]
    rows: Annotated[int, "rows that its receipt states; 0: secret"]
    charged_before: Annotated[bool, "whether the ledger holds the charge already"]
    unproved: Annotated[str, "why this site's signature of the receipt does not verify; else empty"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRecovery:
    """Entries that a recovery made in the ledger."""

    owner: Annotated[str, "name of this site"]
    recovered: Annotated[tuple[RecoveredRelease, ...], "contributions that were charged again"]
    disowned: Annotated[tuple[Disowning, ...], "contributions that this site did not send"]
    populations: Annotated[tuple[PopulationBudget, ...], "budgets afterwards"]
    entries: Annotated[int, "entries of the ledger before the recovery"]
    entries_known: Annotated[int, "entries of the ledger that was in use; 0 if unknown"]
    restored: Annotated[bool, "whether the ledger may be older than the one that was in use"]
    acknowledgements: Annotated[
        tuple[str, ...], "paths of the curator's acknowledgements, once they are here"
    ] = ()


class ExportDocument(Document):
    """Entries of a ledger, or the file that holds them."""

    owner: Annotated[str, "name of this site"]
    entries: Annotated[int, "number of entries"]
    head: Annotated[DigestText, "SHA-256 of the last entry"]
    chain: Annotated[list[LedgerEntry] | None, "the entries; null with `--output`"]
    output: Annotated[PathText | None, "file that holds them; null without `--output`"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedRelease:
    """Charge with the comparisons that its receipt passed."""

    sequence: Annotated[int, "number of the ledger's entry"]
    study: Annotated[str, "name of the study"]
    model: Annotated[str | None, "what was released besides moments; null for a contribution"]
    release_id: Annotated[bytes, "identifier of the release"]
    receipt: Annotated[Literal["as charged"] | None, "null if this site holds no receipt"] = None
    recomputed: Annotated[bool, "whether sensitivity and noise were computed from the study"] = (
        False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedLedger:
    """Verified parts of a ledger."""

    entries: Annotated[int, "number of entries"]
    head: Annotated[bytes, "SHA-256 of the last entry"]
    extends: Annotated[str | None, "`LENGTH:HEAD` that was compared"]
    releases: Annotated[tuple[VerifiedRelease, ...], "all charges, in the ledger's order"]
    locked: Annotated[str | None, "why it may lack charges, and nothing is spent; else null"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPlan:
    """Effect of further releases on a population's lifetime budget."""

    data_set: Annotated[str, "name of the data set"]
    population: Annotated[PopulationBudget, "population that it draws on, as it stands"]
    steps: Annotated[list[PlannedRelease], "one after the other"]


def budget_text(document: SiteBudgets, *, width: int | None = None) -> str:
    """Return budgets and charges as two tables; `width` is the terminal's, or None."""
    ledger = document.ledger
    lines = [] if document.locked is None else [f"LOCKED: {document.locked}.", ""]
    lines += [f"Ledger: {many(ledger.entries, 'entries')}, the chain verifies."]
    lines += _table(
        ["population", "data sets", "epsilon", "delta", "spent", "left"],
        [
            [
                each.name,
                ", ".join(each.data_sets) or "-",
                _exact(each.epsilon, "not in policy"),
                _exact(each.delta),
                spent_text(each.spent),
                left_text(each.remaining),
            ]
            for each in document.populations
        ],
        width,
    )
    lines += [
        "",
        *(f"{each.name}: {each.who}" for each in document.populations if each.who),
        *(
            f"{each.name} shares all charges with {', '.join(each.tied_to)}: the same names or "
            "sources were charged for both."
            for each in document.populations
            if each.tied_to
        ),
        *(promise_text(each) for each in document.populations if promise_text(each)),
    ]
    lines += _table(
        ["time", "population", "data set", "study", "epsilon", "delta", "rows", "state"],
        [
            [
                each.time,
                each.population,
                each.data_set,
                each.study if not each.model else f"{each.study}: {each.model}",
                decimal_text(each.epsilon),
                decimal_text(each.delta),
                "-" if each.rows is None else str(each.rows),
                each.state,
            ]
            for each in document.releases
        ],
        width,
    )
    if adds_up_to_less(document):
        lines.append(f"Note: {GAUSSIAN_SUM}.")
    lines += [
        f"Disowned: a contribution to {each.study} ({each.time}). {each.reason}"
        for each in document.disowned
    ]
    lines += [
        f"Masked: the epsilon of {each.study} is that of the federation's sum. It holds against "
        f"the curator with any {other_owners(each.colluders)}, as long as {each.honest} "
        "owners, this one among them, run this software."
        for each in document.releases
        if each.colluders is not None
    ]
    lines += [
        f"Opener key of {each.study}: {each.state}, not charged." for each in document.openings
    ]
    return "\n".join(lines)


def promise_text(each: PopulationBudget) -> str:
    """Return what a budget promises, and by which study that became less; empty for the usual."""
    if each.weakened is None and each.promise is Promise.ROWS_REPLACED:
        return ""
    told = f" A number that was secret left exactly by {each.weakened}." if each.weakened else ""
    return f"{each.name}: charges are for the promise `{each.promise}`.{told}"


def adds_up_to_less(document: SiteBudgets) -> bool:
    """Return True if less is spent of a budget than its charges' epsilons together."""
    charged: defaultdict[str, Decimal] = defaultdict(Decimal)
    for release in document.releases:
        charged[release.population] += release.epsilon
    return any(
        each.spent is not None and each.spent < charged[each.name] for each in document.populations
    )


def recovery_text(document: LedgerRecovery, *, width: int | None = None) -> str:
    """Return the entries and the budgets after a recovery; `width` as in `budget_text`."""
    lines = []
    if document.recovered or document.disowned:
        lines = [f"Contributions of {document.owner} that the curator has and this ledger lacks:"]
    lines += _table(
        ["study", "received", "rows", "epsilon", "delta", "charged to", "evidence"],
        [
            [
                each.study,
                each.received.isoformat(),
                str(each.rows or "secret"),
                decimal_text(each.epsilon),
                decimal_text(each.delta),
                f"{each.population} ({each.data_set}"
                f"{', charged before' if each.charged_before else ''})",
                f"NOT PROVED: {each.unproved}" if each.unproved else "signed by this site",
            ]
            for each in document.recovered
        ],
        width,
    )
    lines += [
        f"  {each.study}: disowned, charges nothing. {each.reason}" for each in document.disowned
    ]
    lines += [
        f"Population {each.name}: of epsilon {_exact(each.epsilon)}, {spent_text(each.spent)} "
        f"would be spent and {left_text(each.remaining)} left."
        for each in document.populations
    ]
    if document.entries_known:
        lines.append(
            f"A ledger of {many(document.entries_known, 'entries')} was in use; this one has "
            f"{document.entries}."
        )
    if document.restored:
        lines.append(
            "This ledger was lost, restored from a copy, or moved. No curator knows the models "
            "that were released: if this ledger lacks one, lower the population's epsilon in "
            "policy.yaml by what its receipt says, before you go on. Opener keys that have not "
            "voted or opened by this ledger are destroyed: they may have, after the copy was made. "
            "Destroy other copies of this folder, the original too: one would forget what this one "
            "charges from now on."
        )
    return "\n".join(lines)


def export_text(document: ExportDocument) -> str:
    """Return the file of the entries, and the values to note for a later comparison."""
    return (
        f"Wrote {many(document['entries'], 'entries')} to {document['output']}.\n"
        f"To compare later: --extends {document['entries']}:{document['head']}"
    )


def verified_text(document: VerifiedLedger) -> str:
    """Return the verified parts of a ledger."""
    releases = document.releases
    stored = [each for each in releases if each.receipt]
    again = sum(each.recomputed for each in releases)
    lines = [
        *([] if document.locked is None else [f"LOCKED: {document.locked}.", ""]),
        f"Ledger: {many(document.entries, 'entries')}, the chain verifies; "
        f"{many(len(releases), 'charges')}.",
        f"  right bytes, and receipts that say what was charged: {many(len(stored), 'releases')}",
        f"  computed again from the study at this site: {again} of them",
    ]
    if document.extends:
        lines.append("  the chain continues the one that you gave")
    if document.entries:
        lines.append(f"To compare later: --extends {document.entries}:{document.head.hex()}")
    return "\n".join(lines)


def budget_plan_text(document: BudgetPlan, *, width: int | None = None) -> str:
    """Return the budget after each further release; `width` as in `budget_text`."""
    people = document.population
    lines = [
        f"Budget of population {people.name} (data set {document.data_set}): epsilon "
        f"{_exact(people.epsilon)} at delta {_exact(people.delta)}; "
        f"{left_text(people.remaining)} is left. This command charges nothing.",
        *(f"Each release counts for population {name} too." for name in people.tied_to),
    ]
    lines += _table(
        ["further release", "spent", "left", "fits", ""],
        [
            [
                each.what,
                spent_text(each.spent),
                left_text(each.remaining),
                many(each.fits, "times") if each.charged_epsilon or each.charged_rho else "-",
                "" if each.admitted else "WOULD BE REFUSED",
            ]
            for each in document.steps
        ],
        width,
    )
    return "\n".join(lines)


def _exact(amount: Decimal | None, missing: str = "-") -> str:
    return missing if amount is None else decimal_text(amount)


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    return ["", *text_table(names, rows, width=width)] if rows else []
