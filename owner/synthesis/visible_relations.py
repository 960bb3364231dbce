"""Which relations a study's result shows above its noise, as figures and in words.

Before a study nobody knows how much of its bounds a numeric fills, so the warning of
`dppca.common.relations` takes it to fill them. A result says more, at no privacy cost:
`dppca.common.numerics.synthesis.visibility` judges the released moments.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from dppca.common.documents import VisibleRelationsDocument
from dppca.common.numerics.synthesis.rows import released_targets
from dppca.common.numerics.synthesis.targets import coupling_scales
from dppca.common.numerics.synthesis.visibility import FALSE_SHARE, find_visible
from dppca.common.numerics.threads import one_blas_thread
from dppca.common.privacy.release import calibrate
from dppca.common.relations import LOST_FROM
from dppca.common.results import Result
from dppca.common.schema import ColumnKind
from dppca.common.study import Study
from dppca.owner.synthesis.rows import released_noise

_NAMED = 8
_LITTLE = 0.25
"""A numeric whose deviation is a smaller part of that of evenly spread values fills few bounds."""


def judge_result(result: Result, study: Study) -> VisibleRelationsDocument | None:
    """Judge the relations of every attribute in what a study released.

    Returns
    -------
    VisibleRelationsDocument or None
        None where no field can be fitted (`fit_released`): unit-ball rows, one attribute.
    """
    layout, calibration = study.table.layout, calibrate(study)
    n_noises = max(1, int(calibration.mechanisms(len(result.header.shares))))
    with one_blas_thread():
        targets = released_targets(
            study.table,
            mean=result.mean,
            second=result.second_moment(study),
            histograms=result.histograms(study),
            entry_noise=released_noise(result, study),
        )
        if targets is None:
            return None
        visibility = find_visible(
            targets,
            coupling_scales(targets, layout.groups),
            layout.groups,
            n_rows=result.header.n_rows,
            tail=partial(calibration.law.tail, n=n_noises),
        )
    spreads = [
        float(np.sqrt(12 * targets.variance[start]))
        if layout.kinds[start] is ColumnKind.NUMERIC
        else None
        for start, _ in layout.groups
    ]
    found: VisibleRelationsDocument = {
        "pairs": len(layout.groups) * (len(layout.groups) - 1) // 2,
        "above": int(visibility.above.sum()) // 2,
        "attributes": [
            {
                "attribute": attribute.name,
                "above": int(visibility.above[index].sum()),
                "strongest": float(visibility.believed[index].max()),
                "noise": float(visibility.noise[index]),
                "spread": spreads[index],
                "alone": bool(visibility.alone[index]),
            }
            for index, attribute in enumerate(study.table.attributes)
        ],
        "summary": "",
    }
    return {**found, "summary": " ".join(_sentences(found))}


def _sentences(found: VisibleRelationsDocument) -> list[str]:
    alone = [each for each in found["attributes"] if each["alone"]]
    by_chance = f" (up to {FALSE_SHARE:.0%} of these by chance)" if found["above"] else ""
    said = [
        f"Relations of {found['above']} of {found['pairs']} pairs of attributes stand above the "
        f"noise{by_chance}."
    ]
    if not alone:
        return said
    if len(alone) == len(found["attributes"]):
        said.append(
            "THE NOISE HIDES RELATIONS: rows that are drawn from the field have each attribute on "
            "its own."
        )
    else:
        said.append(
            "The release shows no relation of these with others, and rows that are drawn from the "
            f"field have them on their own: {_names([each['attribute'] for each in alone])}."
        )
    narrow = [
        each["attribute"]
        for each in alone
        if each["noise"] > LOST_FROM and each["spread"] is not None and each["spread"] < _LITTLE
    ]
    if narrow:
        said.append(
            f"The values of these fill little of their bounds: {_names(narrow)}. In another study, "
            "`score: log` or closer bounds, if such are known, would show more."
        )
    return said


def _names(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    shown = ", ".join(names[:_NAMED])
    return f"{shown} and {more} more" if more > 0 else shown
