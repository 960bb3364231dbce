"""No value in the receipt of a masked sum is there without being checked."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.kernel.attestation.components import check_components
from dppca.common.kernel.attestation.envelopes import unchecked_predicate
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.errors import AlteredError, ArtefactError, ReceiptError, SignatureError
from dppca.common.kernel.identity.tls import Role
from tests.support.certificates import new_authority
from tests.support.envelopes import claim
from tests.support.examples import examples
from tests.support.masked import CertifiedStudy, MaskedRound, carry_out, make_masked_study

Place = tuple[str | int, ...]
REFUSED = (AlteredError, ArtefactError, ReceiptError, SignatureError)
OWN_WORD = {"count", "parts", "software"}
"""Top fields that a curator states for itself; a result is compared with the first two."""


@cache
def _round() -> MaskedRound:
    """Five of six owners, with votes; one opener of four is gone."""
    made = make_masked_study(
        6, 4, spares=1, quorum=4, deadline="2099-01-01T00:00:00Z", components={"count": 1}
    )
    size = made.study.table.layout.n_entries
    sums = {f"owner-{place}": np.full(size, place) for place in (1, 2, 3, 4, 6)}
    present = ("owner-1", "owner-2", "owner-4")
    return carry_out(CertifiedStudy(made, new_authority()), sums, n_rows=50, present=present)


@cache
def _document() -> bytes:
    return canonical_json(unchecked_predicate(_round().signed().envelope))


def _check(document: dict[str, Any]) -> None:
    """Check a receipt that a curator of the authority signed, whatever it says."""
    authority = _round().parties.authority
    curator = make_signer(authority.issue(Role.CURATOR, "hub"))
    check_components(claim(document, curator), KnownParties(authority.pem))


def _places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Places of all values inside a document, its leaves and what holds them."""
    if at:
        yield at
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _places(inner, (*at, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _places(inner, (*at, place))


def _require_found(place: Place, *, left_out: bool = False) -> None:
    """A receipt with another value at a place, or none, is refused."""
    document = json.loads(_document())
    *outer, last = place
    holder: Any = document
    for key in outer:
        holder = holder[key]
    if left_out:
        del holder[last]
    else:
        holder[last] = _other(holder[last])
    with pytest.raises(REFUSED):
        _check(document)


def _other(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool) or value is None:
        return 1
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        middle = len(value) // 2  # the ends of a certificate in PEM are not part of it
        changed = "0" if value[middle : middle + 1] != "0" else "1"
        return value[:middle] + changed + value[middle + 1 :]
    if isinstance(value, list):
        return [*value, *value[-1:]] if value else [0]
    return {**value, "more": 0}


def _checked_places() -> list[Place]:
    found = [place for place in _places(json.loads(_document())) if place[0] not in OWN_WORD]
    assert {place[0] for place in found} > {"sum", "releases", "study", "guarantee", "mechanism"}
    return found


def test_what_nobody_changed_is_taken() -> None:
    _check(json.loads(_document()))


@settings(max_examples=examples(300), derandomize=True, database=None)
@given(st.data())
def test_a_value_that_a_curator_changes_or_leaves_out_is_found(data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(_checked_places()))
    _require_found(place, left_out=not data.draw(st.booleans()))


@pytest.mark.parametrize("inside", ["sum", "releases"])
def test_every_value_of_the_sum_and_of_its_releases_is_checked(inside: str) -> None:
    """All of them, not a sample: this is what `trust: aggregate` adds."""
    places = [place for place in _checked_places() if place[0] == inside and len(place) > 1]
    assert len(places) > 30
    for place in places:
        _require_found(place)
