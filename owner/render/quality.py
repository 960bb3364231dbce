"""What `report` prints for people. Every figure in it is in the JSON document, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypedDict

from dppca.common.documents import (
    CodedByRule,
    Document,
    PairFigures,
    PathText,
    VariationFigures,
    VisibleRelationsDocument,
)
from dppca.common.privacy.labels import Label


class PropensityFigures(TypedDict):
    """How well a logistic regression tells synthetic rows from real ones."""

    pmse: Annotated[float, "mean square of its probability minus the synthetic share"]
    expected: Annotated[float, "the same for rows that cannot be told apart"]
    ratio: Annotated[float, "pmse over expected; 1 is best"]
    coefficients: Annotated[int, "coefficients that were fitted"]
    products: Annotated[bool, "whether products of columns are among the features"]


class AccuracyFigures(TypedDict):
    """Shares of the site's rows whose target is predicted rightly, in [0, 1]."""

    target: Annotated[str, "attribute that is predicted"]
    trained_on_real: Annotated[float, "trained on the site's rows, tested on others of them"]
    trained_on_synthetic: Annotated[float, "trained on decoded synthetic rows"]
    trained_on_coded: Annotated[float | None, "trained on coded synthetic rows; null without any"]
    majority: Annotated[float, "always the commonest class"]


class DistanceFigures(TypedDict):
    """Distances to the nearest record at the quantiles 0.01, 0.05, 0.25 and 0.5, coded units."""

    synthetic: Annotated[Sequence[float], "from synthetic rows to real ones"]
    real: Annotated[Sequence[float], "from real rows to other real ones"]
    copies: Annotated[float, "share of synthetic rows that equal a real one"]
    repeats: Annotated[float, "share of real rows that equal another"]


class QualityFigures(TypedDict):
    """Synthetic rows against the site's own, as `report.comparison.Quality` has them."""

    n_real: Annotated[int, "rows of the data set"]
    n_synthetic: Annotated[int, "synthetic rows"]
    marginals: Annotated[Sequence[VariationFigures], "one entry for each attribute"]
    pairs: Annotated[Sequence[VariationFigures], "one entry for each pair of attributes"]
    pair_summary: Annotated[PairFigures, "the pairs in short"]
    propensity: Annotated[PropensityFigures, "how well the two can be told apart"]
    accuracies: Annotated[Sequence[AccuracyFigures], "one entry for each target"]
    distances: Annotated[DistanceFigures, "distances to the nearest record"]
    label: Annotated[Label, "where these figures may go: nowhere"]


class QualityDocument(Document, QualityFigures):
    """A comparison that stays at the site."""

    study: Annotated[str, "name of the study"]
    data_set: Annotated[str, "data set that was compared"]
    synthetic: Annotated[PathText, "file of synthetic rows"]
    page: Annotated[PathText, "the page with the plots"]
    coded_by_rule: Annotated[CodedByRule, "values that coding replaced (site-only)"]
    relations: Annotated[
        VisibleRelationsDocument | None,
        "what the release shows of relations; null without components or a field",
    ]
    seconds: Annotated[float, "time that the command took"]


def quality_text(document: QualityDocument) -> str:
    """A report in short."""
    propensity, distances = document["propensity"], document["distances"]
    lines = [
        f"{document['n_synthetic']} synthetic rows against {document['n_real']} of data set "
        f"{document['data_set']}",
        "  SITE-ONLY: computed from raw rows without noise; nothing of this may leave the site",
        f"  told apart: pMSE {propensity['ratio']:.1f} times that of rows alike (1 is best)",
        *_worst("one attribute", document["marginals"]),
        *_worst("two attributes", document["pairs"]),
        *_mean(document["pair_summary"]),
    ]
    if document["relations"] is not None:
        lines.append(f"  {document['relations']['summary']}")
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


def _mean(pairs: PairFigures) -> list[str]:
    if pairs["mean"] is None or pairs["by_chance"] is None:
        return []
    return [
        f"  two attributes: {pairs['mean']:.3f} on average ({pairs['by_chance']:.3f} by chance)"
    ]


def _worst(name: str, found: Sequence[VariationFigures]) -> list[str]:
    if not found:
        return []
    worst = max(found, key=lambda each: each["found"])
    return [
        f"  {name}: total variation up to {worst['found']:.3f} ({', '.join(worst['attributes'])}; "
        f"{worst['by_chance']:.3f} by chance)"
    ]
