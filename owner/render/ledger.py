"""What commands about budgets and ledgers print for people; the JSON has every figure, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, NotRequired, TypedDict

from dppca.common.amounts import left_text, spent_text
from dppca.common.documents import DecimalText, DigestText, Document, PathText, TimeText
from dppca.common.privacy.receipts import CostFields
from dppca.common.tables import text_table
from dppca.owner.ledger.tools import LedgerEntry, PlannedRelease
from dppca.owner.render.charges import other_owners


class LedgerState(TypedDict):
    """A ledger, the whole of which was verified."""

    path: Annotated[PathText, "the ledger's file"]
    entries: Annotated[int, "number of entries"]
    head: Annotated[DigestText, "SHA-256 of the last entry"]
    verified: Annotated[bool, "always true: a ledger that does not verify is an error"]


class BudgetFigures(TypedDict):
    """Charges, and a population's lifetime budget."""

    charged_epsilon: Annotated[DecimalText, "sum of the charges in pure epsilon"]
    charged_rho: Annotated[DecimalText, "sum of the charges in rho (zCDP)"]
    epsilon: Annotated[
        DecimalText | None,
        "the population's lifetime budget; null if policy.yaml does not state it",
    ]
    delta: Annotated[DecimalText | None, "delta of the budget"]
    spent: Annotated[
        DecimalText | None, "epsilon of all charges of the population together, at that delta"
    ]
    remaining: Annotated[DecimalText | None, "epsilon that is left to the population"]


class PopulationBudget(BudgetFigures):
    """What was charged to a population, and the lifetime budget that policy.yaml gives it."""

    name: Annotated[str, "name of the population; of a data set with a budget of its own, its name"]
    who: Annotated[str, "the people, as policy.yaml says (site-only); empty if it does not"]
    data_sets: Annotated[list[str], "data sets that draw on it now"]
    tied_to: Annotated[list[str], "populations that all of these charges count for too"]


class DataSetBudget(BudgetFigures):
    """What was charged for a data set under its name, and how its population stands."""

    name: Annotated[str, "name of the data set"]
    population: Annotated[str, "population that it draws on, or drew on last"]


class ChargedRelease(CostFields):
    """One charge and the state of its release."""

    sequence: Annotated[int, "number of the ledger's entry"]
    time: Annotated[TimeText, "when it was charged"]
    data_set: Annotated[str, "data set whose rows it was computed from"]
    population: Annotated[str, "population that was charged"]
    study: Annotated[str, "name of the study"]
    model: Annotated[str | None, "what was released besides moments; null for a contribution"]
    digest: Annotated[DigestText, "digest of the study, or of the request for a model"]
    release_id: Annotated[DigestText, "identifier of the release"]
    mechanism: Annotated[str, "noise: `laplace` or `gaussian`"]
    rows: Annotated[int | None, "rows it was computed from; null until it was drawn"]
    state: Annotated[Literal["reserved", "stored", "sent", "recovered"], "state of the release"]
    colluders: Annotated[int | None, "masked: owners that may collude with the curator; null else"]
    honest: Annotated[int | None, "masked: owners on whose noise it rests; null else"]


class OfferedOpening(TypedDict):
    """An opener key of this site, and how far it came. Nothing is charged for it."""

    study: Annotated[str, "name of the study"]
    opener_key: Annotated[DigestText, "SHA-256 of the public opener key"]
    set_digest: Annotated[DigestText | None, "the one set that it is bound to; null before"]
    state: Annotated[Literal["offered", "voted", "opened", "acknowledged"], "its last step"]


class DisownedRelease(TypedDict):
    """A contribution at the curator that this site did not send."""

    sequence: Annotated[int, "number of the ledger's entry"]
    time: Annotated[TimeText, "when it was disowned"]
    study: Annotated[str, "name of the study"]
    digest: Annotated[DigestText, "digest of the study"]
    release_id: Annotated[DigestText, "identifier of the release"]
    reason: Annotated[str, "the steward's reason"]


class BudgetDocument(Document):
    """Charges and lifetime budgets of a site."""

    ledger: Annotated[LedgerState, "the ledger"]
    populations: Annotated[list[PopulationBudget], "one entry for each population"]
    data_sets: Annotated[list[DataSetBudget], "one entry for each data set"]
    releases: Annotated[list[ChargedRelease], "all charges, in the ledger's order"]
    disowned: Annotated[list[DisownedRelease], "contributions that this site did not send"]
    openings: Annotated[list[OfferedOpening], "opener keys of this site, in the ledger's order"]


class RecoveredRelease(CostFields):
    """A contribution that the curator holds and the ledger did not know."""

    study: Annotated[str, "name of the study"]
    data_set: Annotated[str, "data set that it was computed from"]
    population: Annotated[str, "population that it is charged to"]
    release_id: Annotated[DigestText, "identifier of the release"]
    received: Annotated[TimeText, "when the curator received it"]
    rows: Annotated[int, "rows that its receipt states"]
    charged_before: Annotated[bool, "whether the ledger holds the charge already"]
    signed: Annotated[bool, "whether this site's signature of the receipt verifies"]
    unproved: Annotated[str, "why it does not; empty if it does"]


class DisownedStudy(TypedDict):
    """A contribution that is disowned now."""

    study: Annotated[str, "name of the study"]
    reason: Annotated[str, "the steward's reason"]


class RecoveredBudget(TypedDict):
    """A population's budget once the recovered charges are entered."""

    name: Annotated[str, "name of the population"]
    epsilon: Annotated[DecimalText, "lifetime budget"]
    delta: Annotated[DecimalText, "delta of the budget"]
    spent: Annotated[DecimalText | None, "epsilon of all charges together"]
    remaining: Annotated[DecimalText | None, "epsilon that is left"]


class RecoveryDocument(Document):
    """What a recovery entered in the ledger."""

    owner: Annotated[str, "name of this site"]
    recovered: Annotated[list[RecoveredRelease], "contributions that were charged again"]
    disowned: Annotated[list[DisownedStudy], "contributions that this site did not send"]
    populations: Annotated[list[RecoveredBudget], "budgets afterwards"]
    entries: Annotated[int, "entries of the ledger before the recovery"]
    entries_known: Annotated[int, "entries of the ledger that was in use; 0 if unknown"]
    acknowledgements: Annotated[list[str], "paths of the curator's acknowledgements"]


class ExportDocument(Document):
    """Every entry of a ledger, or where they were written."""

    owner: Annotated[str, "name of this site"]
    entries: Annotated[int, "number of entries"]
    head: Annotated[DigestText, "SHA-256 of the last entry"]
    chain: NotRequired[Annotated[list[LedgerEntry], "the entries; without `--output`"]]
    output: NotRequired[Annotated[PathText, "file that holds them; with `--output`"]]


class VerifiedRelease(TypedDict):
    """A charge, and what of its receipt was compared."""

    sequence: Annotated[int, "number of the ledger's entry"]
    study: Annotated[str, "name of the study"]
    model: Annotated[str | None, "what was released besides moments; null for a contribution"]
    release_id: Annotated[DigestText, "identifier of the release"]
    receipt: Annotated[Literal["as charged"] | None, "null if this site holds no receipt"]
    recomputed: Annotated[bool, "whether sensitivity and noise were computed from the study"]


class VerifiedLedgerDocument(Document):
    """What of a ledger was verified."""

    entries: Annotated[int, "number of entries"]
    head: Annotated[DigestText, "SHA-256 of the last entry"]
    extends: Annotated[str | None, "`LENGTH:HEAD` that was compared"]
    releases: Annotated[list[VerifiedRelease], "all charges, in the ledger's order"]


class BudgetPlanDocument(Document):
    """What further releases would leave of a population's lifetime budget."""

    data_set: Annotated[str, "name of the data set"]
    population: Annotated[str, "population that it draws on"]
    tied_to: Annotated[list[str], "populations whose budgets have to cover each release too"]
    epsilon: Annotated[DecimalText, "lifetime budget"]
    delta: Annotated[DecimalText, "delta of the budget"]
    spent: Annotated[DecimalText | None, "epsilon of all charges together"]
    remaining: Annotated[DecimalText | None, "epsilon that is left"]
    steps: Annotated[list[PlannedRelease], "one after the other"]


def budget_text(document: BudgetDocument, *, width: int | None = None) -> str:
    """Budgets and charges, as two tables; `width` is the terminal's, None where there is none."""
    ledger = document["ledger"]
    lines = [f"Ledger: {ledger['entries']} entries, the chain verifies."]
    lines += _table(
        ["population", "data sets", "epsilon", "delta", "spent", "left", "pure epsilon", "rho"],
        [
            [
                each["name"],
                ", ".join(each["data_sets"]) or "-",
                each["epsilon"] or "not in policy",
                each["delta"] or "-",
                spent_text(each["spent"]),
                left_text(each["remaining"]),
                spent_text(each["charged_epsilon"]),
                spent_text(each["charged_rho"]),
            ]
            for each in document["populations"]
        ],
        width,
    )
    lines += [
        "",
        *(f"{each['name']}: {each['who']}" for each in document["populations"] if each["who"]),
        *(
            f"{each['name']} has all charges in common with {', '.join(each['tied_to'])}: the "
            "same names or sources were charged for both."
            for each in document["populations"]
            if each["tied_to"]
        ),
    ]
    lines += _table(
        ["time", "population", "data set", "study", "epsilon", "delta", "rho", "rows", "state"],
        [
            [
                each["time"],
                each["population"],
                each["data_set"],
                each["study"] if not each["model"] else f"{each['study']}: {each['model']}",
                each["epsilon"],
                each["delta"],
                spent_text(each["charged_rho"]),
                "-" if each["rows"] is None else str(each["rows"]),
                each["state"],
            ]
            for each in document["releases"]
        ],
        width,
    )
    lines += [
        f"Disowned: a contribution to {each['study']} ({each['time']}). {each['reason']}"
        for each in document["disowned"]
    ]
    lines += [
        f"Masked: the epsilon of {each['study']} is that of the federation's sum. It holds against "
        f"the curator with any {other_owners(each['colluders'])}, as long as {each['honest']} "
        "owners, this one among them, run this software."
        for each in document["releases"]
        if each["colluders"] is not None
    ]
    lines += [
        f"Opener key of {each['study']}: {each['state']}, not charged."
        for each in document["openings"]
    ]
    return "\n".join(lines)


def recovery_text(document: RecoveryDocument, *, width: int | None = None) -> str:
    """What a recovery would enter, and what it would leave; `width` as in `budget_text`."""
    lines = [f"What the curator holds of {document['owner']} and this ledger does not know:"]
    lines += _table(
        ["study", "received", "rows", "epsilon", "rho", "charged to", "evidence"],
        [
            [
                each["study"],
                each["received"],
                str(each["rows"]),
                spent_text(each["charged_epsilon"]),
                spent_text(each["charged_rho"]),
                f"{each['population']} ({each['data_set']}"
                f"{', charged before' if each['charged_before'] else ''})",
                "signed by this site" if each["signed"] else f"NOT PROVED: {each['unproved']}",
            ]
            for each in document["recovered"]
        ],
        width,
    )
    lines += [
        f"  {each['study']}: disowned, charges nothing. {each['reason']}"
        for each in document["disowned"]
    ]
    lines += [
        f"Population {each['name']}: of epsilon {each['epsilon']}, {spent_text(each['spent'])} "
        f"would be spent and {left_text(each['remaining'])} left."
        for each in document["populations"]
    ]
    if document["entries_known"]:
        lines.append(
            f"A ledger of {document['entries_known']} entries was in use; this one has "
            f"{document['entries']}. Contributions are found again above. Models that "
            "were released are known to no curator: if this ledger lacks one, lower the "
            "population's epsilon in policy.yaml by what its receipt says."
        )
    return "\n".join(lines)


def export_text(document: ExportDocument) -> str:
    """Where the entries are, and what to note of them."""
    return (
        f"Wrote {document['entries']} entries to {document['output']}.\n"
        f"To compare later: --extends {document['entries']}:{document['head']}"
    )


def verified_text(document: VerifiedLedgerDocument) -> str:
    """What of a ledger was verified."""
    releases = document["releases"]
    stored = [each for each in releases if each["receipt"]]
    again = sum(each["recomputed"] for each in releases)
    lines = [
        f"Ledger: {document['entries']} entries, the chain verifies; {len(releases)} charges.",
        f"  {len(stored)} stored releases have their bytes, and receipts that say what was charged",
        f"  {again} of them computed again from the study kept here",
    ]
    if document["extends"]:
        lines.append("  the chain goes on from the one that was noted")
    if document["entries"]:
        lines.append(f"To compare later: --extends {document['entries']}:{document['head']}")
    return "\n".join(lines)


def plan_text(document: BudgetPlanDocument, *, width: int | None = None) -> str:
    """Budget after each further release; `width` as in `budget_text`."""
    lines = [
        f"Budget of population {document['population']} (data set {document['data_set']}): "
        f"epsilon {document['epsilon']} at delta {document['delta']}; "
        f"{left_text(document['remaining'])} is left. Nothing is charged by this.",
        *(f"Each counts for population {name} too." for name in document["tied_to"]),
    ]
    lines += _table(
        ["further release", "epsilon", "rho", "spent", "left", "fits", ""],
        [
            [
                each["what"],
                spent_text(each["charged_epsilon"]),
                spent_text(each["charged_rho"]),
                spent_text(each["spent"]),
                left_text(each["remaining"]),
                "-" if _is_free(each) else f"{each['fits']} times",
                "" if each["admitted"] else "WOULD BE REFUSED",
            ]
            for each in document["steps"]
        ],
        width,
    )
    return "\n".join(lines)


def _is_free(step: PlannedRelease) -> bool:
    return (step["charged_epsilon"], step["charged_rho"]) == ("0", "0")


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    return ["", *text_table(names, rows, width=width)] if rows else []
