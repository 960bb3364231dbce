"""What commands about budgets and ledgers print for people; as `owner.render`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def budget_text(document: Mapping[str, Any]) -> str:
    """Budgets and charges, as two tables."""
    ledger = document["ledger"]
    lines = [f"Ledger: {ledger['entries']} entries, the chain verifies."]
    lines += _table(
        ["data set", "epsilon", "delta", "spent", "left", "pure epsilon", "rho"],
        [
            [
                each["name"],
                each["epsilon"] or "not in policy",
                each["delta"] or "-",
                each["spent"] or "-",
                each["remaining"] or "-",
                each["charged_epsilon"],
                each["charged_rho"],
            ]
            for each in document["data_sets"]
        ],
    )
    lines += _table(
        ["time", "data set", "study", "epsilon", "delta", "rho", "rows", "state"],
        [
            [
                each["time"],
                each["data_set"],
                each["study"] if not each["model"] else f"{each['study']}: {each['model']}",
                each["epsilon"],
                each["delta"],
                each["charged_rho"],
                "-" if each["rows"] is None else str(each["rows"]),
                each["state"],
            ]
            for each in document["releases"]
        ],
    )
    return "\n".join(lines)


def export_text(document: Mapping[str, Any]) -> str:
    """Where the entries are, and what to note of them."""
    return (
        f"Wrote {document['entries']} entries to {document['output']}.\n"
        f"To compare later: --extends {document['entries']}:{document['head']}"
    )


def verified_text(document: Mapping[str, Any]) -> str:
    """What of a ledger was verified."""
    releases = document["releases"]
    stored = [each for each in releases if each["receipt"]]
    again = sum(each["recomputed"] for each in releases)
    lines = [
        f"Ledger: {document['entries']} entries, the chain verifies; {len(releases)} charges.",
        f"  {len(stored)} stored releases have their bytes, and receipts that say what was charged",
        f"  {again} of them computed anew from the study kept here",
    ]
    if document["extends"]:
        lines.append("  the chain goes on from the one that was noted")
    if document["entries"]:
        lines.append(f"To compare later: --extends {document['entries']}:{document['head']}")
    return "\n".join(lines)


def plan_text(document: Mapping[str, Any]) -> str:
    """Budget after each further release."""
    lines = [
        f"Budget of {document['data_set']}: epsilon {document['epsilon']} at delta "
        f"{document['delta']}; {document['remaining'] or '-'} is left. Nothing is charged by this."
    ]
    lines += _table(
        ["further release", "epsilon", "rho", "spent", "left", "fits", ""],
        [
            [
                each["what"],
                each["charged_epsilon"],
                each["charged_rho"],
                each["spent"] or "-",
                each["remaining"] or "-",
                "-" if _is_free(each) else f"{each['fits']} times",
                "" if each["admitted"] else "WOULD BE REFUSED",
            ]
            for each in document["steps"]
        ],
    )
    return "\n".join(lines)


def _is_free(step: Mapping[str, Any]) -> bool:
    return (step["charged_epsilon"], step["charged_rho"]) == ("0", "0")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return ["", *("  ".join(map(str.ljust, row, widths)).rstrip() for row in [head, *rows])]
