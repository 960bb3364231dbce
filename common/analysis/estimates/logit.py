"""Adjusted odds ratios and rate ratios: what a study must have released, and the fit of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from types import MappingProxyType

import numpy as np

from dppca.common.analysis.estimates.answers import Estimate
from dppca.common.analysis.estimates.block import Block
from dppca.common.analysis.estimates.joint_law import JointLaw, joint_law, widest
from dppca.common.analysis.estimates.likelihood import LikelihoodFit, Link, coefficients, predicted
from dppca.common.analysis.estimates.noise import Array
from dppca.common.analysis.estimates.open_law import OpenLaw, open_law
from dppca.common.analysis.estimates.release import ReconciledMoments
from dppca.common.analysis.estimates.scope import EstimateScope
from dppca.common.analysis.estimates.variables import Variable
from dppca.common.kernel.errors import SettingError

ROBUST = "The outcome is in the table: sampling variances are those of the rows (sandwich)."
OF_MODEL = (
    "Rows vary around the model as it says: a robust variance needs the outcome in the table."
)
OPEN = (
    "No table has all regressors: intervals hold all that pairs leave open, whatever the joint law."
)
DISPERSED = (
    "Counts vary by {:.3g} times what a Poisson law says, in all groups alike: for a group that "
    "varies much more than others, intervals are too narrow."
)
NO_VALUE = "No value of {} fits best; its interval holds all that the release does not exclude."


@dataclass(frozen=True, slots=True)
class Regressor:
    """A regressor, or the product of two labels."""

    name: str
    parts: tuple[Variable, ...]

    @property
    def factor(self) -> float:
        """Units of the coded regressor."""
        return float(np.prod([each.factor for each in self.parts]))

    def values(
        self, law: JointLaw | OpenLaw, instead: Mapping[Variable, float] = MappingProxyType({})
    ) -> Array:
        """Return the regressor in its own unit over its factor, at each cell, shape (K,).

        Parts that are in ``instead`` have that value in all cells.
        """
        values = [
            np.full(len(law.codes), instead[each])
            if each in instead
            else law.values(each) + each.offset / each.factor
            for each in self.parts
        ]
        return np.asarray(np.prod(values, axis=0))

    @classmethod
    def product(cls, parts: Sequence[Variable]) -> Regressor:
        """Return the term of a regressor, or of the product of two."""
        return cls(" x ".join(each.name for each in parts), tuple(parts))


@dataclass(frozen=True, slots=True)
class Regression:
    """A fit that a release allows, and what it rests on."""

    fit: LikelihoodFit
    terms: tuple[Regressor, ...]
    told: tuple[str, ...]
    merge: str


def make_regression(
    moments: ReconciledMoments,
    scope: EstimateScope,
    y: Variable,
    terms: Sequence[Regressor],
    link: Link,
) -> Regression:
    """Return the regression of y on terms; `SettingError` says what the study did not release."""
    _check(y, terms, link)
    regressors = list(dict.fromkeys(each.attribute for term in terms for each in term.parts))
    block = moments.block([y.attribute, *regressors])
    one = block.unit(0)
    vectors = [one]
    for term in terms:
        if len(term.parts) == 1:
            own = term.parts[0]
            vectors.append(own.coded(block) + own.offset / own.factor * one)
    asked = (np.array(vectors), np.tile(y.coded(block), (len(vectors), 1)))
    nothing = (np.empty((0, len(one))), np.empty((0, len(one))))
    with_outcome = None
    if link == "logit":
        with_outcome = joint_law(moments, [*regressors, y.attribute], block, nothing)
    law = with_outcome or _law(moments, y, terms, regressors, block, asked)
    for place, axis in enumerate(law.axes):
        if isinstance(law, JointLaw) and axis.widths is not None:
            _require_narrow(moments, law, place, block)
    x = np.column_stack([np.ones(len(law.codes)), *(term.values(law) for term in terms)])
    outcome = None if with_outcome is None else law.values(y)
    fit = LikelihoodFit(law, link, x, outcome, y.factor, y.offset, scope.rows(moments))
    told = [OF_MODEL if outcome is None else ROBUST]
    if isinstance(law, OpenLaw) and len(law.axes) > 2:
        told.append(OPEN)
    if link == "log":
        fit = _dispersed(fit, block, y)
        told[0] = DISPERSED.format(fit.dispersion)
    return Regression(fit, tuple(terms), tuple(told), _rarest(fit, terms))


def estimate_coefficients(
    made: Regression, *, as_ratio: bool
) -> tuple[list[Estimate], Array | None, tuple[str, ...]]:
    """Estimate ``const`` and each term in its own unit, and say what the intervals rest on.

    The second value is the covariance of the estimates, as `coefficients` has it.
    """
    names = ["const", *(each.name for each in made.terms)]
    factors = [1.0, *(each.factor for each in made.terms)]
    found, covariance = coefficients(made.fit, names, factors, as_ratio=as_ratio, merge=made.merge)
    without = [each.name for each in found if each.estimate is None and each.refused is None]
    none = (NO_VALUE.format(", ".join(without)), made.merge) if without else ()
    return found, covariance, (*made.told, *none)


def _check(y: Variable, terms: Sequence[Regressor], link: Link) -> None:
    names = [each.name for each in terms]
    if not names:
        raise SettingError("name a regressor")
    if link == "logit" and y.label is None:
        raise SettingError(
            f"{y.name} is a number: `logit` is of a label, such as ill=yes; ask for `ols`, or of a "
            "count for `poisson`"
        )
    if link == "log" and (y.label is not None or y.lower < 0):
        raise SettingError(f"`poisson` is of a count that is at least 0, and {y.name} is none")
    y.require_complete()
    for term in terms:
        for each in term.parts:
            each.require_everywhere()
            if each.attribute == y.attribute:
                raise SettingError(f"{y.name} is of an attribute that is among its own regressors")
        if len(term.parts) == 2 and term.parts[0].attribute == term.parts[1].attribute:
            raise SettingError(f"{term.name} is a product of an attribute with itself")


def _law(
    moments: ReconciledMoments,
    y: Variable,
    terms: Sequence[Regressor],
    regressors: Sequence[int],
    block: Block,
    asked: tuple[Array, Array],
) -> JointLaw | OpenLaw:
    names = [moments.names.schema.attributes[each].name for each in regressors]
    outcome = moments.names.schema.attributes[y.attribute].name
    if products := [each.name for each in terms if len(each.parts) == 2]:
        raise SettingError(
            f"{products[0]} cannot be known from pairs: it needs a released table of "
            f"{', '.join([*names, outcome])}"
        )
    law = joint_law(moments, regressors, block, asked)
    if law is not None:
        return law
    try:
        return open_law(moments, regressors, block, asked)
    except SettingError as error:
        if not any(each.continued for each in moments.counts):
            raise
        raise SettingError(
            f"{error}; tables of a study that continues another are of rows that may differ"
        ) from None


def _require_narrow(moments: ReconciledMoments, law: JointLaw, place: int, block: Block) -> None:
    """Refuse a number whose cells are wider than its standard deviation."""
    each = moments.names.schema.attributes[law.axes[place].attribute]
    variable = moments.names.variable(each.name)
    coded, width = variable.coded(block), widest(law, place)
    variance = block.value(coded, coded) - block.value(block.unit(0), coded) ** 2
    if width > sqrt(max(variance, 0.0)):
        raise SettingError(
            f"the table's cells of {each.name} are wider than its standard deviation, so that "
            "slopes would be too small: a study needs more cells of it in the table, or narrower "
            "bounds, or its logarithm (score: log)"
        )


def _dispersed(fit: LikelihoodFit, block: Block, y: Variable) -> LikelihoodFit:
    """Return the fit with one dispersion: what of E[y^2] the model's mean leaves, over the mean."""
    solution = fit.solve(fit.begin())
    if solution is None:
        return fit
    coded, one = y.coded(block), block.unit(0)
    square = (
        y.factor**2 * block.value(coded, coded)
        + 2 * y.factor * y.offset * block.value(one, coded)
        + y.offset**2
    )
    mu, _ = predicted(fit.link, fit.x @ solution)
    left, mean = square - fit.law.shares @ mu**2, fit.law.shares @ mu
    dispersion = float(left / mean) if mean > 0 else inf
    if not 0 < dispersion < inf:
        return fit
    return LikelihoodFit(
        *(fit.law, fit.link, fit.x, fit.y, fit.y_factor, fit.y_offset, fit.rows),
        dispersion=dispersion,
    )


def _rarest(fit: LikelihoodFit, terms: Sequence[Regressor]) -> str:
    """Name the label with the fewest events over their noise: merging it may help."""
    labels = [
        place
        for place, term in enumerate(terms)
        if len(term.parts) == 1 and term.parts[0].label is not None
    ]
    if not labels:
        return "Narrower bounds, or fewer regressors, may help."
    target = fit.target()[1:]
    shares = fit.x.T[1:] @ fit.law.shares
    events = [min(target[j], shares[j] - target[j]) for j in labels]
    name = terms[labels[int(np.argmin(events))]].name
    return f"Fewest events are where {name}: merging it with another label may help."
