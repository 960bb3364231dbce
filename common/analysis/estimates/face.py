"""The questions that a released result answers, any number of them, at no further cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from dppca.common.analysis.estimates.answers import EXPLORATORY, Estimate, EstimateAnswer
from dppca.common.analysis.estimates.correlations import estimate_correlation
from dppca.common.analysis.estimates.formula import read_formula
from dppca.common.analysis.estimates.means import (
    estimate_bounds,
    estimate_difference,
    estimate_groups,
    estimate_mean,
    estimate_shares,
    require_groups,
)
from dppca.common.analysis.estimates.regression import design, estimate_ols
from dppca.common.analysis.estimates.regressors import (
    describe_references,
    find_design,
    find_terms,
    per_unit,
)
from dppca.common.analysis.estimates.release import ReconciledMoments, released_moments
from dppca.common.analysis.estimates.scope import EstimateScope
from dppca.common.analysis.estimates.tables import (
    DRAWS,
    estimate_cells,
    estimate_independence,
    estimate_ratio,
)
from dppca.common.analysis.estimates.variables import Variable, shorten_list
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema import Numeric
from dppca.common.kernel.schema.units import Person

if TYPE_CHECKING:
    from dppca.common.analysis.estimates.formula import Term
    from dppca.common.analysis.estimates.likelihood import Link
    from dppca.common.analysis.estimates.summaries import Summary
    from dppca.common.kernel.attestation.results import Published

Variance = Literal["constant", "bound", "sandwich"]
_POPULATION = EstimateScope()
_BEYOND = (
    "The noise took an estimate beyond what is possible: its interval is that of the nearest "
    "possible value."
)
_OLS = {
    "constant": "Rows vary around the line by the same variance everywhere (constant variance).",
    "bound": "A share's variance is taken to be the most it can be, 1/4.",
    "sandwich": "How rows vary around the line is taken from rows of the fitted field.",
    "table": "How rows vary around the line is taken from a released table (sandwich).",
}
_NUMBERS = (
    "How rows vary around the line may depend on all else: the most that their bounds allow is "
    "taken, and intervals are wide."
)
_SAMPLING = {
    False: "Sampling is normal theory.",
    True: "Sampling is the most that the bounds allow, and intervals are wide.",
}


# What answers a question is imported where it is asked: a forecast before consent asks few.


class HasRelease(Protocol):
    """Whatever has a released result, such as `dppca.Components` or `dppca.Simulation`."""

    @property
    def released(self) -> Published:
        """Study and result."""


def estimates(
    result: HasRelease | Published, *, these_rows: bool = False, population: int | None = None
) -> Estimates:
    """Answer questions from a released result, with intervals that count its noise.

    This is post-processing: any number of answers costs no privacy.

    Parameters
    ----------
    result
        From `dppca.read_result` or `dppca.simulate`.
    these_rows
        Intervals are for the rows themselves, with the noise alone; by default for the population
        that they are a random sample of.
    population
        Number of its members, if that is finite and known.

    Raises
    ------
    SettingError
        ``result`` is no result, or the population is smaller than the rows.
    """
    from dppca.common.kernel.attestation.results import Published

    if not isinstance(result, Published) and not hasattr(result, "released"):
        raise SettingError("give a result: dppca.read_result(FILE, ca=...), or dppca.simulate(...)")
    published = result if isinstance(result, Published) else result.released
    moments, scope = released_moments(published), EstimateScope(these_rows, population)
    scope.check(moments.n_rows)
    return Estimates(moments, scope)


@dataclass(frozen=True)
class Estimates:
    """Answers from one release; labels are named ``attribute=label``.

    Each method returns an `EstimateAnswer`; `SettingError` says what the study did not release. In
    the examples ``asked`` is ``dppca.estimates(result)``, of 6,000 rows of three owners.
    """

    moments: ReconciledMoments
    scope: EstimateScope = _POPULATION

    def mean(self, y: str, by: str | None = None) -> EstimateAnswer:
        """Estimate the mean of a number, or its means where ``by`` has each of its labels.

        >>> asked.mean("age").to_frame()[["estimate", "low", "high"]].round(1)
             estimate   low  high
        age      44.9  44.2  45.5
        >>> asked.mean("age", by="sex").params.round(1)
        array([44.2, 45.6])
        """
        place, label = self.moments.names.find(y)
        in_bins = self.moments.names.schema.attributes[place].name in (
            self.moments.study.table.products_of_bins
        )
        if label is None and in_bins:
            if by is not None:
                raise SettingError(f"{y} enters products by its bins: ask for their shares by {by}")
            found = [estimate_bounds(self.moments, self.scope, place)]
            return self._answer(f"mean of {y}", found, place)
        variable = self.moments.names.variable(y)
        if by is not None:
            return self._grouped(variable, by)
        if variable.label is not None:
            return self.proportion(y)
        found = [estimate_mean(self.moments, self.scope, variable)]
        return self._answer(f"mean of {y}", found, place)

    def proportion(self, y: str, by: str | None = None) -> EstimateAnswer:
        """Estimate the share of ``attribute=label``, or of each label of an attribute.

        >>> asked.proportion("ill=yes").to_frame()[["estimate", "low", "high"]].round(3)
                 estimate    low   high
        ill=yes     0.315  0.302  0.327
        >>> asked.proportion("region").names
        ('region=north', 'region=east', 'region=south', 'region=west')
        """
        place, label = self.moments.names.find(y)
        labels = self.moments.names.labels[place]
        if labels is None:
            raise SettingError(f"{y} has no labels and no cells: ask for its mean")
        if by is not None:
            return self._grouped(self.moments.names.variable(y), by)
        codes = range(len(labels)) if label is None else [label]
        found = estimate_shares(self.moments, self.scope, place, codes)
        return self._answer(f"shares of {y}", found, place)

    def difference(self, y: str, by: str, labels: Sequence[str] | None = None) -> EstimateAnswer:
        """Estimate a mean, or a share, where ``by`` has the first label less where the second.

        ``labels`` may be left out for a binary: its second less its first.

        >>> asked.difference("score", by="sex").to_frame()[["estimate", "low", "high"]].round(1)
                                 estimate  low  high
        score: sex=m less sex=f       5.4  3.4   7.3
        >>> asked.difference("score", by="region", labels=["south", "north"]).names
        ('score: region=south less region=north',)
        """
        variable, place = self.moments.names.variable(y), self.moments.names.attribute(by)
        require_groups(self.moments, variable, place)
        known = self.moments.names.labels[place] or ()
        if labels is None and len(known) == 2:
            labels = known[::-1]
        if labels is None or len(labels) != 2 or labels[0] == labels[1]:
            raise SettingError(
                f"a difference compares two labels of {by}: give them (--labels FIRST SECOND, or "
                f"labels= in Python), of {shorten_list(known)}"
            )
        first, second = (self.moments.names.label(place, each) for each in labels)
        found = estimate_difference(self.moments, self.scope, variable, place, (first, second))
        places = (variable.attribute, place)
        return self._answer(f"difference of {y}", [found], *places, more=self._common(variable))

    def table(self, row: str, column: str) -> EstimateAnswer:
        """Estimate the share of the rows in each cell of the table of two attributes.

        >>> asked.table("sex", "ill").to_frame()[["estimate", "low", "high"]].round(2)
                        estimate   low  high
        sex=f, ill=no       0.41  0.39  0.42
        sex=f, ill=yes      0.09  0.08  0.10
        sex=m, ill=no       0.28  0.27  0.29
        sex=m, ill=yes      0.22  0.21  0.23
        """
        places = [self.moments.names.attribute(each) for each in (row, column)]
        found = estimate_cells(self.moments, self.scope, *places)
        return self._answer(f"table of {row} and {column}", found, *places)

    def independence(self, row: str, column: str) -> EstimateAnswer:
        """Test whether two attributes are independent (Monte Carlo), and estimate Cramer's V.

        >>> asked.independence("sex", "ill").to_frame()[["estimate", "pvalue"]].round(3)
                      estimate  pvalue
        independence   361.729   0.001
        Cramer's V       0.274     NaN
        """
        places = [self.moments.names.attribute(each) for each in (row, column)]
        found = estimate_independence(self.moments, self.scope, *places)
        title, most = f"independence of {row} and {column}", f"{1 / (DRAWS + 1):g}"
        more = (f"The p-value is of {DRAWS} simulated tables: {most} is the least that it can be.",)
        return self._answer(title, found, *places, more=more)

    def odds_ratio(self, x: str, y: str, against: str | None = None) -> EstimateAnswer:
        """Estimate the odds ratio of label y, where label x beside all others, or one of them.

        >>> found = asked.odds_ratio("sex=m", "ill=yes")
        >>> found.names, found.params.round(2), found.conf_int().round(2)
        (('odds ratio of ill=yes, sex=m to other rows',), array([3.44]), array([[2.95, 4.02]]))
        """
        return self._ratio(x, y, against, odds=True)

    def relative_risk(self, x: str, y: str, against: str | None = None) -> EstimateAnswer:
        """Estimate the relative risk of label y, as `odds_ratio`.

        >>> found = asked.relative_risk("region=south", "ill=yes", against="north")
        >>> found.params.round(2), found.conf_int().round(2)
        (array([0.93]), array([[0.79, 1.09]]))
        """
        return self._ratio(x, y, against, odds=False)

    def correlation(self, *names: str) -> EstimateAnswer:
        """Estimate the correlation of each pair of numbers or labels.

        >>> asked.correlation("age", "years", "score").to_frame()[["estimate", "bse"]].round(2)
                          estimate   bse
        age with years        0.32  0.07
        age with score        0.42  0.12
        years with score      0.59  0.15
        """
        variables = [self.moments.names.variable(each) for each in names]
        if len(variables) < 2:
            raise SettingError("name two numbers or labels")
        pairs = [(a, b) for i, a in enumerate(variables) for b in variables[i + 1 :]]
        found = [estimate_correlation(self.moments, self.scope, *pair) for pair in pairs]
        people = isinstance(self.moments.study.unit, Person)
        normal = () if self.scope.these_rows else (_SAMPLING[people],)
        places = [each.attribute for each in variables]
        return self._answer("correlation", found, *places, more=normal)

    def ols(
        self,
        y: str,
        x: Sequence[str],
        *,
        variance: Variance | None = None,
        reference: Mapping[str, str] | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> EstimateAnswer:
        """Fit a linear regression; what the noise does not bound has no end.

        Parameters
        ----------
        y
            A number, or a label.
        x
            Numbers, labels, and attributes whose labels all enter but one. A number that may be
            missing brings the indicator of that with it.
        variance
            How rows vary: ``constant``; ``bound``, the most that is possible (by default for
            people's numbers); or ``sandwich`` (by default for a label), from a released table of
            all labels, or else from the fitted field, which takes seconds; without either it is the
            bound, at most 1/4. Not for these rows alone.
        reference
            The label that is left out, by attribute; by default the largest.
        progress
            Called with the finished share of the field's fit.

        Examples
        --------
        >>> asked.ols("score", ["age", "sex=m"]).to_frame()[["estimate", "bse"]].round(2)
               estimate   bse
        const     33.13  2.52
        age        0.21  0.06
        sex=m      5.11  1.01
        >>> asked.ols("score", ["region"], reference={"region": "west"}).names
        ('const', 'region=north', 'region=east', 'region=south')
        """
        if variance is not None and self.scope.these_rows:
            raise SettingError("a variance has no meaning for these rows alone")
        outcome = self.moments.names.variable(y)
        regressors = find_design(self.moments, x, reference or {})
        if variance is not None and variance not in get_args(Variance):
            raise SettingError(f"{variance} is no variance; take constant, bound or sandwich")
        if variance == "sandwich" and outcome.label is None:
            raise SettingError(f"{variance} is for a label; of {y}, take bound or constant")
        found, covariance, used = estimate_ols(
            self.moments, self.scope, outcome, regressors, variance, progress
        )
        said = _NUMBERS if used == "bound" and outcome.label is None else _OLS[used]
        assumed = (
            *describe_references(self.moments, regressors),
            *(() if self.scope.these_rows else (said,)),
        )
        places = [outcome.attribute, *(each.attribute for each in regressors)]
        answer = self._answer(f"regression of {y}", found, *places, more=assumed)
        return replace(answer, covariance=covariance)

    def logit(
        self,
        y: str,
        x: Sequence[str | Term] | None = None,
        *,
        reference: Mapping[str, str] | None = None,
        log: bool = False,
    ) -> EstimateAnswer:
        """Estimate adjusted odds ratios, as a logistic regression of all rows would.

        Of labels without a released table, intervals hold what pairs leave open; numbers need a
        table with their cells. What the release does not bound has an end at 0 or infinity.

        Parameters
        ----------
        y
            A label, such as ``ill=yes``, or a formula, such as ``ill ~ age + sex``.
        x
            Names as for `ols`; two in a pair are an interaction, which needs the outcome in the
            table. Not with a formula.
        reference
            The label that is left out, by attribute; by default the largest.
        log
            Give log odds, not odds ratios.

        Examples
        --------
        >>> asked.logit("ill ~ sex + region").to_frame()[["estimate", "low", "high"]].round(2)
                      estimate   low  high
        const             0.24  0.21  0.28
        sex=m             3.46  2.96  4.04
        region=east       0.97  0.82  1.14
        region=south      0.86  0.67  1.09
        region=west       0.77  0.54  1.07
        """
        return self._likelihood("logit", y, x, reference or {}, log=log)

    def poisson(
        self,
        y: str,
        x: Sequence[str | Term] | None = None,
        *,
        reference: Mapping[str, str] | None = None,
        log: bool = False,
    ) -> EstimateAnswer:
        """Estimate adjusted ratios of the mean of a count; names, formula and needs as `logit`.

        >>> asked.poisson("years ~ sex").to_frame()[["estimate", "low", "high"]].round(2)
               estimate   low  high
        const      9.69  9.46  9.93
        sex=m      0.99  0.95  1.03
        """
        return self._likelihood("log", y, x, reference or {}, log=log)

    def marginal_effects(
        self,
        y: str,
        x: Sequence[str | Term] | None = None,
        *,
        reference: Mapping[str, str] | None = None,
    ) -> EstimateAnswer:
        """Estimate average marginal effects of `logit`: adjusted differences of the share of y.

        That of a label is the mean predicted share if all rows had it, less that if all had the
        label that is left out; that of a number is the mean slope, for one unit. Arguments, needs
        and refusals are those of `logit`.

        >>> found = asked.marginal_effects("ill ~ sex + region")
        >>> found.to_frame()[["estimate", "low", "high"]].round(3)
                      estimate    low   high
        sex=m            0.255  0.226  0.285
        region=east     -0.007 -0.040  0.026
        region=south    -0.031 -0.078  0.017
        region=west     -0.051 -0.113  0.013
        """
        from dppca.common.analysis.estimates.effects import estimate_effects
        from dppca.common.analysis.estimates.logit import make_regression

        name, names = read_formula(y, x)
        outcome = self.moments.names.variable(name)
        terms = find_terms(self.moments, names, reference or {})
        made = make_regression(self.moments, self.scope, outcome, terms, "logit")
        found, covariance, told = estimate_effects(made)
        regressors = list(dict.fromkeys(part for term in terms for part in term.parts))
        against = describe_references(self.moments, regressors, "effects")
        places = [outcome.attribute, *(each.attribute for each in regressors)]
        more = (*against, *per_unit(regressors), *told)
        title = f"adjusted differences of the share of {outcome.name} (average marginal effects)"
        answer = self._answer(title, found, *places, more=more)
        return replace(answer, covariance=covariance)

    def _likelihood(
        self,
        link: Link,
        y: str,
        x: Sequence[str | Term] | None,
        reference: Mapping[str, str],
        *,
        log: bool,
    ) -> EstimateAnswer:
        from dppca.common.analysis.estimates.logit import estimate_coefficients, make_regression

        name, names = read_formula(y, x)
        outcome = self.moments.names.variable(name)
        terms = find_terms(self.moments, names, reference)
        made = make_regression(self.moments, self.scope, outcome, terms, link)
        found, covariance, told = estimate_coefficients(made, as_ratio=not log)
        regressors = list(dict.fromkeys(part for term in terms for part in term.parts))
        of = {"logit": ("odds ratios", "log odds"), "log": ("ratios of means", "log ratios")}
        places = [outcome.attribute, *(each.attribute for each in regressors)]
        more = (*describe_references(self.moments, regressors), *per_unit(regressors), *told)
        title = f"adjusted {of[link][log]} of {outcome.name}"
        answer = self._answer(title, found, *places, more=more)
        return replace(answer, covariance=covariance, ratios=not log)

    def strengths(
        self, x: Sequence[str], *, reference: Mapping[str, str] | None = None
    ) -> dict[str, float]:
        """Return how far each regressor of `ols` is above its noise, by name; 2 bound its interval.

        >>> {name: round(strength) for name, strength in asked.strengths(["age", "sex=m"]).items()}
        {'age': 18, 'sex=m': 669}
        """
        regressors = find_design(self.moments, x, reference or {})
        block = self.moments.block([each.attribute for each in regressors])
        found = design(block, regressors).strengths
        return {each.name: float(s) for each, s in zip(regressors, found, strict=True)}

    def components(self, count: int | None = None) -> EstimateAnswer:
        """Estimate eigenvalues, shares, loadings and the angle of the first components.

        ``count`` is the study's by default. Sampling is normal theory; angles are for these rows.

        >>> asked.components(1).to_frame()[["estimate", "low", "high"]].round(2).head(2)
                      estimate   low  high
        eigenvalue 1      0.46  0.44  0.48
        share 1           0.23  0.22  0.24
        """
        from dppca.common.analysis.estimates.components import estimate_components

        published = self.moments.published
        if published is None or not published.result.header.count:
            raise SettingError("there are no released components")
        header = published.result.header
        found = estimate_components(
            self.moments, self.scope, count or header.count, header.noise_edge
        )
        normal = () if self.scope.these_rows else ("Sampling is normal theory.",)
        return self._answer("components", found, more=normal)

    def median(self, y: str, by: str | None = None) -> EstimateAnswer:
        """Estimate the median of a number, or its medians where ``by`` has each of its labels.

        >>> counted.median("visits").to_frame()[["estimate", "low", "high"]]
                          estimate  low  high
        median of visits       2.0  2.0   2.0
        >>> counted.median("age", by="sex").conf_int()
        array([[47., 54.],
               [55., 58.]])
        """
        return self._quantiles(f"median of {y}", y, [0.5], by)

    def quantile(self, y: str, *levels: float, by: str | None = None) -> EstimateAnswer:
        """Estimate quantiles of a number, by default its quartiles, as `median`.

        >>> counted.quantile("age", 0.1, 0.9).conf_int()
        array([[30., 33.],
               [71., 74.]])
        """
        from dppca.common.analysis.estimates.quantiles import QUARTILES, check_level

        known = [check_level(each) for each in levels or QUARTILES]
        return self._quantiles(f"quantiles of {y}", y, known, by)

    def iqr(self, y: str, by: str | None = None) -> EstimateAnswer:
        """Estimate the distance of a number's quartiles, as `median`.

        >>> counted.iqr("visits").conf_int()
        array([[2., 2.]])
        """
        from dppca.common.analysis.estimates.quantiles import estimate_iqr

        place, group = self._number(y), None if by is None else self.moments.names.attribute(by)
        found = estimate_iqr(self.moments, self.scope, place, group)
        return self._of_cells(f"interquartile range of {y}", found, place, group)

    def sd(self, y: str, by: str | None = None) -> EstimateAnswer:
        """Estimate the standard deviation of a number, of all rows or for each label of ``by``.

        By label it needs a table of the number's cells; where these hold several values, the
        interval is all that is known.

        >>> counted.sd("age").to_frame()[["estimate", "low", "high"]].round(1)
                                   estimate   low  high
        standard deviation of age      15.3  14.6  16.0
        >>> counted.sd("age", by="sex").conf_int().round(1)
        array([[12.5, 16.2],
               [13.1, 16.5]])
        """
        from dppca.common.analysis.estimates.spreads import estimate_spread, estimate_spreads

        place, group = self._number(y), None if by is None else self.moments.names.attribute(by)
        title = f"standard deviation of {y}"
        try:
            variable = self.moments.names.variable(y)
        except SettingError:
            variable = None
        if group is None and variable is not None and not variable.gappy:
            found = [estimate_spread(self.moments, self.scope, variable)]
            return self._answer(title, found, place)
        found = estimate_spreads(self.moments, self.scope, place, group)
        return self._of_cells(title, found, place, group)

    def summary(self, *names: str, by: str | None = None) -> Summary:
        """Return Table 1: attributes in numbers, by default all, where ``by`` has each label.

        >>> found = counted.summary("sex", "visits")
        >>> found.to_frame()[["variable", "statistic", "label", "estimate"]].round(2).head(4)
          variable statistic label  estimate
        0     rows         n         6000.00
        1      sex     share     f      0.50
        2      sex     share     m      0.50
        3   visits      mean            1.97
        """
        from dppca.common.analysis.estimates.summaries import Summary, summarize

        own = self.moments.names
        wanted = names or tuple(each.name for each in own.schema.attributes)
        places = [own.attribute(each) for each in wanted]
        group = None if by is None else own.attribute(by)
        found, cells, left_out = summarize(self.moments, self.scope, places, group)
        every = dict.fromkeys([*places, *(() if group is None else (group,))])
        answer = self._answer("Table 1" + ("" if by is None else f" by {by}"), found, *every)
        return Summary(
            *(answer.title, answer.estimates, answer.moments, answer.scope, answer.assumptions),
            cells=tuple(cells),
            left_out=tuple(left_out),
        )

    def survival(self, time: str, event: str, by: str | None = None) -> EstimateAnswer:
        """Estimate a life table and median survival; of groups, with a log-rank test.

        ``event`` is a label, such as ``died=yes``, or a binary, whose second label it is.

        >>> followed.survival("month", "died").to_frame()[["estimate", "low", "high"]].round(2)
                         estimate   low  high
        survival to 1        0.79  0.78  0.80
        survival to 2        0.62  0.60  0.63
        survival to 3        0.48  0.47  0.50
        survival to 4        0.38  0.36  0.39
        survival to 5        0.30  0.28  0.31
        median survival       NaN  2.00  3.00
        """
        from dppca.common.analysis.estimates import survival
        from dppca.common.analysis.estimates.quantiles import quantile_sentences

        place, outcome = self.moments.names.attribute(time), self.moments.names.variable(event)
        if outcome.label is None:
            raise SettingError(f"{event} is not a label: name one, such as died=yes")
        group = None if by is None else self.moments.names.attribute(by)
        found = survival.follow_up(self.moments, place, (outcome.attribute, outcome.label), group)
        answers = survival.estimate_life_table(self.moments, self.scope, found)
        if by is not None and not self.scope.these_rows:
            answers.append(survival.estimate_log_rank(self.moments, self.scope, found))
        title = f"survival by {time} to {outcome.name}" + ("" if by is None else f", by {by}")
        others = (outcome.attribute, *(() if group is None else (group,)))
        told = (
            *survival.survival_sentences(by is not None),
            *quantile_sentences(self.moments, place),
        )
        return self._answer(title, answers, *others, more=told)

    def _quantiles(
        self, title: str, y: str, levels: Sequence[float], by: str | None
    ) -> EstimateAnswer:
        from dppca.common.analysis.estimates.quantiles import estimate_quantiles

        place, group = self._number(y), None if by is None else self.moments.names.attribute(by)
        found = estimate_quantiles(self.moments, self.scope, place, levels, group)
        return self._of_cells(title, found, place, group)

    def _number(self, name: str) -> int:
        place, label = self.moments.names.find(name)
        own = self.moments.names.schema.attributes[place]
        if label is not None or not isinstance(own, Numeric):
            raise SettingError(f"{name} is not a number: ask for `share`")
        return place

    def _of_cells(
        self, title: str, found: Sequence[Estimate], place: int, group: int | None
    ) -> EstimateAnswer:
        from dppca.common.analysis.estimates.quantiles import quantile_sentences

        told = tuple(quantile_sentences(self.moments, place))
        title += "" if group is None else f" by {self.moments.names.schema.attributes[group].name}"
        return self._answer(title, found, *(() if group is None else (group,)), more=told)

    def _ratio(self, x: str, y: str, against: str | None, *, odds: bool) -> EstimateAnswer:
        (row, label), (column, outcome) = (self.moments.names.find(each) for each in (x, y))
        if label is None or outcome is None:
            raise SettingError("name two labels, such as sex=female and ill=yes")
        other = None if against is None else self.moments.names.label(row, against)
        found = estimate_ratio(
            *(self.moments, self.scope, (row, label), (column, outcome)), against=other, odds=odds
        )
        answer = self._answer("odds ratio" if odds else "relative risk", [found], row, column)
        return replace(answer, ratios=True)

    def _grouped(self, variable: Variable, by: str) -> EstimateAnswer:
        place = self.moments.names.attribute(by)
        found = estimate_groups(self.moments, self.scope, variable, place)
        places, title = (variable.attribute, place), f"{variable.name} by {by}"
        return self._answer(title, found, *places, more=self._common(variable))

    def _common(self, variable: Variable) -> tuple[str, ...]:
        if variable.label is not None or self.scope.these_rows:
            return ()
        return ("The outcome's variance is the same in each group.",)

    def _answer(
        self, title: str, found: Sequence[Estimate], *places: int, more: tuple[str, ...] = ()
    ) -> EstimateAnswer:
        meanings = tuple(self.moments.names.meaning(each) for each in dict.fromkeys(places))
        told = meanings and (
            *(f"{each}." for each in meanings),
            "How many rows this concerns is not released, and not in the intervals.",
        )
        beyond = (_BEYOND,) if any(each.beyond for each in found) else ()
        other = (EXPLORATORY,) if self.moments.study.questions else ()
        assumed = (*self.scope.sentences(self.moments), *more, *beyond, *told, *other)
        return EstimateAnswer(title, tuple(found), self.moments, self.scope.text, assumed)
