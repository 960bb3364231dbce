"""Replicates: tables that show how much an estimate varies by the noise of a study.

Replicate i of M is drawn as the published rows are, from the release to which the study's own law
of noise was added once more, from a public seed: the result's digest and i. It is made of the
release alone, so it costs nothing; the mean of many is the release itself, which is public.

With U the real rows' sampling, E the released noise, U' the drawing of rows and J the estimator's
derivative, the published table estimates theta + J(U + E + U'), and a replicate
theta + J(U + E + E' + U'). Given the release, the replicates' variance is B = Var(E) + Var(U'); E
itself is common to all and is not counted twice. Var(U) is what the estimator's own formula says, u
at the n_p rows of the table, so n_p u / n at the n real rows (`combine`)::

    published estimate +- t sqrt(n_p u / n + B),   (M - 1) (1 + n_p u / (n B))^2 degrees of freedom
    for these rows     +- t sqrt(B),               M - 1 degrees of freedom

The rule holds whatever Var(U') is, as it has to: the field draws rows under quotas, so they vary
less than independent ones. Reiter's u + B / M and Raghunathan's (1 + 1/M) B - u (both 2003) are
meant for other tables and would be too narrow.

Limits: a relation that the field shrinks or cannot hold is biased in every table, and B does not
show it: a logistic coefficient of age on Adult is three to five standard errors off at epsilon 1,
3 and 50 alike. For what `dppca.estimates` answers, that is better.
"""

import hashlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from dppca.common.analysis.estimators.base.masks import require_plain
from dppca.common.analysis.field.missed import Missed, missed_text
from dppca.common.analysis.rows.synthesis import SyntheticRows, make_generator, synthesize
from dppca.common.analysis.spectrum.noise import NoiseSource
from dppca.common.kernel.attestation.claims import LEAST_REPLICATES, Replicate
from dppca.common.kernel.attestation.envelopes import signed_digest
from dppca.common.kernel.attestation.results import Published, Result, result_to_bytes
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.moments.moments import unpack_mean
from dppca.common.kernel.privacy.counted_rows import require_rows
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study

REPLICATES = 10
"""Replicates by default: intervals are 6 % wider than with 20, which papers may prefer."""


def draw_replicate(
    result: Result,
    study: Study,
    which: Replicate,
    *,
    n_rows: int,
    progress: Callable[[float], None] | None = None,
) -> SyntheticRows:
    """Fit the law of one replicate's rows, which are decoded, and return rows drawn from it.

    Raise `SettingError` unless they come from a field: rows brought to valid values by thresholds
    do not vary as the noise does. Other parameters and errors as for `synthesize`.
    """
    release = bytes.fromhex(which.release)
    rng = make_generator("noise of a replicate", release, which.number)
    noised = _add_noise(Published(study, result), rng)
    drawn = synthesize(
        noised,
        study,
        Form.DECODED,
        n_rows=n_rows,
        rng=make_generator(f"replicate {which.number}", release, n_rows),
        replicate=which,
        progress=progress,
    )
    if drawn.method is None or not drawn.method.of_field:
        raise SettingError(
            f"replicate {which.number} cannot be drawn from a field ({drawn.method}): use "
            "`estimate`, which needs no rows"
        )
    return drawn


def _add_noise(published: Published, rng: np.random.Generator) -> Result:
    """Return a result whose sums have the law of their noise once more.

    Its spectrum stays as it was: rows of a field do not depend on it. Raise `TooFewRowsError` if a
    noised number of rows, drawn once more, is refused.
    """
    result, study = published.result, published.study
    calibration, rows = calibrate(study), result.header.owner_rows
    source = NoiseSource(
        rng,
        study.table.layout,
        law=calibration.law,
        width=calibration.law.width,
        owner_rows=rows,
        own_means=False,
        mechanisms=calibration.mechanisms(len(rows)),
    )
    noise, layout = source.packed()[0], study.table.layout
    counts = calibration.of_counts
    if counts.law is not calibration.law:  # counts are shared as their own law is
        drawn = counts.law.of_entries.standard_sum(
            counts.mechanisms(len(rows)), layout.n_cells, rng
        )
        cells = slice(layout.n_moments, layout.n_moments + layout.n_cells)
        noise[cells] = np.rint(counts.law.width * drawn)
    pooled = result.pooled + noise.astype(np.int64)
    header, before = result.header, result.first
    if study.has_secret_rows:
        counted = require_rows(pooled, layout, calibration, n_owners=len(rows))
        header = replace(header, estimated_rows=counted)
    mean = unpack_mean(pooled, header.n_rows, layout)
    if before is not None:
        before = replace(before, result=_add_noise(before, rng))
    return replace(result, header=header, pooled=pooled, mean=mean, first=before)


class _Holder(Protocol):
    """What has the release of a study."""

    @property
    def released(self) -> Published:
        """The study and its result."""


@dataclass(frozen=True, slots=True)
class Replicates:
    """Replicates of a release, tables of Arrow that are drawn while they are read.

    Attributes
    ----------
    published
        The table that they belong to, drawn from the release itself.
    count, n_rows
        How many replicates there are, and the rows of each and of ``published``.
    study_rows
        Real rows of all owners.
    """

    release: Published
    digest: str
    count: int
    n_rows: int

    @property
    def study_rows(self) -> int:
        """Rows of all owners that took part."""
        return self.release.result.header.n_rows

    @property
    def published(self) -> Any:
        """Rows drawn from the release itself; warns of what they miss of it."""
        drawn = self._drawn
        if drawn.missed:
            warnings.warn(missed_text(drawn.missed), stacklevel=2)
        return _table(drawn)

    @property
    def missed(self) -> tuple[Missed, ...]:
        """What the release knows and the published rows miss, the largest difference first."""
        return self._drawn.missed

    @property
    def _drawn(self) -> SyntheticRows:
        rng = make_generator("published beside replicates", bytes.fromhex(self.digest), self.n_rows)
        result, study = self.release.result, self.release.study
        return synthesize(result, study, Form.DECODED, n_rows=self.n_rows, rng=rng)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Any]:
        result, study = self.release.result, self.release.study
        for number in range(1, self.count + 1):
            which = Replicate(number, self.count, self.digest)
            yield _table(draw_replicate(result, study, which, n_rows=self.n_rows))


def replicates(
    result: _Holder | Published, count: int = REPLICATES, *, n_rows: int | None = None
) -> Replicates:
    """Return replicates of a study's result, for estimators that `dppca.estimates` lacks.

    They cost nothing further, are to be used together, by `combine`, and are not more rows.

    Parameters
    ----------
    result
        What `dppca.read_result` or `dppca.simulate` returns.
    count
        How many: 4 at least.
    n_rows
        Rows of each and of the published table; by default as many as all owners contributed.

    Raise `SettingError` for another count or number of rows, and, while they are drawn, if there is
    no field that they could be drawn from. What the published rows miss of the release is
    ``missed``, and a warning as they are drawn: do not `combine` estimates of that.
    """
    published = result if isinstance(result, Published) else result.released
    found = published.result
    if found.envelope is None:
        digest = hashlib.sha256(result_to_bytes(found)).hexdigest()
    else:
        digest = signed_digest(found.envelope)
    Replicate(1, count, digest)
    return Replicates(published, digest, count, found.header.n_rows if n_rows is None else n_rows)


def _table(drawn: SyntheticRows) -> Any:
    return pa.Table.from_batches(drawn.batches(), schema=drawn.fields)


@dataclass(frozen=True, slots=True)
class Combined:
    """Estimates of the published table with what replicates say of them; arrays of one shape.

    Attributes
    ----------
    params
        The published table's estimates.
    bse, df
        Standard errors and degrees of freedom for the population that the real rows are from.
    bse_these_rows, df_these_rows
        The same for the real rows alone: the noise, and no sampling.
    """

    params: NDArray[np.float64]
    bse: NDArray[np.float64]
    df: NDArray[np.float64]
    bse_these_rows: NDArray[np.float64]
    df_these_rows: int

    def conf_int(self, alpha: float = 0.05, *, these_rows: bool = False) -> NDArray[np.float64]:
        """Return the ends of intervals that hold the truth with probability 1 - alpha.

        Shape (..., 2); ``these_rows`` asks for what holds of the real rows alone.
        """
        if not 0 < alpha < 1:
            raise SettingError(f"alpha is a probability, above 0 and below 1, not {alpha}")
        se, df = (self.bse_these_rows, self.df_these_rows) if these_rows else (self.bse, self.df)
        reach = se * stats.t.ppf(1 - alpha / 2, df)
        return np.stack([self.params - reach, self.params + reach], axis=-1)


def combine(
    estimates: ArrayLike,
    variances: ArrayLike,
    *,
    published: tuple[ArrayLike, ArrayLike],
    rows: int,
    study_rows: int,
) -> Combined:
    """Combine an estimator's results on the published table and on its replicates.

    Any estimator may be combined that is smooth, and whose variance has a formula, such as a
    logistic regression's coefficients.

    Parameters
    ----------
    estimates
        On each of the M replicates, 4 at least: shape (M,), or (M, ...) for several numbers.
    variances
        Their sampling variances by the estimator's own formula, in the same shape. They are
        checked, and the interval has the published table's.
    published
        Estimate and variance on the published table, each of shape () or (...).
    rows
        Rows of the published table, and of each replicate.
    study_rows
        Real rows of all owners, which the result states.

    Raise `SettingError` for fewer replicates, shapes that differ, numbers that are not finite, or
    negative variances.

    Examples
    --------
    >>> from dppca import combine
    >>> found = combine([2.1, 1.9, 2.3, 1.7, 2.0], [.01] * 5, published=(2.0, .01), rows=500,
    ...     study_rows=500)
    >>> [f"{number:.3f}" for number in (found.bse, found.df, *found.conf_int())]
    ['0.245', '5.760', '1.395', '2.605']
    """
    require_plain(estimates=estimates, variances=variances, published=published)
    each = np.asarray(estimates, np.float64)
    within = np.asarray(variances, np.float64)
    params, u = (np.asarray(one, np.float64) for one in published)
    if each.ndim < 1 or len(each) < LEAST_REPLICATES:
        raise SettingError(f"estimates are of {LEAST_REPLICATES} replicates at least")
    if not (each.shape == within.shape and each.shape[1:] == params.shape == u.shape):
        raise SettingError(
            f"estimates of shape {each.shape} and variances of shape {within.shape} do not belong "
            f"to published ones of shape {params.shape} and {u.shape}"
        )
    if not all(np.isfinite(one).all() for one in (each, within, params, u)):
        raise SettingError("an estimate or variance is not finite: the estimator failed on a table")
    if (within < 0).any() or (u < 0).any():
        raise SettingError("a variance is negative")
    if rows < 1 or study_rows < 1:
        raise SettingError(f"{rows} rows of a table and {study_rows} of the study: 1 at least")
    between = each.var(axis=0, ddof=1)
    sampling = u * (rows / study_rows)
    with np.errstate(all="ignore"):  # without noise, or with next to none, there is no limit of df
        df = (len(each) - 1) * (1 + sampling / between) ** 2
    return Combined(
        params=params,
        bse=np.sqrt(sampling + between),
        df=np.where(np.isnan(df), np.inf, df),
        bse_these_rows=np.sqrt(between),
        df_these_rows=len(each) - 1,
    )
