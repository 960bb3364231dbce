"""Result of a study: joint components, and the pooled moments that they follow from.

It is one file, byte for byte the same for all: an uncompressed NumPy ``.npz`` with a canonical JSON
header. Everything in it is `released`: it is computed from the owners' noised releases alone.

Arrays
------
header
    uint8: canonical JSON of `ResultHeader`.
pooled
    int64, shape (D,): sum of the owners' packed vectors modulo 2**64, units of ``4**-g``.
within
    float64, shape (p, p): covariance within owners; only if the study asks for it.
mean
    float64, shape (p,), coded units; absent for unit-ball rows without sums.
eigenvalues
    float64, shape (p,), descending; negative ones are the noise's.
vectors
    float64, shape (k, p): rows are the kept eigenvectors, largest entry by magnitude positive.

The result of a study that continues another has ``pooled`` alone, and a header with a count of 0.

Claims about the file are in its envelope (`dppca.common.kernel.attestation.components`).
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.attestation.archives import array_in, read_archive
from dppca.common.kernel.attestation.envelopes import MAX_BYTES as MAX_ENVELOPE_BYTES
from dppca.common.kernel.consent.signed_people import MAX_CONSENT
from dppca.common.kernel.documents.values import DigestText, canonical_json
from dppca.common.kernel.errors import ArtefactError, SettingError
from dppca.common.kernel.moments.moments import (
    unpack,
    unpack_histograms,
    unpack_mean,
    unpack_tables,
)
from dppca.common.kernel.privacy.counted_rows import count_rows, split_rows
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.study import Covariance, Study


@dataclass(frozen=True, slots=True)
class Share:
    """Part of one owner, in the lists of results, tables and verifications."""

    owner: Annotated[str, "name of the owner"]
    release_id: Annotated[DigestText, "identifier of the release"]
    n_rows: Annotated[int, "rows that its receipt states; 0: secret"] = field(
        metadata={"key": "rows"}
    )
    payload_sha256: Annotated[DigestText, "SHA-256 of the release"]


@dataclass(frozen=True, slots=True)
class ResultHeader:
    """Meaning of a result's numbers.

    Attributes
    ----------
    shares
        Owners that took part, by name.
    missing
        Owners that did not take part.
    count
        k, the number of components kept; 0 for counts of tables alone.
    noise_edge
        95 % quantile of the largest eigenvalue that the noise alone would give, in the units of
        the eigenvalues, from ``noise_edge_draws`` simulated draws.
    estimated_rows
        Rows of all owners by their noised number, where it is secret; else None.
    epsilon, delta
        Guarantee over all owners of the study: one owner's, or the sum if people overlap; decimals
        as text.
    """

    study_digest: str
    shares: tuple[Share, ...]
    missing: tuple[str, ...]
    count: int
    covariance: str
    noise_edge: float
    noise_edge_draws: int
    epsilon: str
    delta: str
    relation: str
    max_rows_per_person: int | None
    assumptions: tuple[str, ...]
    software: str
    label: str = Label.RELEASED.value
    version: int = 1
    estimated_rows: int | None = None

    @property
    def n_rows(self) -> int:
        """Rows of all owners that took part: an estimate where their numbers are secret."""
        stated = sum(share.n_rows for share in self.shares)
        return stated if self.estimated_rows is None else self.estimated_rows

    @property
    def owner_rows(self) -> list[int]:
        """Rows of each owner that took part; where they are secret, equal parts of the estimate."""
        if self.estimated_rows is None:
            return [share.n_rows for share in self.shares]
        return split_rows(self.estimated_rows, len(self.shares))

    def document(self) -> dict[str, Any]:
        """Return the fields as JSON has them; an estimate only where there is one."""
        fields = asdict(self)
        if self.estimated_rows is None:
            del fields["estimated_rows"]
        return fields


@dataclass(frozen=True, slots=True)
class Result:
    """Joint components of a study; arrays as in the module's table.

    Attributes
    ----------
    envelope
        The envelope of the file, once it was verified; None otherwise.
    first
        The study that this one continues, with its result, once it is known.
    """

    header: ResultHeader
    pooled: NDArray[np.int64]
    within: NDArray[np.float64] | None
    mean: NDArray[np.float64] | None
    eigenvalues: NDArray[np.float64]
    vectors: NDArray[np.float64]
    envelope: bytes | None = None
    first: Published | None = None

    def rounds(self, study: Study) -> tuple[Published, ...]:
        """Return what synthetic rows are made of: the study before, if any, and this one.

        Raise `SettingError` if the study continues another one that is not known.
        """
        own = Published(study, self)
        if study.continues is None:
            return (own,)
        if self.first is None or self.first.study.digest != study.continues.study:
            raise SettingError(f"study {study.name} continues another: its result is needed too")
        return (self.first, own)

    def second_moment(self, study: Study) -> NDArray[np.float64]:
        """Return the pooled second-moment matrix, shape (p, p), coded units."""
        return unpack(self.pooled, self.header.n_rows, study.table.layout)[1]

    def histograms(self, study: Study) -> tuple[NDArray[np.float64] | None, ...]:
        """Return the released share of rows in each cell of each attribute, or None for it."""
        return unpack_histograms(self.pooled, self.header.n_rows, study.table.layout)

    def tables(self, study: Study) -> tuple[NDArray[np.float64], ...]:
        """Return the released share of the rows in each cell of each table."""
        return unpack_tables(self.pooled, self.header.n_rows, study.table.layout)

    def covariance(self, study: Study) -> NDArray[np.float64]:
        """Return the matrix that was decomposed, shape (p, p): free post-processing."""
        if self.within is not None:
            return self.within
        second = self.second_moment(study)
        return second if self.mean is None else second - np.outer(self.mean, self.mean)


@dataclass(frozen=True, slots=True)
class Published:
    """A study and its result."""

    study: Study
    result: Result


_NAMES = frozenset({"header", "pooled", "within", "mean", "eigenvalues", "vectors"})
_NONE: NDArray[np.float64] = np.empty(0)
_DAMAGED = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""Errors that a changed header causes; `tests.fuzz` found them."""
_HEADER_BYTES, _HEADER_BYTES_PER_OWNER = 1 << 20, 1 << 10  # without the arrays
_RECEIPT_BYTES_PER_OWNER, _RECEIPT_BYTES_PER_SEAL = 1 << 14, 1 << 7  # a seal is of an opener
_CONTAINER_BYTES = 1 << 17  # of an archive, beside what it holds
_MOST_ROWS = 1 << 40  # largest `max_rows` of a study
_MOST_VARIANCE = 2.0**126  # sums have 64 bits
_ROUNDING = 1e-6
"""Relative; other machines compute the same numbers up to the last bits."""


def result_to_bytes(result: Result) -> bytes:
    """Return the result file."""
    arrays: dict[str, NDArray[Any]] = {
        "header": np.frombuffer(canonical_json(result.header.document()), np.uint8),
        "pooled": result.pooled.astype("<i8", copy=False),
    }
    if result.header.count:
        arrays["eigenvalues"] = result.eigenvalues.astype("<f8", copy=False)
        arrays["vectors"] = result.vectors.astype("<f8", copy=False)
    if result.mean is not None:
        arrays["mean"] = result.mean.astype("<f8", copy=False)
    if result.within is not None:
        arrays["within"] = result.within.astype("<f8", copy=False)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def largest_result(study: Study) -> int:
    """Return the size in bytes that no result file of a study exceeds."""
    p = study.table.layout.n_columns
    numbers = study.table.layout.n_entries + 2 * p * p + 2 * p
    header = _HEADER_BYTES + _HEADER_BYTES_PER_OWNER * len(study.owners)
    return 8 * numbers + header + _CONTAINER_BYTES


def largest_envelope(study: Study) -> int:
    """Return the size in bytes that no envelope of a study's result exceeds."""
    of_owner = _RECEIPT_BYTES_PER_OWNER + _RECEIPT_BYTES_PER_SEAL * len(study.openers or ())
    claims = _HEADER_BYTES + len(study.canonical_bytes()) + of_owner * len(study.owners)
    claims += 3 * MAX_CONSENT * len(study.signatories or ())  # base64 in an envelope; of an opener
    if study.continues is not None:  # it holds the envelope of another study's result
        return MAX_ENVELOPE_BYTES
    return min(MAX_ENVELOPE_BYTES, 4 * claims // 3 + _CONTAINER_BYTES)


def result_from_bytes(content: bytes, study: Study) -> Result:
    """Read and check a result file of ``study``.

    Raise `ArtefactError` if it is damaged, belongs to another study, or has an array of the wrong
    shape or with numbers that no result of this study has.
    """
    if len(content) > (most := largest_result(study)):
        raise ArtefactError(
            f"the result has {len(content)} bytes; one of this study has at most {most}"
        )
    arrays = _arrays(content)
    try:
        header = _header(json.loads(arrays["header"].tobytes()))
        _check(header, arrays, study)
        result = Result(
            header=header,
            pooled=arrays["pooled"],
            within=arrays.get("within"),
            mean=arrays.get("mean"),
            eigenvalues=arrays.get("eigenvalues", _NONE),
            vectors=arrays.get("vectors", _NONE),
        )
    except _DAMAGED as error:
        raise ArtefactError("the file is not a result of this software, or is damaged") from error
    return result


def released_spectrum(content: bytes) -> tuple[NDArray[np.float64], float]:
    """Return eigenvalues, shape (p,), and noise edge of a result file, to plan another study.

    Raise `ArtefactError` if the file is no result.
    """
    arrays = _arrays(content)
    try:
        values = arrays["eigenvalues"].astype(np.float64)
        edge = float(json.loads(arrays["header"].tobytes())["noise_edge"])
        if not (np.abs(values).max() <= _MOST_VARIANCE and 0 <= edge <= _MOST_VARIANCE):
            raise ValueError("out of range")
    except _DAMAGED as error:
        raise ArtefactError("the file is not a result of this software, or is damaged") from error
    return values, edge


def _arrays(content: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays of a result file: known names only, and none larger than the file."""
    archive = read_archive(content)
    names = {name: name.removesuffix(".npy") for name in archive.members}
    strange = sorted(set(names.values()) - _NAMES)
    if strange or any(not name.endswith(".npy") for name in names):
        raise ArtefactError(
            f"the file is not a result of this software: it holds {len(strange)} other parts"
        )
    damaged = [names[name] for name in archive.damaged()]
    if damaged:
        raise ArtefactError(f"array {damaged[0]} is damaged: it does not have its checksum")
    return {names[name]: array_in(member) for name, member in archive.members.items()}


def _header(document: dict[str, Any]) -> ResultHeader:
    shares = tuple(Share(**share) for share in document.pop("shares"))
    missing = tuple(document.pop("missing"))
    assumptions = tuple(document.pop("assumptions"))
    return ResultHeader(shares=shares, missing=missing, assumptions=assumptions, **document)


def _check(header: ResultHeader, arrays: Mapping[str, NDArray[Any]], study: Study) -> None:
    layout, decomposed = study.table.layout, study.continues is None
    p = layout.n_columns
    if header.study_digest != study.digest:
        raise ArtefactError("the result belongs to another study")
    expected: list[tuple[str, tuple[int, ...] | None, str]] = [
        ("pooled", (layout.n_entries,), "int64"),
        ("mean", (p,) if layout.with_sums else None, "float64"),
        ("within", (p, p) if study.covariance is Covariance.WITHIN else None, "float64"),
        ("eigenvalues", (p,) if decomposed else None, "float64"),
        ("vectors", (header.count, p) if decomposed else None, "float64"),
    ]
    for name, shape, dtype in expected:
        array = arrays.get(name)
        if (array is None) != (shape is None):
            raise ArtefactError(
                f"the result's array {name} should be {'absent' if shape is None else 'present'}"
            )
        if array is not None and (array.shape != shape or array.dtype != np.dtype(dtype)):
            raise ArtefactError(
                f"the result's array {name} is {array.dtype}{array.shape}, not {dtype}{shape}"
            )
        if array is not None and not np.all(np.isfinite(array)):
            raise ArtefactError(f"the result's array {name} is not finite")
    kept = range(1, p) if decomposed else range(1)
    counts = [header.count, header.noise_edge_draws, *(each.n_rows for each in header.shares)]
    if header.estimated_rows is not None:
        counts.append(header.estimated_rows)
    sound = all(type(each) is int and 0 <= each <= _MOST_ROWS for each in counts)
    if not sound or header.n_rows < 1 or header.count not in kept:
        raise ArtefactError("the result's header is out of range")
    counted = count_rows(arrays["pooled"], layout) if study.has_secret_rows else None
    if header.estimated_rows != counted or (counted and any(each.n_rows for each in header.shares)):
        raise ArtefactError("the result's header has other numbers of rows than its sums")
    if decomposed:
        _check_numbers(header, arrays, study)


def _check_numbers(header: ResultHeader, arrays: Mapping[str, NDArray[Any]], study: Study) -> None:
    """Refuse numbers that are larger than the sums, or any sums of 64 bits, lead to.

    A mean is at most that of ``pooled``. An entry of the matrix that was decomposed is at most
    ``m + a**2``, from the largest mean product m and the largest mean a, both by magnitude; within
    owners, from the largest that one row can send. An eigenvalue is at most p times that.
    """
    layout, pooled = study.table.layout, arrays["pooled"]
    p, one = layout.n_columns, float(4**layout.resolution_bits)
    weight = layout.scaled_weight / 2**layout.resolution_bits
    largest = 2.0**63 / one + (2.0**63 / (one * weight) if layout.with_sums else 0.0) ** 2
    entry, mean = largest, unpack_mean(pooled, header.n_rows, layout)
    if mean is not None and np.any(np.abs(arrays["mean"]) > np.abs(mean) + _ROUNDING):
        raise ArtefactError("the result's array mean is larger than its array pooled gives")
    if "within" not in arrays:
        products = np.abs(pooled[layout.n_sums : layout.n_moments].astype(np.float64))
        means = 0.0 if mean is None else float(np.abs(mean).max())
        entry = max(float(products.max(initial=0.0)) / (one * header.n_rows), 0.25, means)
        entry += means**2
    elif np.abs(arrays["within"]).max() > largest:
        raise ArtefactError("the result's array within is larger than any sums give")
    values, vectors = arrays["eigenvalues"], arrays["vectors"]
    if np.abs(values).max() > p * entry * (1 + _ROUNDING) or np.any(np.diff(values) > 0):
        raise ArtefactError("the result's array eigenvalues is not descending, or too large")
    if np.abs(vectors).max() > 1 + _ROUNDING or not np.allclose(
        np.linalg.norm(vectors, axis=1), 1.0, atol=_ROUNDING
    ):
        raise ArtefactError("the result's array vectors has rows that are not of length 1")
    edge = header.noise_edge
    if type(edge) is not float or not 0 <= edge <= 4 * p * largest:
        raise ArtefactError("the result's header is out of range")
