"""The demo in plain words, from the report's own document: nothing here is computed again."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

from dppca.common.text_tables import text_table
from dppca.deploy.simulation.documents import (
    SimulatedPrivacy,
    SimulatedUtility,
    SimulationDocument,
)

_WIDTH = 88
_NOTICEABLE = 0.01  # a difference in accuracy that the text explains


def make_story(document: SimulationDocument, *, width: int | None = None) -> str:
    """What happened, for somebody who reads about it for the first time.

    Parameters
    ----------
    document
        As `dppca.deploy.simulation.run_report.make_document` makes it, of the demo's study.
    width
        Width of the terminal; None where there is none.
    """
    owners, components = document["owners"], document["components"]
    utility = document["utility"]
    assert utility is not None  # noqa: S101 - the demo has a target
    accuracies = [owner["dppca_svm_accuracy"] or 0.0 for owner in owners]
    privacy, first = document["privacy"], document["owners"][0]
    holdings = ", ".join(f"{owner['name']} {owner['rows']:,}" for owner in owners)
    sent = next(step["bytes"] for step in document["steps"] if step["name"] == "contribute")
    worst = max(owner["epsilon"] for owner in owners)
    models = ", ".join(f"{accuracy:.3f}" for accuracy in accuracies)
    parts = [
        f"{len(owners)} owners, one question, no row shown",
        f"WHO HELD WHAT. The rows of the RAND Health Insurance Experiment, one per person and "
        f"year, were divided: {holdings}. Another {document['rows']['held_out']:,} were held out "
        "and reached nobody. Each owner was a process of its own with a folder of its own; a "
        "curator was another; they talked over mutual TLS.",
        f"WHAT LEFT EACH SITE. One message of {privacy['entries']} sums of {first['rows']:,} "
        f"rows, each sum with {privacy['mechanism']} noise drawn from the operating system "
        f"({sent:,} bytes from all owners together), and the number of rows. No row, no model.",
        f"WHAT IT COST. Each owner's ledger was charged epsilon {worst:g}, delta "
        f"{first['delta']:g}: {_promise(privacy)}",
        f"WHAT WAS FOUND. {components['count']} joint components of "
        f"{len(components['eigenvalues'])} columns. Noise alone would reach an eigenvalue of "
        f"{components['noise_edge']:.4g}, the noise edge; "
        f"{_counted(components['above_noise'], 'eigenvalue')} above it, and "
        f"{_counted(components['negative'], 'eigenvalue')} negative, which only noise can be. "
        f"The components capture {100 * components['captured_variance']:.1f} % of the variance "
        "that the best possible ones would (which only a simulation can know).",
        "WHAT IT IS GOOD FOR. From the components each owner made synthetic rows and published "
        f"them. A linear classifier of {document['target']}, tried on the held-out real rows:",
    ]
    rows = [
        ("trained on real rows of all owners, without privacy", utility["trtr_accuracy"]),
        ("trained on synthetic rows, coded coordinates", utility["tstr_accuracy"]),
        ("trained on synthetic rows, decoded to real values", utility["tstr_accuracy_decoded"]),
        ("always answering the commonest class", utility["majority"]),
    ]
    figures = [(name, f"{accuracy:.3f}") for name, accuracy in rows]
    table = "\n".join(text_table(("classifier", "accuracy"), figures, width=width, right=(1,)))
    at_home = (
        f"AT HOME. Each owner also trained on its own rows in the joint components: {models}. "
        "Those classifiers are site-only: they were made from raw rows and never left. "
        + _comparison(accuracies, utility)
    )
    paths = {**document["plots"], **document["files"]}
    listed = "\n".join(text_table(("what", "file"), list(paths.items()), width=width))
    columns = min(_WIDTH, width or _WIDTH)
    told = [*(fill(part, columns) for part in parts), table, fill(at_home, columns)]
    return "\n\n".join([*told, f"SEE FOR YOURSELF ({document['seconds']:.0f} s in all)\n{listed}"])


def _comparison(accuracies: Sequence[float], utility: SimulatedUtility) -> str:
    """How the classifiers at home stand beside the one on real rows, and why if they lose."""
    real, majority = utility["trtr_accuracy"], utility["majority"]
    lost = [accuracy for accuracy in accuracies if accuracy < real - _NOTICEABLE]
    if not lost:
        return f"They do as well as the classifier trained on all real rows ({real:.3f})."
    text = (
        f"{len(lost)} of {len(accuracies)} are right less often than the classifier trained on "
        f"all real rows ({real:.3f}). They see only the other columns' directions of largest "
        "variance; where a direction of little variance decides, they lose it, with or without "
        "noise."
    )
    useless = sum(accuracy <= majority for accuracy in accuracies)
    if useless:
        text += f" {useless} of them know no more than the commonest class ({majority:.3f})."
    return text


def _counted(count: int, noun: str) -> str:
    """Such as "1 eigenvalue is" and "2 eigenvalues are"."""
    return f"{count} {noun} is" if count == 1 else f"{count} {noun}s are"


def _promise(privacy: SimulatedPrivacy) -> str:
    k = privacy["max_rows_per_person"]
    if k == 1:
        return (
            "had any one row been different, no result would have been more than e^epsilon times "
            "likelier. A row here is one year of one person, and a person has up to five: the "
            "promise is about the year. To protect whole persons say max_rows_per_person: 5, and "
            "keep each person's rows at one owner; the noise grows five times."
        )
    return (
        f"had all {k} rows of any one person been different, no result would have been more than "
        "e^epsilon times likelier."
    )
