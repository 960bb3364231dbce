"""The forms of PPCA-DP-MH: which settings each takes, and its noised moments with their promise.

=============  ==============================================  ====================================
setting        published                                       sound
=============  ==============================================  ====================================
latents        ``whitened``, ``literal``, ``drawn``            ``drawn``
noise          ``mirrored``, ``independent``                   ``each``, ``once``
covariance     ``within``, ``pooled``                          ``pooled``, ``within``
=============  ==============================================  ====================================

The first of each is taken where nothing is said. The paper knows no edge of the noise and no
shrinkage, so the published form takes neither.

Source: Gu, Zhang and Yang (2022), algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import SettingError
from common.methods.components import ABOVE_NOISE, check_rule
from common.methods.guarantee import Guarantee, Variant
from common.methods.moments import PooledMoments, printed_moments, released_moments
from common.methods.party import Parties, in_real_units, to_unit_interval
from common.methods.ppca_promises import printed_promise, sound_promise
from common.methods.settings import (
    EntropyMaker,
    count_of,
    delta_of,
    entropy_of,
    epsilon_of,
    no_delta,
    variant_of,
)
from common.methods.synthetic import DRAWN, LITERAL, WHITENED
from common.numerics.edge import NoiseEdge
from common.privacy.mechanisms import Calibration, calibrate_gaussian, calibrate_laplace
from common.privacy.sensitivity import Sensitivity
from common.schema import Schema
from common.study import Covariance

MIRRORED, INDEPENDENT = "mirrored", "independent"
EACH, ONCE = "each", "once"
_LATENTS = {Variant.PUBLISHED: (WHITENED, LITERAL, DRAWN), Variant.SOUND: (DRAWN,)}
_NOISES = {Variant.PUBLISHED: (MIRRORED, INDEPENDENT), Variant.SOUND: (EACH, ONCE)}
_COVARIANCES = {
    Variant.PUBLISHED: (Covariance.WITHIN, Covariance.POOLED),
    Variant.SOUND: (Covariance.POOLED, Covariance.WITHIN),
}


@dataclass(frozen=True, slots=True)
class Form:
    """Checked settings of one fit.

    Attributes
    ----------
    delta
        None for Laplace noise.
    latents, noise, covariance
        As in the module's table.
    needs_edge
        Whether the edge of the noise is to be simulated.
    """

    variant: Variant
    epsilon: Decimal
    delta: Decimal | None
    latents: str
    noise: str
    covariance: Covariance
    needs_edge: bool

    @property
    def sound(self) -> bool:
        """Whether the promise holds."""
        return self.variant is Variant.SOUND


def form_of(settings: Any) -> Form:
    """The form that an estimator's settings name.

    Raises
    ------
    SettingError
        One is missing or out of range, or two of them contradict each other.
    """
    variant, epsilon = variant_of(settings.variant), epsilon_of(settings.epsilon)
    sound = variant is Variant.SOUND
    if not sound:
        no_delta(settings.delta, instead="the sound form")
    check_rule(settings.contribution_rate, settings.n_components, with_edge=sound)
    count_of("max_rows_per_person", settings.max_rows_per_person)
    latents = _one_of("latents", settings.latents, _LATENTS[variant], variant)
    noise = _one_of("noise", settings.noise, _NOISES[variant], variant)
    covariance = _one_of("covariance", settings.covariance, _COVARIANCES[variant], variant)
    if noise == ONCE and covariance == Covariance.WITHIN:
        message = "noise drawn once leaves no party's own moments: covariance must be 'pooled'"
        raise SettingError(message)
    if settings.shrinkage and not sound:
        message = "shrinkage is of the sound form: the paper has none"
        raise SettingError(message)
    if settings.schema is not None and settings.bounds is not None:
        message = "give a schema or bounds, not both"
        raise SettingError(message)
    return Form(
        variant=variant,
        epsilon=epsilon,
        delta=None if settings.delta is None else delta_of(settings.delta),
        latents=latents,
        noise=noise,
        covariance=Covariance(covariance),
        needs_edge=bool(settings.shrinkage or settings.n_components == ABOVE_NOISE),
    )


def _one_of(name: str, value: object, allowed: tuple[str, ...], variant: Variant) -> str:
    if value is None:
        return str(allowed[0])
    if value not in allowed:
        why = (
            ": rows made from the latents of raw rows are not private" if name == "latents" else ""
        )
        message = f"{name} is {value!r}; the {variant} form takes {' or '.join(allowed)}{why}"
        raise SettingError(message)
    return str(value)


def sound_moments(
    codes: NDArray[np.int32],
    parties: Parties,
    schema: Schema,
    form: Form,
    *,
    entropy: EntropyMaker | None,
) -> tuple[PooledMoments, NoiseEdge | None, Guarantee]:
    """The federation's moments of integer rows, shape (n_rows, p), with their promise."""
    k = schema.max_rows_per_person

    def calibrate(sens: Sensitivity) -> Calibration:
        if form.delta is None:
            return calibrate_laplace(sens, epsilon=form.epsilon, max_rows_per_person=k)
        return calibrate_gaussian(
            sens, epsilon=form.epsilon, delta=form.delta, max_rows_per_person=k
        )

    once = form.noise == ONCE
    released = released_moments(
        codes,
        parties,
        schema,
        calibrate=calibrate,
        covariance=form.covariance,
        once=once,
        entropy=entropy_of(entropy),
    )
    edge = released.edge(schema, form.covariance) if form.needs_edge else None
    promise = sound_promise(released.calibration, once=once, entropy=entropy)
    return released.pooled, edge, promise


def published_moments(
    codes: NDArray[np.int32],
    parties: Parties,
    schema: Schema,
    form: Form,
    *,
    rng: np.random.RandomState,
) -> tuple[PooledMoments, Guarantee]:
    """The paper's moments of integer rows, shape (n_rows, p), in coded units; their promise."""
    offset, both = to_unit_interval(schema), form.noise == INDEPENDENT
    printed = printed_moments(
        in_real_units(schema, codes) + offset,
        parties,
        epsilon=float(form.epsilon),
        covariance=form.covariance,
        both_triangles=both,
        rng=rng,
    )
    promise = printed_promise(
        schema, epsilon=form.epsilon, both_triangles=both, latents=form.latents
    )
    return printed.moved(offset), promise
