import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from dppca.common.kernel.aggregation.masking import seal_info
from dppca.common.kernel.aggregation.opening import Sums, answer, open_set
from dppca.common.kernel.aggregation.seals import make_opener_key, seal
from dppca.common.kernel.aggregation.streams import add_stream
from dppca.common.kernel.aggregation.sum_messages import SealedSet, Vote
from dppca.common.kernel.errors import (
    DppcaError,
    IdentityError,
    OpeningRefusedError,
    PermissionDeniedError,
    SealError,
    SignatureError,
)
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.signing import Purpose, sign
from tests.support.aggregation import Federation, federation

PLAIN = federation()
SPARE = federation(n_openers=4, spares=1)
NAMES = PLAIN.names
OPENER = NAMES[1]


def _open(
    who: Federation,
    shown: SealedSet,
    votes: Sequence[Vote] = (),
    *,
    bound: str | None = None,
) -> Sums:
    secret = who.secrets[OPENER]
    return open_set(who.terms, shown, votes, opener=OPENER, secret=secret, bound=bound)


def _votes(who: Federation, openers: Sequence[str], owners: Sequence[str]) -> list[Vote]:
    return [who.vote(who.shown(each, owners)) for each in openers]


def _with_entry(shown: SealedSet, place: int, **changes: object) -> SealedSet:
    entries = list(shown.entries)
    entries[place] = replace(entries[place], **changes)
    return replace(shown, entries=tuple(entries))


def test_an_opening_is_the_sum_of_the_sets_masks() -> None:
    sums = _open(PLAIN, PLAIN.shown(OPENER, NAMES[1:5]))
    total = np.zeros(PLAIN.terms.n_words, np.uint64)
    for owner in NAMES[1:5]:
        seal_ = PLAIN.uploads[owner].seals[1]
        seed = PLAIN.secrets[OPENER].unseal(seal_, seal_info(PLAIN.terms, owner, OPENER))
        add_stream(total, PLAIN.terms, seed, owner=owner, stream=1)
    assert sums.totals == ((1, total.tobytes()),)


def test_the_same_set_gives_the_same_bytes_and_another_is_refused() -> None:
    shown = PLAIN.shown(OPENER, NAMES[:4])
    sums = _open(PLAIN, shown)
    assert _open(PLAIN, shown, bound=sums.set_digest) == sums
    with pytest.raises(OpeningRefusedError, match="another set"):
        _open(PLAIN, PLAIN.shown(OPENER, NAMES[:5]), bound=sums.set_digest)


def test_a_key_that_two_studies_name_opens_one_of_them() -> None:
    other = federation(n_entries=6)
    assert other.secrets[OPENER] == PLAIN.secrets[OPENER]
    bound = _open(PLAIN, PLAIN.shown(OPENER, NAMES[:4])).set_digest
    with pytest.raises(OpeningRefusedError, match="another set"):
        _open(other, other.shown(OPENER, NAMES[:4]), bound=bound)


def test_sums_are_not_shown() -> None:
    assert "totals" not in repr(_open(PLAIN, PLAIN.shown(OPENER, NAMES[:4])))


@pytest.mark.parametrize("order", [[0, 0, 1, 2, 3], [1, 0, 2, 3], [0, 1, 2, 3, 3]])
def test_owners_twice_or_out_of_order_are_refused(order: list[int]) -> None:
    entries = PLAIN.shown(OPENER, NAMES).entries
    with pytest.raises(OpeningRefusedError, match="ascend"):
        _open(PLAIN, SealedSet(OPENER, tuple(entries[each] for each in order)))


def test_an_opener_opens_what_is_for_it_with_the_key_in_the_terms() -> None:
    with pytest.raises(OpeningRefusedError, match="for owner-000"):
        _open(PLAIN, PLAIN.shown(NAMES[0], NAMES[:4]))
    shown = PLAIN.shown(OPENER, NAMES[:4])
    other = make_opener_key(SeededEntropy(99))
    with pytest.raises(IdentityError, match="another opener key"):
        open_set(PLAIN.terms, shown, (), opener=OPENER, secret=other, bound=None)
    with pytest.raises(PermissionDeniedError, match="not an opener"):
        open_set(PLAIN.terms, shown, (), opener=NAMES[4], secret=other, bound=None)


def _bad_signature(shown: SealedSet) -> SealedSet:
    return _with_entry(shown, 2, signature=shown.entries[1].signature)


def _changed_statement(shown: SealedSet) -> SealedSet:
    said = shown.entries[2].statement
    return _with_entry(shown, 2, statement=replace(said, payload_sha256=bytes(32)))


def _stranger(shown: SealedSet) -> SealedSet:
    return _with_entry(shown, 3, statement=replace(shown.entries[3].statement, owner="p"))


def _curators_seal(shown: SealedSet) -> SealedSet:
    info = seal_info(PLAIN.terms, NAMES[2], OPENER)
    return _with_entry(
        shown, 2, seal=seal(bytes(32), PLAIN.terms.opener_key(OPENER), info, what="key")
    )


def _signed(shown: SealedSet, sealed: bytes, **changes: object) -> SealedSet:
    """As the colluder owner-003 would sign it."""
    said = shown.entries[3].statement
    hashes = (said.seals_sha256[0], hashlib.sha256(sealed).digest())
    said = replace(said, seals_sha256=hashes, **changes)
    signature = sign(PLAIN.keys[NAMES[3]], Purpose.UPLOAD, said.to_bytes())
    return _with_entry(shown, 3, statement=said, signature=signature, seal=sealed)


def _copied_seal(shown: SealedSet) -> SealedSet:
    return _signed(shown, shown.entries[2].seal)


def _seal_of_another_study(shown: SealedSet) -> SealedSet:
    return _signed(shown, federation(n_entries=6).uploads[NAMES[3]].seals[1])


def _short_seal(shown: SealedSet) -> SealedSet:
    info = seal_info(PLAIN.terms, NAMES[3], OPENER)
    public = PLAIN.terms.opener_key(OPENER)
    return _signed(shown, seal(bytes(31), public, info, what="key"))


def _other_study(shown: SealedSet) -> SealedSet:
    return _signed(shown, shown.entries[3].seal, terms=bytes(32))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (_bad_signature, SignatureError, "masked upload of owner-002"),
        (_changed_statement, SignatureError, "masked upload of owner-002"),
        (_stranger, PermissionDeniedError, "'p' is not an owner"),
        (_curators_seal, SealError, "owner-002 is not the one that it signed"),
        (_copied_seal, SealError, "owner-003 does not open for owner-001"),
        (_seal_of_another_study, SealError, "owner-003 does not open for owner-001"),
        (_short_seal, SealError, "owner-003 holds 31 bytes"),
        (_other_study, OpeningRefusedError, "owner-003 is of another study"),
    ],
)
def test_a_set_with_one_entry_that_is_not_its_owners_is_refused(
    change: Callable[[SealedSet], SealedSet], error: type[DppcaError], message: str
) -> None:
    with pytest.raises(error, match=message):
        _open(PLAIN, change(PLAIN.shown(OPENER, NAMES[:4])))


def test_with_spares_a_set_is_opened_on_enough_votes() -> None:
    shown = SPARE.shown(OPENER, NAMES[:4])
    votes = _votes(SPARE, SPARE.terms.openers, NAMES[:4])
    assert _open(SPARE, shown, votes[:3]) == _open(SPARE, shown, votes)
    for few in ((), votes[:2], [votes[0]] * 3):
        with pytest.raises(OpeningRefusedError, match=r"\d openers have voted .* 3 must"):
            _open(SPARE, shown, few)


def test_an_opener_votes_once() -> None:
    shown = SPARE.shown(OPENER, NAMES[:4])
    made = SPARE.vote(shown)
    assert SPARE.vote(shown, bound=made.set_digest) == made
    other = SPARE.shown(OPENER, NAMES[:5])
    with pytest.raises(OpeningRefusedError, match="another set"):
        SPARE.vote(other, bound=made.set_digest)
    votes = _votes(SPARE, SPARE.terms.openers, NAMES[:5])
    with pytest.raises(OpeningRefusedError, match="another set"):
        _open(SPARE, other, votes, bound=made.set_digest)


def test_a_set_below_the_quorum_is_neither_opened_nor_voted_for() -> None:
    for refused in (
        lambda: _open(PLAIN, PLAIN.shown(OPENER, NAMES[:3])),
        lambda: SPARE.vote(SPARE.shown(OPENER, NAMES[:3])),
    ):
        with pytest.raises(OpeningRefusedError, match="3 owners is below the quorum of 4"):
            refused()


def test_an_answer_is_the_sum_over_the_wanted_streams() -> None:
    votes = _votes(SPARE, SPARE.terms.openers, NAMES[:4])
    sums = _open(SPARE, SPARE.shown(OPENER, NAMES[:4]), votes)
    held = dict(sums.totals)
    first, second = list(held)[:2]
    made = answer(SPARE.terms, sums, (first, second), opener=OPENER, key=SPARE.keys[OPENER])
    parts = [np.frombuffer(held[each], "<u8") for each in (first, second)]
    assert made.total == (parts[0] + parts[1]).tobytes()
    assert (made.streams, made.set_digest) == ((first, second), sums.set_digest)


@pytest.mark.parametrize("wanted", [(), (1, 0), (0, 0), (0, 2)])
def test_an_answer_names_streams_that_are_held_once_each(wanted: tuple[int, ...]) -> None:
    votes = _votes(SPARE, SPARE.terms.openers, NAMES[:4])
    sums = _open(SPARE, SPARE.shown(OPENER, NAMES[:4]), votes)
    assert SPARE.terms.held(OPENER) == (0, 1, 3)
    with pytest.raises(OpeningRefusedError):
        answer(SPARE.terms, sums, wanted, opener=OPENER, key=SPARE.keys[OPENER])
