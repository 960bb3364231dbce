"""What `report` prints for people. Every figure in it is in the JSON document, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_WORST = 5


def quality_text(document: Mapping[str, Any]) -> str:
    """A report in short."""
    propensity, distances = document["propensity"], document["distances"]
    lines = [
        f"{document['n_synthetic']} synthetic rows against {document['n_real']} of data set "
        f"{document['data_set']}",
        "  SITE-ONLY: computed from raw rows without noise; nothing of this may leave the site",
        f"  told apart: pMSE {propensity['ratio']:.1f} times that of rows alike (1 is best)",
        *_worst("one attribute", document["marginals"]),
        *_worst("two attributes", document["pairs"]),
    ]
    lines += [
        f"  {each['target']}: right on {each['trained_on_synthetic']:.1%} when trained on "
        f"synthetic rows, {each['trained_on_real']:.1%} on real ones, {each['majority']:.1%} "
        "by majority"
        for each in document["accuracies"]
    ]
    lines += [
        f"  nearest record, median: {distances['synthetic'][-1]:.3f} from synthetic to real, "
        f"{distances['real'][-1]:.3f} from real to real",
        f"Page: {document['page']}",
    ]
    return "\n".join(lines)


def released_summary_text(document: Mapping[str, Any]) -> str:
    """Where a summary is, what it says and what it cost."""
    charged = (
        f"epsilon {document['charged_epsilon']}"
        if document["charged_rho"] == "0"
        else f"rho {document['charged_rho']}"
    )
    again = (
        " (it was stored already; these are the same bytes)" if document["already_stored"] else ""
    )
    worst = sorted(document["marginals"], key=lambda each: -each["total_variation"])[:_WORST]
    return "\n".join(
        [
            f"Summary of {document['rows']} rows{again}",
            *(
                f"  {each['attribute']}: total variation {each['total_variation']:.3f}, of which "
                f"noise about {each['noise']:.3f}"
                for each in worst
            ),
            *(
                f"  {each['target']}: right on {each['trained_on_synthetic']:.1%} when trained on "
                f"synthetic rows (noise about {each['noise']:.1%})"
                for each in document["accuracies"]
            ),
            f"  guarantee: epsilon {document['epsilon']}, delta {document['delta']}",
            f"  charged once to data set {document['data_set']}: {charged}",
            f"  saved (released, may go anywhere): {document['summary']}",
        ]
    )


def _worst(name: str, found: list[dict[str, Any]]) -> list[str]:
    if not found:
        return []
    worst = max(found, key=lambda each: float(each["found"]))
    return [
        f"  {name}: total variation up to {worst['found']:.3f} ({', '.join(worst['attributes'])}; "
        f"{worst['by_chance']:.3f} by chance)"
    ]
