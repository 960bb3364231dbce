"""A curator that signs a result with numbers that no sums lead to.

Finite numbers are not enough: one mean of 1e200 overflows to infinity as soon as it is squared.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dppca.common.kernel.attestation.components import sign_result
from dppca.common.kernel.attestation.envelopes import unchecked_predicate, write_signed
from dppca.common.kernel.attestation.results import (
    Result,
    released_spectrum,
    result_from_bytes,
    result_to_bytes,
)
from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.errors import AlteredError, ArtefactError
from dppca.common.kernel.identity.tls import Role
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.verification.files import verify_file
from tests.support.envelopes import releases_in
from tests.support.sites import ProvedSite, make_proved_site


@pytest.fixture(scope="module", params=["pooled", "within"])
def proved(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> ProvedSite:
    return make_proved_site(tmp_path_factory.mktemp("bounds"), covariance=request.param)


def _entry(array: Any, value: float, at: int = -1) -> Any:
    changed = array.copy()
    changed.flat[at] = value
    return changed


def _header(**changes: Any) -> Callable[[Result], Result]:
    return lambda true: replace(true, header=replace(true.header, **changes))


def _share(n_rows: Any) -> Callable[[Result], Result]:
    return lambda true: _header(
        shares=(replace(true.header.shares[0], n_rows=n_rows), *true.header.shares[1:])
    )(true)


HOSTILE: dict[str, Callable[[Result], Result]] = {
    "one mean of 1e200": lambda true: replace(true, mean=_entry(true.mean, 1e200)),
    "means of 1e155": lambda true: replace(true, mean=np.full_like(true.mean, 1e155)),  # type: ignore[arg-type]
    "a mean of -1e20": lambda true: replace(true, mean=_entry(true.mean, -1e20, 0)),
    "eigenvalues of 1e308": lambda true: replace(
        true, eigenvalues=np.full_like(true.eigenvalues, 1e308)
    ),
    "one eigenvalue of -1e200": lambda true: replace(
        true, eigenvalues=_entry(true.eigenvalues, -1e200)
    ),
    "eigenvalues that ascend": lambda true: replace(true, eigenvalues=true.eigenvalues[::-1]),
    "vectors of 1e300": lambda true: replace(true, vectors=np.full_like(true.vectors, 1e300)),
    "vectors of length 0": lambda true: replace(true, vectors=np.zeros_like(true.vectors)),
    "an entry of 2": lambda true: replace(true, vectors=_entry(true.vectors, 2.0)),
    "a noise edge of 1e308": _header(noise_edge=1e308),
    "a noise edge below 0": _header(noise_edge=-1.0),
    "a noise edge that is no number": _header(noise_edge=float("nan")),
    "a noise edge of truth": _header(noise_edge=True),
    "2**60 rows": _share(1 << 60),
    "rows below 0": _share(-1),
    "half a row": _share(0.5),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_numbers_that_no_sums_lead_to_are_refused(
    proved: ProvedSite, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = "dppca.common.kernel.attestation.results.canonical_json"  # which refuses NaN
    monkeypatch.setattr(write, lambda document: json.dumps(document).encode())
    true = result_from_bytes(proved.components.read_bytes(), proved.study)
    assert result_from_bytes(result_to_bytes(true), proved.study).header == true.header
    with pytest.raises(ArtefactError):
        result_from_bytes(result_to_bytes(HOSTILE[what](true)), proved.study)


def test_a_matrix_within_owners_has_bounds_too(tmp_path: Path) -> None:
    proved = make_proved_site(tmp_path, covariance="within")
    true = result_from_bytes(proved.components.read_bytes(), proved.study)
    told = replace(true, within=_entry(true.within, 1e200))
    with pytest.raises(ArtefactError, match="array within"):
        result_from_bytes(result_to_bytes(told), proved.study)


def test_a_plan_takes_no_such_spectrum(proved: ProvedSite) -> None:
    true = result_from_bytes(proved.components.read_bytes(), proved.study)
    assert len(released_spectrum(result_to_bytes(true))[0]) == len(true.eigenvalues)
    for what in ("eigenvalues of 1e308", "a noise edge of 1e308", "one eigenvalue of -1e200"):
        with pytest.raises(ArtefactError):
            released_spectrum(result_to_bytes(HOSTILE[what](true)))


def test_verify_refuses_them_whoever_signed(proved: ProvedSite, tmp_path: Path) -> None:
    true = result_from_bytes(proved.components.read_bytes(), proved.study)
    releases = releases_in(unchecked_predicate(proved.signed.envelope))
    signer = make_signer(proved.authority.issue(Role.CURATOR, "hub"))
    told = HOSTILE["one mean of 1e200"](true)
    path = tmp_path / "told.npz"
    write_signed(path, sign_result(told, proved.study, calibrate(proved.study), releases, signer))
    with pytest.raises(AlteredError, match="array mean is larger"):
        verify_file(path, ca=proved.ca)
