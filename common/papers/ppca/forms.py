"""The forms of PPCA-DP-MH: the settings of each, and its noised moments with their guarantee.

=============  ==============================================  ====================================
setting        published                                       sound
=============  ==============================================  ====================================
latents        ``whitened``, ``literal``, ``drawn``            ``drawn``
noise          ``mirrored``, ``independent``                   ``each``, ``once``
covariance     ``within``, ``pooled``                          ``pooled``, ``within``
=============  ==============================================  ====================================

The first of each is the default. The paper has no edge of the noise and no shrinkage, so the
published form has neither.

Source: Gu, Zhang and Yang (2022), algorithm 1.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.estimators.base.guarantee import Guarantee, Variant
from dppca.common.analysis.estimators.base.projection import ABOVE_NOISE, check_rate_of, check_rule
from dppca.common.analysis.estimators.base.settings import (
    EntropyMaker,
    check_rows_per_person,
    check_variant,
    make_entropy,
    parse_delta,
    parse_epsilon,
    refuse_delta,
)
from dppca.common.analysis.spectrum.noise_edge import NoiseEdge
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.laws import choose_law
from dppca.common.kernel.privacy.mechanisms import Calibration, calibrate_noise
from dppca.common.kernel.privacy.sensitivity import Sensitivity
from dppca.common.kernel.schema import Schema
from dppca.common.kernel.study import Covariance
from dppca.common.papers.base.party_tables import PartyRows, to_coded_units, to_unit_interval
from dppca.common.papers.ppca.guarantees import corrected_guarantee, published_guarantee
from dppca.common.papers.ppca.latent_rows import DRAWN, LITERAL, WHITENED
from dppca.common.papers.ppca.party_moments import (
    Caution,
    PooledMoments,
    publish_moments,
    release_moments,
)

MIRRORED, INDEPENDENT = "mirrored", "independent"
EACH, ONCE = "each", "once"
_LATENTS = {Variant.PUBLISHED: (WHITENED, LITERAL, DRAWN), Variant.SOUND: (DRAWN,)}
_NOISES = {Variant.PUBLISHED: (MIRRORED, INDEPENDENT), Variant.SOUND: (EACH, ONCE)}
_COVARIANCES = {
    Variant.PUBLISHED: (Covariance.WITHIN, Covariance.POOLED),
    Variant.SOUND: (Covariance.POOLED, Covariance.WITHIN),
}


@dataclass(frozen=True, slots=True)
class FitSettings:
    """Checked settings of one fit; ``delta`` is None for Laplace noise.

    ``latents``, ``noise`` and ``covariance`` are described in the module's table. If ``needs_edge``
    is true, the edge of the noise is simulated.
    """

    variant: Variant
    epsilon: Decimal
    delta: Decimal | None
    latents: str
    noise: str
    covariance: Covariance
    needs_edge: bool

    @property
    def corrected(self) -> bool:
        """Return True for the sound form."""
        return self.variant is Variant.SOUND


def resolve_settings(settings: Any) -> FitSettings:
    """Return the form that an estimator's settings name.

    Raise `SettingError` if a setting is missing or out of range, or if two contradict each other.
    """
    variant, epsilon = check_variant(settings.variant), parse_epsilon(settings.epsilon)
    sound = variant is Variant.SOUND
    if not sound:
        refuse_delta(settings.delta, instead="the sound form")
    check_rule(settings.contribution_rate, settings.n_components, with_edge=sound)
    check_rate_of(settings.rate_of, variant)
    latents = _check_choice("latents", settings.latents, _LATENTS[variant], variant)
    noise = _check_choice("noise", settings.noise, _NOISES[variant], variant)
    covariance = _check_choice("covariance", settings.covariance, _COVARIANCES[variant], variant)
    if noise == ONCE and covariance == Covariance.WITHIN:
        raise SettingError(
            "noise drawn once leaves no party's own moments: covariance must be 'pooled'"
        )
    if settings.shrinkage and not sound:
        raise SettingError("shrinkage is of the sound form: the paper has none")
    if settings.schema is not None and settings.bounds is not None:
        raise SettingError("give a schema or bounds, not both")
    return FitSettings(
        variant=variant,
        epsilon=epsilon,
        delta=None if settings.delta is None else parse_delta(settings.delta),
        latents=latents,
        noise=noise,
        covariance=Covariance(covariance),
        needs_edge=bool(settings.shrinkage or settings.n_components == ABOVE_NOISE),
    )


def _check_choice(name: str, value: object, allowed: tuple[str, ...], variant: Variant) -> str:
    if value is None:
        return str(allowed[0])
    if value not in allowed:
        why = (
            ": rows made from the latents of raw rows are not private" if name == "latents" else ""
        )
        raise SettingError(
            f"{name} is {value!r}; the {variant} form takes {' or '.join(allowed)}{why}"
        )
    return str(value)


def corrected_moments(
    codes: NDArray[np.int32],
    parties: PartyRows,
    schema: Schema,
    form: FitSettings,
    *,
    entropy: EntropyMaker | None,
    caution: Caution | None = None,
) -> tuple[PooledMoments, NoiseEdge | None, Guarantee]:
    """Moments of integer rows, shape (n_rows, p), as in the federation, with their guarantee.

    `release_moments` describes ``caution``.
    """
    k = check_rows_per_person(schema.max_rows_per_person)

    def calibrate(sens: Sensitivity) -> Calibration:
        return calibrate_noise(
            choose_law(None, form.delta),
            sens,
            epsilon=form.epsilon,
            delta=form.delta,
            max_rows_per_person=k,
        )

    once = form.noise == ONCE
    released = release_moments(
        codes,
        parties,
        schema,
        calibrate=calibrate,
        covariance=form.covariance,
        once=once,
        entropy=make_entropy(entropy),
        caution=caution,
    )
    edge = released.edge(schema, form.covariance) if form.needs_edge else None
    promise = corrected_guarantee(released.calibration, once=once, entropy=entropy)
    return released.pooled, edge, promise


def published_moments(
    codes: NDArray[np.int32],
    parties: PartyRows,
    schema: Schema,
    form: FitSettings,
    *,
    rng: np.random.RandomState,
) -> tuple[PooledMoments, Guarantee]:
    """Paper's moments of integer rows, shape (n_rows, p), in coded units, and their guarantee."""
    offset, both = to_unit_interval(schema), form.noise == INDEPENDENT
    printed = publish_moments(
        to_coded_units(schema, codes) + offset,
        parties,
        epsilon=float(form.epsilon),
        covariance=form.covariance,
        both_triangles=both,
        rng=rng,
    )
    promise = published_guarantee(
        schema, epsilon=form.epsilon, both_triangles=both, latents=form.latents
    )
    return printed.moved(offset), promise
