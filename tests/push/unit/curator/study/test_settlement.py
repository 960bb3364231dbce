from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.kernel.documents.messages import accounts_for
from dppca.common.kernel.errors import ChainError, InputError
from dppca.curator.study.settlement import CONTINUED, continue_chain, settle_chain
from dppca.curator.study.study_record import MAX_LEDGER_LENGTH, LedgerHead, OwnerHistory, Settlement

NOW = datetime(2026, 5, 1, tzinfo=UTC)
IDS = st.frozensets(st.binary(min_size=16, max_size=16), max_size=5)
SEEN = OwnerHistory().contributed(b"r" * 16, LedgerHead(9, b"9" * 32))
NEW = LedgerHead(3, b"3" * 32)


@given(held=IDS, known=IDS)
def test_another_chain_follows_only_where_every_release_is_known(
    held: frozenset[bytes], known: frozenset[bytes]
) -> None:
    history = OwnerHistory(LedgerHead(9, b"9" * 32), held)
    if held == known:
        made = continue_chain(history, "owner-1", NEW, accounts_for(known), now=NOW)
        assert made == Settlement(
            int(NOW.timestamp()), "owner:owner-1", CONTINUED, history.chain, NEW, len(held)
        )
        assert history.settled(made).chain == NEW
    else:
        with pytest.raises(ChainError):
            continue_chain(history, "owner-1", NEW, accounts_for(known), now=NOW)


def test_the_same_chain_again_and_a_settlement_again_have_no_effect() -> None:
    known = accounts_for(SEEN.releases)
    made = continue_chain(SEEN, "owner-1", NEW, known, now=NOW)
    assert made is not None
    after = SEEN.settled(made)
    assert continue_chain(after, "owner-1", NEW, known, now=NOW) is None
    first = settle_chain(after, "owner-1", by="operator:alice", reason="Stolen.", now=NOW)
    assert first == Settlement(int(NOW.timestamp()), "operator:alice", "Stolen.", NEW, None, 1)
    none_seen = after.settled(first)
    again = settle_chain(none_seen, "owner-1", by="operator:alice", reason="Again.", now=NOW)
    assert again == first


@pytest.mark.parametrize("reason", ["", "x" * 201, "two\nlines", "\x1b[31m"])
def test_a_settlement_needs_a_reason_of_one_line(reason: str) -> None:
    with pytest.raises(InputError):
        settle_chain(SEEN, "owner-1", by="operator:alice", reason=reason, now=NOW)


def test_nothing_is_settled_of_an_owner_that_was_never_seen() -> None:
    with pytest.raises(InputError, match="nothing can be settled"):
        settle_chain(OwnerHistory(), "owner-1", by="operator:alice", reason="Stolen.", now=NOW)


@pytest.mark.parametrize("length", [-1, 0, MAX_LEDGER_LENGTH, MAX_LEDGER_LENGTH + 1])
def test_no_chain_is_shorter_or_longer_than_any_can_be(length: int) -> None:
    chain, known = LedgerHead(length, b"8" * 32), accounts_for(SEEN.releases)
    if 0 <= length <= MAX_LEDGER_LENGTH:
        assert continue_chain(SEEN, "owner-1", chain, known, now=NOW) is not None
        return
    with pytest.raises(InputError, match=f"a ledger of {length} entries from owner-1"):
        continue_chain(SEEN, "owner-1", chain, known, now=NOW)
