"""Release: noised moments, and the receipt with their cost by which others can check them.

Theory: the packed vector of exact integer sums (`dppca.common.kernel.moments.moments`) changes by
at most ``k * l1`` in L1 and ``k**2 * l2_squared`` in squared L2 when ``k`` rows of the owner are
replaced (`dppca.common.kernel.privacy.sensitivity`), or added or taken away
(`dppca.common.kernel.privacy.added_rows`); integer noise calibrated to that
(`dppca.common.kernel.privacy.mechanisms`) makes the whole vector differentially private at once.
The noise is drawn once; the vector is complete before the first byte leaves; the same bytes are
sent again and again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.documents.amounts import Whole, decimal_text, whole
from dppca.common.kernel.errors import ArtefactError, SchemaMismatchError, SettingError, StudyError
from dppca.common.kernel.privacy.accounting import PrivacyCost
from dppca.common.kernel.privacy.added_rows import AddedShape, added_sensitivity
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.privacy.laws import every_law
from dppca.common.kernel.privacy.mechanisms import (
    Calibration,
    add_noise,
    calibrate_noise,
    check_range,
    fixed_noise,
)
from dppca.common.kernel.privacy.noise.entropy import EntropySource
from dppca.common.kernel.privacy.people import of_people, of_weighed_rows
from dppca.common.kernel.privacy.receipts import (
    SOFTWARE,
    Claims,
    NoiseSection,
    Receipt,
    read_receipt,
)
from dppca.common.kernel.privacy.sensitivity import (
    BallShape,
    BoxShape,
    HeavySquaresShape,
    MissingBoxShape,
    Sensitivity,
    Shape,
    TablesShape,
    sensitivity,
)
from dppca.common.kernel.schema import ColumnKind, Schema
from dppca.common.kernel.schema.units import NeighbourRelation, Person, Unit
from dppca.common.kernel.study import Study

if TYPE_CHECKING:
    from dppca.common.kernel.moments.moments import Moments


@dataclass(frozen=True, slots=True)
class MomentClaims(Claims):
    """Claims of a contribution's receipt beside its noise, in units of ``4**-g``."""

    n_entries: int
    payload_sha256: str
    nominal_epsilon: str | None


@dataclass(frozen=True, slots=True)
class MaskedClaims(MomentClaims):
    """Claims of a masked contribution's receipt beside its noise.

    The noise is the noise of the sum over ``honest`` owners; this owner added a share of it.
    ``payload_sha256`` is the digest of the whole upload, seals and masked vector. ``honest`` is h,
    ``quorum`` less ``colluders``; ``share_variance`` the variance of a share, in units of
    ``16**-g``, None if it is not a whole number; ``statement_sha256`` the digest of the owner's
    signed statement about its masked vector and its seals.
    """

    trust: str
    colluders: int
    quorum: int
    honest: int
    share_variance: Whole | None
    statement_sha256: str


MomentReceipt = Receipt[MomentClaims]
_MASKED_VERSION = 2  # of a masked contribution's receipt
_MAX_SOFTWARE_LENGTH = 128  # characters of a receipt's field


def read_moment_receipt(document: Mapping[str, Any]) -> MomentReceipt:
    """Read the receipt of a contribution; `ArtefactError` if the document is none.

    Fields that the study does not decide have a fixed form: whole numbers, digests, a short text.
    `receipt_for` decides all other fields.
    """
    try:
        masked = "statement_sha256" in document
        receipt: MomentReceipt = (
            read_receipt(document, MaskedClaims) if masked else read_receipt(document, MomentClaims)
        )
        receipt.canonical_bytes()  # refuses NaN and halves of characters
        sound = (
            all(
                type(number) is int and 0 <= number < 1 << 63
                for number in (receipt.n_rows, receipt.ledger_sequence, receipt.claims.n_entries)
            )
            and re.fullmatch("[0-9a-f]{64}", receipt.study_digest) is not None
            and re.fullmatch("[0-9a-f]{64}", receipt.claims.payload_sha256) is not None
            and re.fullmatch("[0-9a-f]{32}", receipt.release_id) is not None
            and type(receipt.software) is str
            and len(receipt.software) <= _MAX_SOFTWARE_LENGTH
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ArtefactError("the receipt is not one this version can read") from error
    if not sound:
        raise ArtefactError("the receipt has a field of another form than this version can read")
    return receipt


def receipt_from_bytes(content: bytes) -> MomentReceipt:
    """Read a contribution's receipt; `ArtefactError` if it is not one."""
    try:
        receipt = read_moment_receipt(json.loads(content))
    except (ValueError, RecursionError) as error:
        raise ArtefactError("the receipt is not one this version can read") from error
    if receipt.canonical_bytes() != content:
        raise ArtefactError("the receipt is not in canonical form")
    return receipt


@dataclass(frozen=True, slots=True)
class Release:
    """Noised moments of one owner for one study, ready to leave.

    ``release_id`` are 16 bytes, drawn with the reservation; ``n_rows`` is as in the receipt, 0
    where it is secret; ``packed`` is int64 modulo 2**64, shape (D,), in units of ``4**-g``;
    ``receipt`` has its claims and its cost.
    """

    release_id: bytes
    n_rows: int
    packed: NDArray[np.int64]
    receipt: MomentReceipt

    @property
    def digest(self) -> str:
        """Study's digest, hexadecimal; the release was reserved under it."""
        return self.receipt.study_digest

    def payload(self) -> bytes:
        """Return the bytes that are stored, hashed and sent: little-endian int64."""
        return self.packed.astype("<i8", copy=False).tobytes()


def sensitivity_shape(schema: Schema) -> Shape:
    """Return the counts of a schema that its sensitivity to a replaced row depends on."""
    layout = schema.layout
    if schema.only_tables:
        return TablesShape(len(layout.tables), layout.table_weight)
    if layout.unit_ball:
        return BallShape(
            n_columns=layout.n_columns,
            with_sums=layout.with_sums,
            sum_weight=Fraction(schema.sum_weight),
        )
    kinds = layout.attribute_kinds
    shape = BoxShape(
        *_counts(kinds),
        sum_weight=Fraction(schema.sum_weight),
        n_histograms=len(layout.histograms),
        histogram_weight=layout.histogram_weight if layout.histograms else Fraction(1),
        target_counts=_counts([kinds[index] for index in layout.targets]),
        target_weight=schema.target_weight if layout.targets else 1,
        n_tables=len(layout.tables),
        table_weight=layout.table_weight if layout.tables else Fraction(1),
    )
    if not layout.missing_columns and schema.square_weight == 1:
        return shape
    targets = sum(layout.attribute_of[each] in layout.targets for each in layout.missing_columns)
    others = len(layout.missing_columns) - targets
    counts = {each.name: getattr(shape, each.name) for each in fields(shape)}
    missing = MissingBoxShape(**counts, indicator_counts=(others, targets))
    if schema.square_weight == 1:
        return missing
    return HeavySquaresShape(
        **counts, indicator_counts=(others, targets), square_weight=schema.square_weight
    )


def released_shape(schema: Schema) -> Shape | AddedShape:
    """Return what the sensitivity of a study of this schema is computed from."""
    shape = sensitivity_shape(schema)
    return AddedShape(shape, schema.layout.count_weight) if schema.has_secret_rows else shape


def schema_sensitivity(schema: Schema) -> Sensitivity:
    """Return the sensitivity of a release of this schema to one row or person, by its relation."""
    return sensitivity_of(schema, sensitivity_shape(schema), **_rounded(schema))


def sensitivity_of(
    schema: Schema, shape: Shape, *, n_entries: int, n_halved: int = 0
) -> Sensitivity:
    """Return the sensitivity of counts of this ``shape``, by a schema's unit and relation.

    ``n_entries`` and ``n_halved`` are those of `of_people`. A number of rows is an entry beside all
    but tables alone, with the schema's weight.
    """
    if schema.neighbours is NeighbourRelation.REPLACED:
        row = sensitivity(shape, resolution_bits=schema.resolution_bits)
        if schema.unit is Unit.ROW:
            return row
        return _replaced_person(schema, shape, n_entries=n_entries, n_halved=n_halved)
    added = _added(schema, shape)
    if schema.unit is Unit.ROW:
        return added
    c = schema.rows_counted
    return of_people(added, n_entries=n_entries, n_halved=n_halved, rows_counted=c)


def _added(schema: Schema, shape: Shape) -> Sensitivity:
    """Return the sensitivity to one added row, of a schema whose number of rows leaves noised."""
    weight = Fraction(0) if isinstance(shape, TablesShape) else Fraction(schema.count_weight)
    return added_sensitivity(AddedShape(shape, weight), resolution_bits=schema.resolution_bits)


def _replaced_person(schema: Schema, shape: Shape, **rounded: int) -> Sensitivity:
    """Return the sensitivity to one replaced person, who weighs as one row, or from 1 to c."""
    row, c = sensitivity(shape, resolution_bits=schema.resolution_bits), schema.rows_counted
    weighed = row if c == 1 else of_weighed_rows(row, _added(schema, shape), rows_counted=c)
    return of_people(weighed, **rounded)


def _rounded(schema: Schema) -> dict[str, int]:
    """Return the entries that the division by M rounds, for `of_people`."""
    layout = schema.layout
    return {"n_entries": layout.n_entries, "n_halved": layout.halved_places.size}


def replaced_charge(study: Study, calibration: Calibration) -> PrivacyCost | None:
    """Return the cost of a release of added people, if a person is replaced and not added.

    ``calibration`` is the study's. None where rows or people are replaced anyway. A person who has
    at most k rows is replaced by one with another number of them by replacing some rows and adding
    or removing others, k in all: the sensitivity to one row is the larger of the two. People weigh
    as one row, or from 1 to c (`of_weighed_rows`).
    """
    table, own = study.table, calibration.sensitivity
    shape = sensitivity_shape(table)
    if table.neighbours is NeighbourRelation.REPLACED:
        return None
    if table.unit is Unit.PERSON:
        larger = _replaced_person(table, shape, **_rounded(table))
    else:
        row, squared = sensitivity(shape, resolution_bits=table.resolution_bits), own.l2_squared
        larger = replace(row, l1=max(row.l1, own.l1), l2_squared=max(row.l2_squared, squared))
    cost = calibration.law.replaced_cost
    return cost(table.layout, larger, calibration.factor, table.counted_of_person)


def _counts(kinds: Sequence[ColumnKind]) -> tuple[int, int, int]:
    """Return the numbers of scalars, of numerics among them, and of attributes with indicators."""
    indicators = sum(kind is ColumnKind.INDICATOR for kind in kinds)
    numerics = sum(kind is ColumnKind.NUMERIC for kind in kinds)
    return len(kinds) - indicators, numerics, indicators


def calibrate(study: Study) -> Calibration:
    """Return the noise and charge that a study asks of each owner, from the document alone.

    Gaussian noise takes tens of milliseconds: compute it once and pass it on.

    Raises
    ------
    RangeError
        The integers of a contribution could leave 64 bits.
    StudyError
        The noise is too small to be made of shares, or there are too many columns for its law.
    """
    if not isinstance(study, Study):
        raise SettingError("study is a dppca.Study: read one from its file with study_from_yaml")
    schema, privacy = study.table, study.privacy
    sens, unit, halved = schema_sensitivity(schema), study.unit, schema.layout.halved_products
    k = unit.factor
    law = every_law()[privacy.mechanism]
    if privacy.scale is None:
        try:
            noise = calibrate_noise(
                law,
                sens,
                epsilon=_given(privacy.epsilon),
                delta=privacy.delta,
                max_rows_per_person=k,
                halved_products=halved,
                layout=schema.layout,
                honest=study.n_honest_owners,
                rows_counted=schema.counted_of_person,
            )
        except SettingError as error:
            if not law.is_joint:
                raise
            raise StudyError(f"study {study.name}: {error}") from error
    else:
        noise = fixed_noise(
            law,
            sens,
            scale=privacy.scale,
            delta=privacy.delta,
            max_rows_per_person=k,
            nominal_epsilon=privacy.nominal_epsilon,
            halved_products=halved,
        )
    noise = replace(noise, unit=unit)
    if study.n_honest_owners is not None:
        noise = _shared(noise, study.n_honest_owners)
    check_range(
        noise,
        resolution_bits=schema.resolution_bits,
        max_rows=study.max_rows,
        n_entries=schema.layout.n_entries,
        n_owners=len(study.owners),
        largest_weight=schema.layout.largest_weight,
    )
    return noise


def draw(
    study: Study,
    calibration: Calibration,
    moments: Moments,
    *,
    release_id: bytes,
    ledger_sequence: int,
    entropy: EntropySource,
) -> Release:
    """Draw the noise of one release: once, after its charge has been reserved.

    ``calibration`` is the study's, from `calibrate`; ``moments`` are exact sums over the owner's
    rows, in the layout of its schema; ``release_id`` and ``ledger_sequence`` come from the
    reservation; ``entropy`` is `OperatingSystemEntropy` except in tests.
    """
    packed = noise_moments(study, calibration, moments, entropy=entropy)
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
    return Release(release_id, receipt.n_rows, packed, receipt)


def noise_moments(
    study: Study, calibration: Calibration, moments: Moments, *, entropy: EntropySource
) -> NDArray[np.int64]:
    """Return the packed vector with its noise, shape (D,).

    Raise `SchemaMismatchError` for another D, or moments of rows where people are protected.
    """
    from dppca.common.kernel.moments.people import PeopleMoments  # few who calibrate have moments

    layout = study.table.layout
    if isinstance(moments, PeopleMoments) != isinstance(study.unit, Person):
        raise SchemaMismatchError(
            f"moments of {'people' if isinstance(moments, PeopleMoments) else 'rows'} for a study "
            f"with unit: {study.table.unit}"
        )
    if moments.packed.shape != (layout.n_entries,):
        raise SchemaMismatchError(
            f"moments of {moments.packed.shape[0]} entries for {layout.n_entries}"
        )
    return add_noise(moments.packed, calibration, entropy=entropy, layout=layout)


def receipt_for(
    study: Study,
    calibration: Calibration,
    *,
    release_id: bytes,
    n_rows: int,
    payload_sha256: str,
    ledger_sequence: int,
    software: str,
) -> MomentReceipt:
    """Return the only receipt that a release of ``study`` can carry; a verifier compares with it.

    ``calibration`` is the study's, from `calibrate`; digests are hexadecimal. ``n_rows`` is stated
    as 0 by a study whose numbers of rows are secret. ``ledger_sequence``
    and ``software`` are the owner's; all other fields follow from the study and the release. A
    masked contribution has another receipt (`masked_receipt_for`).
    """
    nominal = None if calibration.nominal is None else decimal_text(calibration.nominal)
    return Receipt(
        study_digest=study.digest,
        schema_digest=study.table.digest,
        release_id=release_id.hex(),
        n_rows=0 if study.has_secret_rows else n_rows,
        claims=MomentClaims(study.table.layout.n_entries, payload_sha256, nominal),
        noise=NoiseSection.from_calibration(calibration),
        ledger_sequence=ledger_sequence,
        software=software,
        label=Label.RELEASED.value,
        version=1,
    )


def masked_receipt_for(
    study: Study, calibration: Calibration, *, honest: int, statement_sha256: str, **release: Any
) -> MomentReceipt:
    """Return the only receipt of a masked contribution; the rest of it is as in `receipt_for`.

    ``honest`` is the study's `n_honest_owners`; ``statement_sha256`` is the digest of the owner's
    signed statement.
    """
    plain, variance = receipt_for(study, calibration, **release), calibration.share_variance
    claims = MaskedClaims(
        n_entries=plain.claims.n_entries,
        payload_sha256=plain.claims.payload_sha256,
        nominal_epsilon=plain.claims.nominal_epsilon,
        trust=study.trust.value,
        colluders=study.required_contributions - honest,
        quorum=study.required_contributions,
        honest=honest,
        share_variance=None if variance is None else whole(variance),
        statement_sha256=statement_sha256,
    )
    return replace(plain, claims=claims, label=Label.MASKED.value, version=_MASKED_VERSION)


def _shared(noise: Calibration, honest: int) -> Calibration:
    """Return the same law, made of shares; `StudyError` if it is too narrow for them."""
    try:
        noise.law.share_variance(honest)
    except SettingError as error:
        raise StudyError(f"the owners cannot make this noise together: {error}") from error
    return replace(noise, n_honest_owners=honest)


def _given(value: Decimal | None) -> Decimal:
    if value is None:
        raise AssertionError  # the study's validator keeps this from happening
    return value
