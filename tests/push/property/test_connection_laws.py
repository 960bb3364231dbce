"""Which connections must go: laws over any crowd."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dppca.common.transport.tls import Identity, Role
from dppca.curator.config import Limits
from dppca.curator.connections import (
    CloseReason,
    Connection,
    group_address,
    parse_peer,
    select_excess,
)

NOW = 100.0
PARTIES = [None, None, *(Identity(f"p{n}", Role.OWNER) for n in range(4))]
OPERATORS = [Identity(f"o{n}", Role.OPERATOR) for n in range(2)]


@st.composite
def crowds(draw: st.DrawFn) -> list[Connection]:
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, 5),
                st.floats(80.0, NOW),
                st.sampled_from([*PARTIES, *OPERATORS]),
            ),
            max_size=60,
        )
    )
    return [
        Connection(inode, (f"10.0.0.{host}", 1000 + inode), since, party)
        for inode, (host, since, party) in enumerate(rows)
    ]


limits = st.builds(
    Limits,
    max_connections=st.integers(1, 20),
    max_connections_per_party=st.integers(1, 8),
    max_unidentified=st.integers(1, 20),
    max_unidentified_per_address=st.integers(1, 8),
    identify_s=st.floats(1.0, 30.0),
)


@given(crowds(), limits)
def test_what_is_left_is_within_every_limit(crowd: list[Connection], caps: Limits) -> None:
    gone = {connection for connection, _ in select_excess(crowd, caps, now=NOW)}
    left = [connection for connection in crowd if connection not in gone]
    strangers = [c for c in left if c.party is None]
    parties = [c for c in left if c.party is not None]
    assert len(strangers) <= caps.max_unidentified
    assert len(parties) <= caps.max_connections
    assert all(NOW - c.since < caps.identify_s for c in strangers)
    assert all(
        n <= caps.max_unidentified_per_address for n in Counter(s.who for s in strangers).values()
    )
    assert all(
        n <= caps.max_connections_per_party for n in Counter(p.who for p in parties).values()
    )


@given(crowds(), limits)
def test_each_goes_once_and_only_where_a_limit_is_passed(
    crowd: list[Connection], caps: Limits
) -> None:
    decided = select_excess(crowd, caps, now=NOW)
    assert len({connection for connection, _ in decided}) == len(decided)
    parties = Counter(c.who for c in crowd if c.party is not None)
    waiting = [c for c in crowd if c.party is None and NOW - c.since < caps.identify_s]
    addresses = Counter(c.who for c in waiting)
    for connection, ground in decided:
        assert {
            CloseReason.SILENT: connection.party is None and connection not in waiting,
            CloseReason.ADDRESS: addresses[connection.who] > caps.max_unidentified_per_address,
            CloseReason.UNIDENTIFIED: len(waiting) > caps.max_unidentified,
            CloseReason.PARTY: parties[connection.who] > caps.max_connections_per_party,
            CloseReason.ALL: parties.total() > caps.max_connections,
        }[ground]


@given(crowds(), limits)
def test_whoever_has_most_gives_way_and_operators_last(
    crowd: list[Connection], caps: Limits
) -> None:
    decided = select_excess(crowd, caps, now=NOW)
    gone = {connection for connection, _ in decided}
    for ground in (CloseReason.UNIDENTIFIED, CloseReason.ALL):
        known = ground is CloseReason.ALL
        left = Counter(c.who for c in crowd if c not in gone and (c.party is not None) is known)
        lost = {c for c, why in decided if why is ground}
        owners = max((n for who, n in left.items() if who.startswith("owner:")), default=0)
        for connection in lost:
            is_operator = connection.party is not None and connection.party.role is Role.OPERATOR
            if is_operator:
                assert owners == 0
                most = max((n for who, n in left.items() if who.startswith("operator:")), default=0)
            else:
                most = owners if known else max(left.values(), default=0)
            assert left[connection.who] >= most - 1


@given(crowds(), limits)
def test_the_newest_stranger_of_an_address_and_the_oldest_of_a_party_stay(
    crowd: list[Connection], caps: Limits
) -> None:
    """Callers from an attacker's address, and callers that were connected before it."""
    for connection, ground in select_excess(crowd, caps, now=NOW):
        same = [
            c
            for c in crowd
            if c.who == connection.who and (c.party is None) is (connection.party is None)
        ]
        if ground is CloseReason.ADDRESS:
            assert connection != max(same, key=lambda c: (c.since, c.inode))
        if ground is CloseReason.PARTY:
            assert connection != min(same, key=lambda c: (c.since, c.inode))


def test_an_address_is_one_however_it_is_written() -> None:
    assert parse_peer("ipv4:127.0.0.1:4711") == ("127.0.0.1", 4711)
    assert parse_peer("ipv6:%5B::ffff:127.0.0.1%5D:4711") == ("127.0.0.1", 4711)
    assert parse_peer("ipv6:%5Bfe80::1%25eth0%5D:80") == ("fe80::1", 80)
    assert parse_peer("unix:/run/x") == ("unix:/run/x", 0)
    assert group_address("10.1.2.3") == "10.1.2.3"
    assert (
        group_address("2001:db8:1:2:3::4")
        == group_address("2001:db8:1:2:ffff::")
        == "2001:db8:1:2::/64"
    )
