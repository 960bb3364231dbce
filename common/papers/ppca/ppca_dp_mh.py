"""PPCA-DP-MH: synthetic rows from the noised moments of several parties.

Each party noises its mean and second moment; the covariance is pooled, decomposed, and rows are
drawn from probabilistic PCA, ``x = W s + mu + xi`` (`dppca.common.analysis.spectrum.ppca`).

Published
    In [0, 1] coding, Laplace noise of scale

        2 p / (n_i epsilon)                                                                     (1)

    on each entry of the mean and of the second moment; the covariance within parties; k by the
    contribution rate of the signed eigenvalues. For numeric and binary columns that spends
    ``epsilon (p + 3)/4`` if one triangle is noised and mirrored (``mirrored``, our reading), and
    ``epsilon (p + 1)/2`` with the p^2 draws of step 2 (``independent``); for indicators far less
    (`dppca.common.papers.ppca.unit_interval`). The latents s come from *raw rows*, ``whitened``
    (our reading) or ``literal`` (`dppca.common.papers.ppca.latent_rows`): however noisy U_k is,
    those synthetic rows are not private.
Sound
    The federation's release: rows centred on the public schema, packed exact integer sums, exact
    noise for their joint sensitivity (Laplace, or Gaussian if a delta is given), pooled covariance,
    latents drawn from N(0, I). All of it may leave. Noise is each party's own (``each``), or drawn
    ``once`` on their sum, whose parts then must stay hidden.

Limits: epsilon is each party's, and holds for a person whose rows are at one party only. Coded rows
(numerics and binaries in [-1/2, 1/2], indicators in [0, 1]) may leave these ranges; decoded ones
are valid under the schema, at some loss for relations inside a categorical.

Source: Gu, Zhang and Yang (2022), "Multi-party High-Dimensional Related Data Publishing via
Probabilistic Principal Component Analysis and Differential Privacy", algorithm 1, theorem 4.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dppca.common.analysis.estimators.base.cautions import (
    CountsCopies,
    warn_of_copies,
    warn_of_drowned_components,
)
from dppca.common.analysis.estimators.base.guarantee import Variant
from dppca.common.analysis.estimators.base.inputs import (
    check_fit_table,
    check_new_rows,
    check_scores,
)
from dppca.common.analysis.estimators.base.masks import require_unmasked
from dppca.common.analysis.estimators.base.named_frames import RowForm
from dppca.common.analysis.estimators.base.projection import (
    MAGNITUDE,
    SIGNED,
    by_magnitude,
    select_components,
)
from dppca.common.analysis.estimators.base.settings import (
    EntropyMaker,
    check_positive_int,
    check_variant,
)
from dppca.common.analysis.forecast import largest_total_variance
from dppca.common.analysis.spectrum.noise_edge import NoiseEdge
from dppca.common.analysis.spectrum.pca import decompose
from dppca.common.analysis.spectrum.ppca import fit_ppca, log_density, sample
from dppca.common.analysis.spectrum.shrinkage import shrink
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.schema import Schema
from dppca.common.kernel.schema.decoding import decode_columns
from dppca.common.kernel.schema.frames import nearest_columns
from dppca.common.papers.base.party_tables import (
    encode_rows,
    group_rows,
    resolve_schema,
    to_coded_units,
    to_unit_interval,
)
from dppca.common.papers.ppca.forms import (
    FitSettings,
    corrected_moments,
    published_moments,
    resolve_settings,
)
from dppca.common.papers.ppca.guarantees import SOURCE
from dppca.common.papers.ppca.latent_rows import DRAWN, decoded_values, rows_from_scores
from dppca.common.papers.ppca.party_moments import PooledMoments


@dataclass(kw_only=True, eq=False, repr=False)
class PPCADPMH(
    CountsCopies,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """PPCA-DP-MH, and the federation in one process.

    Parameters
    ----------
    epsilon
        Each party's, above 0; there is no default.
    delta
        The sound form's, for Gaussian noise; None for Laplace noise and pure epsilon.
    variant
        ``sound`` or ``published``.
    schema
        `Schema` of the columns. A frame with columns of its names is read like an owner's file,
        labels as text; anything else has a column per attribute, of numbers or codes.
    bounds
        Instead of a schema, if all columns are numbers: (lower, upper), public, numbers or arrays
        (d,).
    contribution_rate, n_components
        Number of components: by a share of the eigenvalues' sum, or directly, or, in the sound
        form, ``"above-noise"``: those above the simulated noise edge
        (`dppca.common.analysis.spectrum.noise_edge`).
    rate_of
        In the published form, what the contribution rate counts, and in which order components are
        kept: ``signed`` eigenvalues, or their ``magnitude``.
    covariance
        ``pooled`` or ``within``; None for ``within`` as printed and ``pooled`` if sound.
    latents
        ``whitened``, ``literal`` or ``drawn``; None for ``whitened`` as printed and ``drawn`` if
        sound, which takes no other.
    noise
        ``mirrored`` or ``independent`` as printed, ``each`` or ``once`` if sound; None for the
        first of either.
    trace_scaling
        Scale variances down to the signed trace (`dppca.common.analysis.spectrum.ppca`).
    shrinkage
        Remove the noise's contribution from the eigenvalues, as a federation's owners do
        (`dppca.common.analysis.spectrum.shrinkage`); sound form only.
    max_rows_per_person
        The most rows that one person may have at one party, if the schema does not give it; there
        is no default.
    allow_constant
        Accept constant columns.
    entropy
        Maker of the sound form's entropy; None for the operating system's.
    random_state
        Seeds the synthetic rows, and the published form's noise.

    Attributes
    ----------
    schema_
        The schema, given or made of the bounds.
    parties_
        Names of the parties, sorted, (m,).
    mean_, covariance_
        Pooled moments in coded units, (p,), (p, p).
    eigenvalues_, components_
        Descending (magnitudes by that reading), (p,), and the kept eigenvectors as rows, (k, p).
    noise_edge_
        `NoiseEdge`, if ``above-noise`` or ``shrinkage`` needs it, else None.
    model_
        `PPCAModel`.
    synthetic_
        As many rows as were given, (n_rows, p), in coded units; the rows of a party have the
        positions of its own rows.
    decoded_
        The same rows as the schema allows them, (n_rows, n_attributes), in the form of X: for a
        frame a frame of the same library, with labels; computed on access.
    explained_variance_, explained_variance_ratio_
        Eigenvalues of the kept components, (k,), noise included, and their share of the sum that
        ``contribution_rate`` refers to.
    guarantee_
        The attributes that are private, epsilon and delta, and the rest.
    """

    source: ClassVar[str] = SOURCE

    epsilon: object = None
    delta: object = None
    max_rows_per_person: object = None
    variant: str = "sound"
    schema: Schema | None = None
    bounds: Any = None
    contribution_rate: float = 0.85
    n_components: int | str | None = None
    rate_of: str = SIGNED
    covariance: str | None = None
    latents: str | None = None
    noise: str | None = None
    trace_scaling: bool = False
    shrinkage: bool = False
    allow_constant: bool = False
    entropy: EntropyMaker | None = None
    random_state: Any = None

    def fit(
        self,
        X: ArrayLike,
        y: object = None,  # noqa: ARG002 - scikit-learn's protocol
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit to rows (n_rows, n_attributes); ``groups`` names each row's party, (n_rows,).

        Raise `SettingError`, `DataError` or `RangeError` if a setting, a row or the size of the
        integers is not allowed; the message says what to change.
        """
        form = resolve_settings(self)
        rows = check_fit_table(
            self, X, row_norm=None, allow_constant=self.allow_constant, schema=self.schema
        )
        self._form = RowForm.of(X, self.schema)
        parties = group_rows(groups, len(rows))
        self.schema_ = resolve_schema(
            self.schema,
            self.bounds,
            rows.shape[1],
            max_rows_per_person=self.max_rows_per_person,
        )
        schema = self.schema_
        layout = schema.layout
        weighs = layout.weighs_products or layout.halved_products
        if layout.counts or schema.products_of_bins or weighs:
            raise SettingError(
                "this method releases sums and products of values alone: take histogram, products, "
                "tables, targets, square_weight and halved_products out of the schema"
            )
        codes = encode_rows(self.schema_, rows)
        warn_of_copies(self)
        rng = check_random_state(self.random_state)
        edge: NoiseEdge | None = None
        if form.corrected:
            moments, edge, promise = corrected_moments(
                codes, parties, self.schema_, form, entropy=self.entropy, caution=self._caution
            )
        else:
            moments, promise = published_moments(codes, parties, self.schema_, form, rng=rng)
        self.parties_, self.noise_edge_ = parties.names, edge
        self._model(moments, edge, signed=not form.corrected)
        self.synthetic_ = self._synthesise(codes, form, rng)
        self._moments, self._decoding_seed = moments, int(rng.randint(2**31))
        self.guarantee_ = promise
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return scores of rows in the released components, (n_rows, k): private only if X is."""
        scores: NDArray[np.float64] = (self._coded(X) - self.mean_) @ self.components_.T
        return scores

    def inverse_transform(self, X: ArrayLike) -> Any:
        """Convert scores (n_rows, k) to rows, in the form of the fitted ones.

        Each is the row of valid values that is nearest to ``Y components_ + mean_``, on its own.
        Raise `DataError` if there are not as many scores as components or a value is not
        finite.
        """
        coded = check_scores(self, X) @ self.components_ + self.mean_
        columns = decode_columns(self.schema_, nearest_columns(coded, self.schema_.layout))
        return self._form.show(columns, self.schema_)

    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """Log-likelihood of each row under the released model, (n_rows,): private only if X is.

        Rows are in coded units; variances are at least as large as by rounding to the schema's
        grid.
        """
        rounding = 4.0**-self.schema_.resolution_bits / 12.0
        return log_density(self.model_, self._coded(X), least_variance=rounding)

    def score(self, X: ArrayLike, y: object = None) -> float:  # noqa: ARG002 - the protocol
        """Mean log-likelihood of rows under the released model; see `score_samples`."""
        return float(self.score_samples(X).mean())

    @property
    def explained_variance_(self) -> NDArray[np.float64]:
        """Eigenvalues of the kept components; see the class."""
        check_is_fitted(self)
        return self.eigenvalues_[: len(self.components_)]

    @property
    def explained_variance_ratio_(self) -> NDArray[np.float64]:
        """Their share of the eigenvalues' sum; see the class."""
        kept, every = self.explained_variance_, self.eigenvalues_
        signed = check_variant(self.variant) is Variant.PUBLISHED
        total: NDArray[np.float64] = kept / (every if signed else np.maximum(every, 0.0)).sum()
        return total

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def sample(self, n_rows: int, *, random_state: Any = None) -> NDArray[np.float64]:
        """Draw more rows of the released model, (n_rows, p), in coded units, at no further cost."""
        seed = check_random_state(random_state).randint(2**31)
        size = check_positive_int("n_rows", n_rows)
        return sample(self.model_, size, rng=np.random.default_rng(seed))

    @property
    def decoded_(self) -> Any:
        """``synthetic_`` as a table that the schema allows, (n_rows, n_attributes)."""
        check_is_fitted(self)
        return self._decoded(self.synthetic_, self._decoding_seed)

    def decode(self, coded_rows: ArrayLike, *, random_state: Any = None) -> Any:
        """Convert rows of `sample` to a table that the schema allows, in the form of ``decoded_``.

        Marginals are met over the rows given together: decode many at once. Raise `SettingError` if
        the rows are not finite or not of shape (n_rows, p), n_rows >= 1.
        """
        check_is_fitted(self)
        require_unmasked(coded_rows=coded_rows)
        rows, p = np.asarray(coded_rows, np.float64), len(self.mean_)
        if rows.ndim != 2 or rows.shape[1] != p or not len(rows) or not np.isfinite(rows).all():
            raise SettingError(
                f"decode takes finite coded rows of shape (n_rows, {p}), as sample makes them"
            )
        return self._decoded(rows, int(check_random_state(random_state).randint(2**31)))

    def _decoded(self, rows: NDArray[np.float64], seed: int) -> Any:
        columns = decoded_values(self.schema_, rows, self._moments, seed=seed)
        return self._form.show(columns, self.schema_)

    def _coded(self, X: ArrayLike) -> NDArray[np.float64]:
        check_is_fitted(self)
        rows = check_new_rows(self, X, schema=self.schema_)
        return to_coded_units(self.schema_, encode_rows(self.schema_, rows))

    def _caution(self, noise: Calibration, owner_rows: Sequence[int]) -> None:
        layout = self.schema_.layout
        most = largest_total_variance(layout)
        warn_of_drowned_components(self, noise, layout, owner_rows=owner_rows, most=most)

    def _model(self, moments: PooledMoments, edge: NoiseEdge | None, *, signed: bool) -> None:
        parts = decompose(moments.covariance)
        if self.rate_of == MAGNITUDE:
            parts, signed = by_magnitude(parts), False
        components = select_components(
            parts,
            contribution_rate=self.contribution_rate,
            n_components=self.n_components,
            signed=signed,
            noise_edge=edge.value if edge else None,
        )
        variances = parts.eigenvalues
        if edge and self.shrinkage:
            variances = shrink(variances, count=len(components), noise_edge=edge.value)
        self.mean_, self.covariance_ = moments.mean, moments.covariance
        self.eigenvalues_, self.components_ = parts.eigenvalues, components
        self.model_ = fit_ppca(
            variances, components, moments.mean, trace_scaling=self.trace_scaling
        )

    def _synthesise(
        self, codes: NDArray[np.int32], form: FitSettings, rng: np.random.RandomState
    ) -> NDArray[np.float64]:
        if form.latents == DRAWN:
            return self.sample(len(codes), random_state=rng)
        return rows_from_scores(
            to_coded_units(self.schema_, codes),
            self.model_,
            latents=form.latents,
            eigenvalues=self.eigenvalues_,
            vectors=self.components_,
            offset=to_unit_interval(self.schema_),
            rng=rng,
        )
