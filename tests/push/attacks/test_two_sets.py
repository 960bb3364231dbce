"""A curator wants two sums, whose difference is one owner; or one sum of too few owners.

Each attack is tried, and what it would have shown is computed from everything that the curator and
its colluders then hold. The first test breaks an opener on purpose: the attack works, and the
reckoning sees it.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations, product

import numpy as np
import pytest

from dppca.common.kernel.aggregation.masking import mask
from dppca.common.kernel.aggregation.opening import answer, open_set
from dppca.common.kernel.aggregation.pooling import unmask
from dppca.common.kernel.errors import ConflictError, GarbledSumError
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.signing import Purpose, sign
from tests.support.aggregation import federation
from tests.support.hostile_curator import HostileCurator

PLAIN = federation(n_entries=64)
SPARE = federation(n_openers=4, spares=1)
NAMES = PLAIN.names
FIRST, SECOND = NAMES[:2]
ALL, WITHOUT = NAMES, NAMES[:4]


def _sum_of(curator: HostileCurator, owners: list[str], given: list[int]) -> np.ndarray:
    words = np.zeros(curator.who.terms.n_words, np.uint64)
    for owner in owners:
        words += np.frombuffer(curator.who.uploads[owner].payload, "<u8")
    for place in given:
        words += np.frombuffer(curator.answers[place][1].total, "<u8")
    return words.view(np.int64)[:-2]


def test_an_opener_that_forgot_gives_one_owner_away() -> None:
    curator = HostileCurator(PLAIN, frozenset({SECOND}))
    for owners in (NAMES[:4], NAMES[:5]):
        opener = curator.openers[FIRST]
        opener.bound, opener.key_destroyed = None, False  # restored from a backup
        curator.ask_open(FIRST, PLAIN.shown(FIRST, owners))
        curator.ask_answer(FIRST, (0,))
    assert len(curator.exposed()) == 2
    assert frozenset({NAMES[4]}) in _combinations(curator.exposed())
    # And in numbers: the colluding opener adds what it holds, for any set.
    colluding = [_colluders_sum(curator, SECOND, owners, (1,)) for owners in (NAMES[:4], NAMES[:5])]
    sums = [
        _sum_of(curator, owners, [place]) + colluding[place]
        for place, owners in enumerate((NAMES[:4], NAMES[:5]))
    ]
    assert (sums[1] - sums[0]).tolist() == PLAIN.vectors[NAMES[4]].tolist()


def _colluders_sum(
    curator: HostileCurator, opener: str, owners: list[str], streams: tuple[int, ...]
) -> np.ndarray:
    who = curator.who
    sums = open_set(
        who.terms,
        who.shown(opener, owners),
        (),
        opener=opener,
        secret=who.secrets[opener],
        bound=None,
    )
    made = answer(who.terms, sums, streams, opener=opener, key=who.keys[opener])
    return np.frombuffer(made.total, "<i8")[:-2]


def _combinations(basis: list[frozenset[str]]) -> Iterator[frozenset[str]]:
    for chosen in chain.from_iterable(
        combinations(basis, size) for size in range(1, len(basis) + 1)
    ):
        total: frozenset[str] = frozenset()
        for each in chosen:
            total ^= each
        yield total


def test_two_openers_told_two_sets_give_no_sum() -> None:
    curator = HostileCurator(PLAIN, frozenset({NAMES[5]}))
    curator.ask_open(FIRST, PLAIN.shown(FIRST, ALL))
    curator.ask_open(SECOND, PLAIN.shown(SECOND, WITHOUT))
    curator.ask_answer(FIRST, (0,))
    curator.ask_answer(SECOND, (1,))
    assert curator.exposed() == []
    for size in range(1, 7):
        for owners, given in product(combinations(NAMES, size), ([0], [1], [0, 1])):
            found = _sum_of(curator, list(owners), given)
            assert np.mean(np.abs(found.astype(float)) < 2.0**50) < 0.1
    uploads = [PLAIN.uploads[each] for each in ALL]
    with pytest.raises(ConflictError, match="another set"):
        unmask(PLAIN.terms, uploads, [given for _, given in curator.answers])


def test_a_signature_made_over_gives_no_second_set() -> None:
    """Anybody can turn (r, s) into (r, n - s); a set's digest does not hold signatures."""
    from cryptography.hazmat.primitives.asymmetric.utils import (
        decode_dss_signature,
        encode_dss_signature,
    )

    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    shown = PLAIN.shown(FIRST, ALL)
    r, s = decode_dss_signature(shown.entries[0].signature)
    entry = replace(shown.entries[0], signature=encode_dss_signature(r, order - s))
    changed = replace(shown, entries=(entry, *shown.entries[1:]))
    assert changed.digest == shown.digest
    curator = HostileCurator(PLAIN, frozenset({SECOND}))
    curator.ask_open(FIRST, changed)
    before = curator.openers[FIRST].sums
    curator.openers[FIRST].key_destroyed = False
    curator.ask_open(FIRST, shown)
    assert curator.openers[FIRST].sums == before


def test_without_votes_a_spare_would_give_a_second_set_away() -> None:
    """Why spares need votes: each stream has several holders, told different sets."""
    curator = HostileCurator(SPARE, frozenset({SPARE.terms.openers[3]}))
    for opener, owners in zip(sorted(curator.openers), (ALL, WITHOUT, ALL), strict=True):
        shown = SPARE.shown(opener, owners)
        honest = curator.openers[opener]
        extra = [
            replace(each, opener=other, signature=sign(SPARE.keys[other], Purpose.VOTE, b""))
            for each in curator.bought_votes(shown.digest)
            for other in curator.openers
        ]
        signed = [
            replace(each, signature=sign(SPARE.keys[each.opener], Purpose.VOTE, each.signed()))
            for each in extra
        ]  # votes that honest openers would never give for both
        honest.open(shown, signed)
        curator.ask_answer(opener, SPARE.terms.held(opener))
    assert frozenset(NAMES[4:]) in _combinations(curator.exposed())


def test_a_colluders_wrong_seed_spoils_the_sum_and_is_seen() -> None:
    """It can stop a study; that is not excluded. No false sum comes out."""
    curator = HostileCurator(PLAIN, frozenset({NAMES[5]}))
    for place, opener in enumerate(PLAIN.terms.openers):
        curator.ask_open(opener, PLAIN.shown(opener, ALL))
        curator.ask_answer(opener, (place,))
    other = mask(
        PLAIN.terms,
        NAMES[5],
        PLAIN.vectors[NAMES[5]],
        key=PLAIN.keys[NAMES[5]],
        entropy=SeededEntropy(78),
    )
    false = replace(PLAIN.uploads[NAMES[5]], payload=other.payload)
    uploads = [*(PLAIN.uploads[each] for each in NAMES[:5]), false]
    with pytest.raises(GarbledSumError):
        unmask(PLAIN.terms, uploads, [given for _, given in curator.answers])
