"""Relations in a study's result that exceed its noise, as figures and in words.

Before a study it is unknown how much of its bounds a numeric fills, so the warning of
`dppca.common.analysis.estimators.relations` assumes that it fills them. A result shows more, at no
privacy cost: `dppca.common.analysis.field.visibility` judges the released moments.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np

from dppca.common.analysis.estimators.relations import LOST_FROM
from dppca.common.analysis.field.rows import released_targets
from dppca.common.analysis.field.targets import coupling_scales
from dppca.common.analysis.field.visibility import FALSE_SHARE, find_visible
from dppca.common.analysis.rows.synthesis import released_noise
from dppca.common.kernel.attestation.results import Result
from dppca.common.kernel.moments.threads import one_blas_thread
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema import ColumnKind
from dppca.common.kernel.study import Study

_NAMED = 8  # in a text; the others are counted
_LITTLE = 0.25
"""Least deviation, relative to evenly spread values, of a numeric that uses its range."""


@dataclass(frozen=True, slots=True)
class VisibleAttribute:
    """Relations of one attribute that a release shows."""

    attribute: Annotated[str, "its name"]
    above: Annotated[int, "other attributes with which its relation stands above the noise"]
    strongest: Annotated[
        float, "largest correlation with a column of another that rows are made with, from 0 to 1"
    ]
    noise: Annotated[float, "standard deviation of the noise of such a correlation, the median"]
    spread: Annotated[
        float | None, "deviation over that of values that fill the bounds evenly; null for labels"
    ]
    alone: Annotated[bool, "whether rows have it on its own for practical purposes"]


@dataclass(frozen=True, slots=True)
class VisibleRelations:
    """Relations that a release shows above its noise; from released values alone."""

    pairs: Annotated[int, "pairs of attributes"]
    above: Annotated[int, "pairs whose relation stands above the noise; 5 % may be chance"]
    attributes: Annotated[tuple[VisibleAttribute, ...], "in the order of the schema"]
    summary: Annotated[str, "the same in words"]


def judge_result(result: Result, study: Study) -> VisibleRelations | None:
    """Judge the relations of every attribute in a study's release.

    Return None if no field can be fitted (`fit_released`): unit-ball rows, one attribute.
    """
    first = result.rounds(study)[0]
    study, result = first.study, first.result
    layout, calibration = study.table.layout, calibrate(study)
    n_noises = max(1, int(calibration.mechanisms(len(result.header.shares))))
    with one_blas_thread():
        targets = released_targets(
            study.table,
            mean=result.mean,
            second=result.second_moment(study),
            histograms=result.histograms(study),
            entry_noise=released_noise(result, study),
            count_noise=released_noise(result, study, counts=True),
            joint=calibration.law.is_joint,
        )
        if targets is None:
            return None
        visibility = find_visible(
            targets,
            coupling_scales(targets, layout.groups),
            layout.groups,
            n_rows=result.header.n_rows,
            tail_probability=partial(calibration.law.tail, n=n_noises),
        )
    spreads = [
        float(np.sqrt(12 * targets.variance[stop - 1]))
        if layout.kinds[stop - 1] is ColumnKind.NUMERIC
        else None
        for _, stop in layout.groups
    ]
    pairs = len(layout.groups) * (len(layout.groups) - 1) // 2
    above = int(visibility.above.sum()) // 2
    attributes = tuple(
        VisibleAttribute(
            attribute.name,
            above=int(visibility.above[index].sum()),
            strongest=float(visibility.believed[index].max()),
            noise=float(visibility.noise[index]),
            spread=spreads[index],
            alone=bool(visibility.alone[index]),
        )
        for index, attribute in enumerate(study.table.attributes)
    )
    summary = " ".join(_sentences(pairs, above, attributes))
    return VisibleRelations(pairs, above, attributes, summary)


def _sentences(pairs: int, above: int, attributes: Sequence[VisibleAttribute]) -> list[str]:
    alone = [each for each in attributes if each.alone]
    by_chance = f" (up to {FALSE_SHARE:.0%} of these by chance)" if above else ""
    sentences = [
        f"Relations of {above} of {pairs} pairs of attributes stand above the noise{by_chance}."
    ]
    if not alone:
        return sentences
    if len(alone) == len(attributes):
        sentences.append(
            "THE NOISE HIDES RELATIONS: in synthetic rows each attribute varies independently."
        )
    else:
        sentences.append(
            "Noise hides how these relate to the rest. In synthetic rows they vary independently: "
            f"{_names([each.attribute for each in alone])}."
        )
    narrow = [
        each.attribute
        for each in alone
        if each.noise > LOST_FROM and each.spread is not None and each.spread < _LITTLE
    ]
    if narrow:
        sentences.append(
            f"These use little of their range: {_names(narrow)}. In another study, `score: log` or "
            "tighter bounds, if you know some, would show more."
        )
    return sentences


def _names(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    shown = ", ".join(names[:_NAMED])
    return f"{shown} and {more} more" if more > 0 else shown
