"""Regressors by their names: numbers, labels, all labels of an attribute but one, and products."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

import numpy as np

from dppca.common.analysis.estimates.formula import Term
from dppca.common.analysis.estimates.logit import Regressor
from dppca.common.analysis.estimates.release import ReconciledMoments
from dppca.common.analysis.estimates.variables import Variable
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema import ColumnKind, Numeric


def find_design(
    moments: ReconciledMoments, x: Sequence[str], reference: Mapping[str, str]
) -> list[Variable]:
    """Return the regressors of names; ``reference`` has the label that is left out, by attribute.

    Raise `SettingError` for a reference of no attribute whose labels enter.
    """
    _require_used(moments, x, reference)
    return [one for each in x for one in _regressors(moments, each, reference)]


def find_terms(
    moments: ReconciledMoments, x: Sequence[Term], reference: Mapping[str, str]
) -> list[Regressor]:
    """Return regressors and products of two, as `find_design`."""
    known = {one: _regressors(moments, one, reference) for term in x for one in term}
    _require_used(moments, known, reference)
    return [
        Regressor.product(parts) for term in x for parts in product(*(known[name] for name in term))
    ]


def describe_references(
    moments: ReconciledMoments, regressors: Sequence[Variable], what: str = "coefficients"
) -> Iterator[str]:
    """Say which label what is estimated of an attribute's other labels is against."""
    names = moments.names
    for place in dict.fromkeys(each.attribute for each in regressors if each.label is not None):
        known = {each.label for each in regressors if each.attribute == place}
        own, against = names.schema.attributes[place], names.left_out(place, known)
        if against is not None:
            yield f"{own.name}: {what} are against {against}."
        elif None in known and isinstance(own, Numeric):
            middle = own.format_value(own.middle)
            yield f"{own.name}=missing: its coefficient is against {own.name} of {middle}."


def per_unit(regressors: Sequence[Variable]) -> tuple[str, ...]:
    """Say of which numbers a coefficient is for one unit."""
    numbers = [each.name for each in regressors if each.label is None]
    return (f"{', '.join(numbers)}: for one unit more.",) if numbers else ()


def _require_used(
    moments: ReconciledMoments, x: Iterable[str], reference: Mapping[str, str]
) -> None:
    whole = [each for each in x if _has_all_labels(moments, each)]
    if unused := [repr(each) for each in reference if each not in whole]:
        raise SettingError(
            f"{', '.join(unused)} in reference is no attribute whose labels all enter but one: "
            f"{', '.join(whole) or 'there is none'}"
        )


def _has_all_labels(moments: ReconciledMoments, name: str) -> bool:
    place, label = moments.names.find(name)
    return label is None and moments.names.kind(place) is ColumnKind.INDICATOR


def _regressors(
    moments: ReconciledMoments, name: str, reference: Mapping[str, str]
) -> list[Variable]:
    names = moments.names
    place, _ = names.find(name)
    size = len(names.labels[place] or ())
    if not _has_all_labels(moments, name):
        found = names.variable(name)
        found.require_column()
        more = [] if found.absent is None else [names.indicator(place, size - 1)]
        return [found, *more]
    if name in reference:
        left_out = names.label(place, reference[name])
    else:
        masks = [{place: row} for row in np.eye(size, dtype=bool)]
        left_out = int(np.argmax(moments.shares(masks).values))
    return [names.indicator(place, code) for code in range(size) if code != left_out]
