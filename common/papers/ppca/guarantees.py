"""Guarantees of PPCA-DP-MH in each of its forms.

The printed noise is the same for any columns; its cost depends on them
(`dppca.common.papers.ppca.unit_interval`) and on whether one triangle of the second moment or all
of its entries have noise of their own. The guarantee gives epsilon of mean and second moment only:
synthetic rows made from raw rows have none.

Source: Gu, Zhang and Yang (2022), algorithm 1, theorem 4.
"""

from decimal import Decimal
from fractions import Fraction

from dppca.common.analysis.estimators.base.guarantee import Guarantee, Variant, promise_as_printed
from dppca.common.analysis.estimators.base.settings import (
    EntropyMaker,
    check_rows_per_person,
    choose_label,
    describe_repeatability,
)
from dppca.common.kernel.documents.amounts import round_up
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.release import sensitivity_shape
from dppca.common.kernel.privacy.sensitivity import BoxShape, MissingBoxShape
from dppca.common.kernel.schema import Schema
from dppca.common.papers.base.party_tables import NO_INDICATOR
from dppca.common.papers.ppca.latent_rows import DRAWN
from dppca.common.papers.ppca.unit_interval import unit_interval_l1

METHOD, SOURCE = "PPCA-DP-MH", "Gu et al. 2022, algorithm 1"
_MODEL = "mean_, covariance_, eigenvalues_, components_, model_"
_EACH = "each party spends it on its own rows; no person has rows at two"
_ONCE = (
    "one noise on the sum of all parties: the party that adds their parts sees them without noise. "
    "This needs a curator who may see rows, or a sum that hides them; the federation has neither"
)


def corrected_guarantee(
    noise: Calibration, *, once: bool, entropy: EntropyMaker | None
) -> Guarantee:
    """Guarantee of released moments with each party's own noise or noise drawn once."""
    sens, unit = noise.sensitivity, 4**noise.sensitivity.resolution_bits
    whose = "all parties'" if once else "one party's"
    return Guarantee(
        method=METHOD,
        source=SOURCE,
        variant=Variant.SOUND,
        label=choose_label(entropy),
        private=f"{_MODEL}, synthetic_, decoded_",
        not_private=describe_repeatability(entropy).removeprefix("; "),
        epsilon=noise.epsilon,
        delta=noise.delta,
        relation=sens.relation,
        max_rows_per_person=noise.factor,
        sensitivity=noise.law.of_entries.change(sens) / unit,
        sensitivity_of=f"{noise.law.norm}, {whose} packed sums",
        split=_ONCE if once else _EACH,
        charge=noise.charge,
    )


def published_guarantee(
    schema: Schema, *, epsilon: Decimal, both_triangles: bool, latents: str
) -> Guarantee:
    """Guarantee of the paper's noise on rows of a schema.

    Raise `SettingError` if the schema scales rows into the unit ball, or has ``missing:
    indicator``.
    """
    shape, p = sensitivity_shape(schema), schema.layout.n_columns
    k = check_rows_per_person(schema.max_rows_per_person)
    if not isinstance(shape, BoxShape):
        raise SettingError("the schema scales rows into the unit ball: give bounds instead")
    if isinstance(shape, MissingBoxShape):
        raise SettingError(NO_INDICATOR)
    change = unit_interval_l1(shape, both_triangles=both_triangles)
    entries = "all entries" if both_triangles else "one triangle"
    drawn = latents == DRAWN
    return promise_as_printed(
        method=METHOD,
        source=SOURCE,
        private=_MODEL + (", synthetic_, decoded_" if drawn else ""),
        not_private=""
        if drawn
        else "synthetic_, decoded_: their latents are computed from raw rows",
        epsilon=round_up(k * Fraction(epsilon) * change / (2 * p)),
        delta=Decimal(0),
        claimed_epsilon=epsilon,
        max_rows_per_person=k,
        sensitivity=float(p),
        sensitivity_of=f"L1 as printed, {p}, of n times each moment; that of mean and {entries} "
        f"of the second moment together is {float(change):.6g}",
        split=_EACH,
    )
