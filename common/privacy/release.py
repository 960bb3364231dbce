"""A release: noised moments and the receipt that says what they cost and how to check it.

Theory: the packed vector of exact integer sums (`common.numerics.moments`) changes by at most
``k * l1`` in L1 and ``k**2 * l2_squared`` in squared L2 when ``k`` rows of the owner are replaced
(`common.privacy.sensitivity`); integer noise calibrated to that (`common.privacy.mechanisms`)
makes the whole vector differentially private at once. The noise is drawn once; the vector is
complete before the first byte leaves; the same bytes are sent again and again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from importlib.metadata import version
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from common.errors import ArtefactError, SchemaMismatchError
from common.numerics.moments import Moments
from common.privacy.entropy import EntropySource
from common.privacy.labels import Label
from common.privacy.mechanisms import (
    Calibration,
    Mechanism,
    add_noise,
    calibrate_gaussian,
    calibrate_laplace,
    check_range,
    fixed_gaussian,
    fixed_laplace,
)
from common.privacy.sensitivity import BallShape, BoxShape, sensitivity
from common.schema import Categorical, Numeric, Schema
from common.schema.document import canonical_json
from common.study import LaplacePrivacy, Study, decimal_text

SOFTWARE = f"dppca {version('dppca')}"
SOURCES = {
    Mechanism.LAPLACE: "discrete Laplace (Ghosh, Roughgarden, Sundararajan 2012)",
    Mechanism.GAUSSIAN: "discrete Gaussian (Canonne, Kamath, Steinke 2020)",
}


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a third party needs to check a claim. Decimals are text; digests hexadecimal.

    ``l1`` and ``l2_squared`` are for one changed row, in units of ``4**-g`` and ``16**-g``;
    ``scale`` (Laplace) and ``sigma_squared`` (Gaussian) likewise. ``epsilon`` and ``delta`` are
    the claim; ``charged_epsilon`` and ``charged_rho`` what the ledger charged.
    """

    study_digest: str
    schema_digest: str
    release_id: str
    n_rows: int
    n_entries: int
    payload_sha256: str
    mechanism: str
    source: str
    relation: str
    max_rows_per_person: int
    resolution_bits: int
    l1: int
    l2_squared: int
    scale: int | None
    sigma_squared: int | None
    epsilon: str
    delta: str
    charged_epsilon: str
    charged_rho: str
    nominal_epsilon: str | None
    ledger_sequence: int
    software: str
    label: str = Label.RELEASED.value
    version: int = 1

    def canonical_bytes(self) -> bytes:
        """Canonical JSON."""
        return canonical_json(asdict(self))


def receipt_from_bytes(content: bytes) -> Receipt:
    """Read a receipt; `ArtefactError` where it is not one."""
    try:
        document = json.loads(content)
        receipt = Receipt(**document)
        again = receipt.canonical_bytes()  # which refuses NaN and halves of characters
    except (ValueError, TypeError, RecursionError) as error:
        message = "the receipt is not one this version can read"
        raise ArtefactError(message) from error
    if again != content:
        message = "the receipt is not in canonical form"
        raise ArtefactError(message)
    return receipt


@dataclass(frozen=True, slots=True)
class Release:
    """Noised moments of one owner for one study, ready to leave.

    Attributes
    ----------
    release_id
        16 bytes, drawn with the reservation.
    packed
        int64 modulo 2**64, shape (D,), units of ``4**-g``.
    receipt
        What it cost.
    """

    release_id: bytes
    n_rows: int
    packed: NDArray[np.int64]
    receipt: Receipt

    @property
    def digest(self) -> str:
        """What it was reserved under: the study's digest, hexadecimal."""
        return self.receipt.study_digest

    def payload(self) -> bytes:
        """Little-endian int64: the bytes that are stored, hashed and sent."""
        return self.packed.astype("<i8", copy=False).tobytes()


def shape_of(schema: Schema) -> BoxShape | BallShape:
    """The counts of a schema that its sensitivity depends on."""
    layout = schema.layout
    if layout.unit_ball:
        return BallShape(
            n_columns=layout.n_columns,
            with_sums=layout.with_sums,
            sum_weight=Fraction(schema.sum_weight),
        )
    categoricals = sum(isinstance(a, Categorical) for a in schema.attributes)
    return BoxShape(
        n_scalars=len(schema.attributes) - categoricals,
        n_numeric=sum(isinstance(a, Numeric) for a in schema.attributes),
        n_categoricals=categoricals,
        sum_weight=Fraction(schema.sum_weight),
    )


@lru_cache(maxsize=64)
def calibrate(study: Study) -> Calibration:
    """Noise and charge that a study asks of each owner, from the document alone.

    Raises
    ------
    RangeError
        The integers of a contribution could leave 64 bits.
    """
    schema, privacy = study.table, study.privacy
    sens = sensitivity(shape_of(schema), resolution_bits=schema.resolution_bits)
    k = schema.max_rows_per_person
    if isinstance(privacy, LaplacePrivacy):
        if privacy.epsilon is not None:
            found = calibrate_laplace(sens, epsilon=privacy.epsilon, max_rows_per_person=k)
        else:
            found = fixed_laplace(
                sens,
                scale=_given(privacy.scale),
                max_rows_per_person=k,
                nominal_epsilon=privacy.nominal_epsilon,
            )
    elif privacy.epsilon is not None:
        found = calibrate_gaussian(
            sens, epsilon=privacy.epsilon, delta=privacy.delta, max_rows_per_person=k
        )
    else:
        found = fixed_gaussian(
            sens,
            scale=_given(privacy.scale),
            delta=privacy.delta,
            max_rows_per_person=k,
            nominal_epsilon=privacy.nominal_epsilon,
        )
    check_range(
        found,
        resolution_bits=schema.resolution_bits,
        max_rows=study.max_rows,
        n_entries=schema.layout.n_entries,
        n_owners=len(study.owners),
        sum_weight=Fraction(schema.sum_weight),
    )
    return found


def draw(
    study: Study,
    moments: Moments,
    *,
    release_id: bytes,
    ledger_sequence: int,
    entropy: EntropySource,
) -> Release:
    """Draw the noise of one release: once, after its charge has been reserved.

    Parameters
    ----------
    moments
        Exact sums over the owner's rows, in the layout of the study's schema.
    release_id, ledger_sequence
        From the reservation.
    entropy
        `OperatingSystemEntropy`; anything else is for tests.
    """
    schema = study.table
    if moments.packed.shape != (schema.layout.n_entries,):
        message = f"moments of {moments.packed.shape[0]} entries for {schema.layout.n_entries}"
        raise SchemaMismatchError(message)
    calibration = calibrate(study)
    packed = add_noise(moments.packed, calibration, entropy=entropy)
    payload = packed.astype("<i8", copy=False).tobytes()
    receipt = receipt_for(
        study,
        calibration,
        release_id=release_id,
        n_rows=moments.n_rows,
        payload_sha256=hashlib.sha256(payload).hexdigest(),
        ledger_sequence=ledger_sequence,
        software=SOFTWARE,
    )
    return Release(release_id, moments.n_rows, packed, receipt)


def receipt_for(
    study: Study,
    calibration: Calibration,
    *,
    release_id: bytes,
    n_rows: int,
    payload_sha256: str,
    ledger_sequence: int,
    software: str,
) -> Receipt:
    """The one receipt that a release of ``study`` can carry: whoever has one can compare.

    Parameters
    ----------
    calibration
        Of the study: `calibrate`.
    payload_sha256
        Hexadecimal.
    ledger_sequence, software
        The owner's; all else follows from the study and the release.
    """
    schema = study.table
    return Receipt(
        study_digest=study.digest,
        schema_digest=schema.digest,
        release_id=release_id.hex(),
        n_rows=n_rows,
        n_entries=schema.layout.n_entries,
        payload_sha256=payload_sha256,
        resolution_bits=schema.resolution_bits,
        **noise_claims(calibration),
        nominal_epsilon=None if calibration.nominal is None else decimal_text(calibration.nominal),
        ledger_sequence=ledger_sequence,
        software=software,
    )


class NoiseClaims(TypedDict):
    """What every receipt says of its noise; decimals are text."""

    mechanism: str
    source: str
    relation: str
    max_rows_per_person: int
    l1: int
    l2_squared: int
    scale: int | None
    sigma_squared: int | None
    epsilon: str
    delta: str
    charged_epsilon: str
    charged_rho: str


def noise_claims(calibration: Calibration) -> NoiseClaims:
    """The fields of a receipt that follow from the noise."""
    return {
        "mechanism": calibration.mechanism.value,
        "source": SOURCES[calibration.mechanism],
        "relation": calibration.sensitivity.relation.value,
        "max_rows_per_person": calibration.max_rows_per_person,
        "l1": calibration.sensitivity.l1,
        "l2_squared": calibration.sensitivity.l2_squared,
        "scale": calibration.scale,
        "sigma_squared": calibration.sigma_squared,
        "epsilon": decimal_text(calibration.epsilon),
        "delta": decimal_text(calibration.delta),
        "charged_epsilon": decimal_text(calibration.charge.epsilon),
        "charged_rho": decimal_text(calibration.charge.rho),
    }


def _given(value: Decimal | None) -> Decimal:
    if value is None:
        raise AssertionError  # the study's validator keeps this from happening
    return value
