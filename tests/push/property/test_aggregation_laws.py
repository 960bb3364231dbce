"""Masked sums under any set, any spares that go, and any script of a hostile curator."""

import hashlib
import tempfile
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from dppca.common.kernel.aggregation.framing import frame, unframe
from dppca.common.kernel.aggregation.masking import seal_info
from dppca.common.kernel.aggregation.seals import seal
from dppca.common.kernel.aggregation.sum_messages import Opening, SealedSet, Statement, Upload, Vote
from dppca.common.kernel.errors import DppcaError, LimitError, UploadError
from dppca.common.kernel.signing import Purpose, sign
from tests.support.aggregation import federation
from tests.support.examples import examples
from tests.support.hostile_curator import HostileCurator
from tests.support.site_openers import STEPS, SiteOpener

FEDERATIONS = [
    federation(n_openers=2, n_entries=2),
    federation(n_openers=3, n_entries=2),
    federation(n_openers=4, spares=1, n_entries=2),
    federation(7, n_openers=5, spares=1, colluders=2, quorum=5, n_entries=2),
]


@given(st.data())
@settings(max_examples=examples(100))
def test_any_set_adds_up_whoever_goes(data: st.DataObject) -> None:
    who = data.draw(st.sampled_from(FEDERATIONS))
    terms = who.terms
    owners = data.draw(
        st.lists(st.sampled_from(who.names), min_size=terms.quorum, unique=True).map(sorted)
    )
    moments = {"never": [], "after_vote": [], "after_opening": []}
    gone = data.draw(st.lists(st.sampled_from(terms.openers), max_size=terms.spares, unique=True))
    for each in gone:
        moments[data.draw(st.sampled_from(sorted(moments)))].append(each)
    assert who.finish(owners, **moments).tolist() == who.summed(owners).tolist()


def _swapped_seal(curator: HostileCurator, shown: SealedSet, at: int) -> SealedSet:
    other = shown.entries[(at + 1) % len(shown.entries)].seal
    return _changed(shown, at, seal=other)


def _signed_by_a_colluder(curator: HostileCurator, shown: SealedSet, at: int) -> SealedSet:
    said = shown.entries[at].statement
    signature = sign(curator.who.keys[min(curator.colluders)], Purpose.UPLOAD, said.to_bytes())
    return _changed(shown, at, signature=signature)


def _renamed(curator: HostileCurator, shown: SealedSet, at: int) -> SealedSet:
    said = replace(shown.entries[at].statement, owner=curator.honest[at % len(curator.honest)])
    return _changed(shown, at, statement=said)


def _stolen(curator: HostileCurator, shown: SealedSet, at: int) -> SealedSet:
    """A colluder comes with another's seals, under its own signature."""
    thief = max(curator.colluders)
    said = replace(shown.entries[at].statement, owner=thief)
    signature = sign(curator.who.keys[thief], Purpose.UPLOAD, said.to_bytes())
    stolen = replace(shown.entries[at], statement=said, signature=signature)
    kept = [entry for entry in shown.entries if entry.statement.owner != thief]
    entries = sorted([*kept, stolen], key=lambda entry: entry.statement.owner)
    return replace(shown, entries=tuple(entries))


def _twice(curator: HostileCurator, shown: SealedSet, at: int) -> SealedSet:
    return replace(shown, entries=(*shown.entries[: at + 1], *shown.entries[at:]))


def _shrunk(curator: HostileCurator, shown: SealedSet, at: int) -> SealedSet:
    return replace(shown, entries=shown.entries[: curator.who.terms.quorum - 1])


def _curators_seal(curator: HostileCurator, shown: SealedSet, at: int) -> SealedSet:
    """With seeds of zeros, in the name of the owner."""
    terms, owner = curator.who.terms, shown.entries[at].statement.owner
    seeds = bytes(32 * len(terms.held(shown.opener)))
    info = seal_info(terms, owner, shown.opener)
    return _changed(shown, at, seal=seal(seeds, terms.opener_key(shown.opener), info, what="key"))


def _forged(curator: HostileCurator, shown: SealedSet, at: int) -> SealedSet:
    """The same, in a statement that names this seal; signed by a colluder.

    A colluder's own entry stays: it may sign and seal what it likes in its own name.
    """
    if shown.entries[at].statement.owner in curator.colluders:
        return shown
    shown = _curators_seal(curator, shown, at)
    place = curator.who.terms.openers.index(shown.opener)
    digests = list(shown.entries[at].statement.seals_sha256)
    digests[place] = hashlib.sha256(shown.entries[at].seal).digest()
    said = replace(shown.entries[at].statement, seals_sha256=tuple(digests))
    return _signed_by_a_colluder(curator, _changed(shown, at, statement=said), at)


def _changed(shown: SealedSet, at: int, **changes: object) -> SealedSet:
    entries = list(shown.entries)
    entries[at] = replace(entries[at], **changes)
    return replace(shown, entries=tuple(entries))


def _untouched(curator: HostileCurator, shown: SealedSet, at: int) -> SealedSet:
    return shown


Change = Callable[[HostileCurator, SealedSet, int], SealedSet]
LIES: list[Change] = [_swapped_seal, _signed_by_a_colluder, _renamed, _stolen]
LIES += [_twice, _shrunk, _curators_seal, _forged]


_SHM = Path("/dev/shm")  # noqa: S108 - the folders in it are made for each test
MEMORY = _SHM if _SHM.is_dir() else None
"""Where nothing waits for a disk; no test here needs one."""
PLACES = st.integers(0, 6)
Step = tuple[str, str, list[str], Change, int]


def _script(data: st.DataObject, curator: HostileCurator) -> list[Step]:
    """A run as it should be, with two sets for one; then steps are lost, added and exchanged."""
    who = curator.who
    quorums = st.lists(st.sampled_from(who.names), min_size=who.terms.quorum, unique=True)
    one, other = data.draw(quorums.map(sorted)), data.draw(quorums.map(sorted))
    openers = data.draw(st.permutations(sorted(curator.openers)))
    kinds = ["vote", "open", "answer"] if who.terms.spares else ["open", "answer"]
    told = {each: data.draw(st.sampled_from([one, one, one, other])) for each in openers}
    lie, at = data.draw(st.sampled_from([_untouched] * len(LIES) + LIES)), data.draw(PLACES)
    steps = [(kind, each, told[each], lie, at) for kind in kinds for each in openers]
    anything = st.tuples(
        st.sampled_from(["vote", "open", "answer"]),
        st.sampled_from(openers),
        st.one_of(
            st.sampled_from([one, other]),
            st.lists(st.sampled_from(who.names), min_size=1, max_size=7),
        ),
        st.sampled_from([_untouched, *LIES]),
        PLACES,
    )
    for _ in range(data.draw(st.integers(0, 8))):
        at = data.draw(st.integers(0, len(steps) - 1))
        match data.draw(st.sampled_from(["lose", "add", "add", "add", "exchange", "repeat"])):
            case "lose" if len(steps) > 1:
                del steps[at]
            case "exchange":
                to = data.draw(st.integers(0, len(steps) - 1))
                steps[at], steps[to] = steps[to], steps[at]
            case "repeat":
                steps.append(steps[at])
            case _:
                steps.insert(at, data.draw(anything))
    return steps


def _run(data: st.DataObject, curator: HostileCurator) -> int:
    """Carry a script out; how many steps were refused."""
    refused = 0
    for kind, opener, owners, lie, at in _script(data, curator):
        entries = tuple(curator.who.shown(opener, [each]).entries[0] for each in owners)
        shown = lie(curator, SealedSet(opener, entries), at % len(owners))
        held = st.sampled_from(curator.who.terms.held(opener))
        wanted = data.draw(st.lists(held, min_size=1, unique=True).map(sorted))
        try:
            if kind == "vote":
                curator.ask_vote(opener, shown)
            elif kind == "open":
                curator.ask_open(opener, shown)
            else:
                curator.ask_answer(opener, tuple(wanted))
                curator.ask_answer(opener, curator.who.terms.held(opener))
        except DppcaError:
            refused += 1
    return refused


def _hostile(data: st.DataObject, place: int) -> HostileCurator:
    """A curator with as many colluders as a study has."""
    who = FEDERATIONS[place]
    t = who.terms.colluders
    against = st.lists(st.sampled_from(who.names), min_size=t, max_size=t, unique=True)
    return HostileCurator(who, frozenset(data.draw(against)))


def _require_promises(data: st.DataObject, curator: HostileCurator) -> None:
    """Carry a script out, and look at what it has shown."""
    terms, refused, exposed = curator.who.terms, _run(data, curator), curator.exposed()
    event(f"{len(exposed)} sums exposed, refused: {refused > 0}")
    assert len(exposed) <= 1, "one sum, of one set"
    for owners in exposed:
        assert len(owners) >= terms.honest, "in no fewer honest shares of noise"
    opened = {each.bound for each in curator.openers.values() if each.opened}
    assert len(opened) <= 1 or not terms.spares, "with votes, one set is opened at all"
    for opener in curator.openers.values():
        if opener.opened is None:
            continue
        assert opener.key_destroyed
        for entry in opener.opened.entries:
            genuine = curator.who.uploads[entry.statement.owner].statement
            assert entry.statement == genuine, "what was opened is what the owner signed"
    curator.require_answers_are_sums()


@pytest.mark.parametrize("place", range(len(FEDERATIONS)))
@given(data=st.data())
@settings(max_examples=examples(150))
def test_no_script_of_a_hostile_curator_exposes_too_few(place: int, data: st.DataObject) -> None:
    _require_promises(data, _hostile(data, place))


@pytest.mark.parametrize("place", range(len(FEDERATIONS)))
@given(data=st.data())
@settings(max_examples=examples(25))
def test_no_script_exposes_too_few_where_openers_die_at_any_step(
    place: int, data: st.DataObject
) -> None:
    """The same scripts, with the ledgers and key files of sites, whose commands die in between."""
    curator = _hostile(data, place)
    deaths = st.sampled_from([None] * 3 * len(STEPS) + list(STEPS))
    plan = iter(lambda: data.draw(deaths), "never")
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        curator.openers = {
            name: SiteOpener(curator.who, name, Path(folder) / name, plan)
            for name in curator.openers
        }
        _require_promises(data, curator)


@given(st.data())
@settings(max_examples=examples(100))
def test_bytes_that_were_changed_are_refused_or_mean_the_same(data: st.DataObject) -> None:
    who = data.draw(st.sampled_from(FEDERATIONS))
    opener = who.terms.openers[0]
    message: Upload | SealedSet = data.draw(
        st.sampled_from([who.uploads[who.names[0]], who.shown(opener, who.names[:5])])
    )
    content = bytearray(message.to_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    try:
        read = type(message).from_bytes(bytes(content), who.terms)
    except DppcaError:
        return
    assert read != message
    assert read.to_bytes() == bytes(content), "one message has one form"


@given(st.sampled_from([Statement, Upload, SealedSet, Vote, Opening]), st.data())
@settings(max_examples=examples(200))
def test_bytes_that_nobody_made_are_refused(kind: type[Upload], data: st.DataObject) -> None:
    """Arbitrary ones, and arbitrary parts under the right first line."""
    who = data.draw(st.sampled_from(FEDERATIONS))
    name = data.draw(
        st.sampled_from(
            ["statement", "masked upload", "sealed set", "signed vote", "signed opening"]
        )
    )
    parts = data.draw(st.lists(st.binary(max_size=90), max_size=5))
    with pytest.raises((UploadError, LimitError)):
        kind.from_bytes(
            data.draw(st.sampled_from([b"".join(parts), frame(name, *parts)])), who.terms
        )


@given(st.binary(max_size=200), st.lists(st.integers(0, 40), max_size=4))
def test_arbitrary_bytes_are_parts_or_refused(content: bytes, limits: list[int]) -> None:
    try:
        parts = unframe("vote", content, limits)
    except DppcaError:
        return
    assert frame("vote", *parts) == content


@given(st.lists(st.lists(st.binary(max_size=6), max_size=4), min_size=2, max_size=6))
def test_different_parts_have_different_bytes(sequences: list[list[bytes]]) -> None:
    for one, other in pairwise(sequences):
        assert (frame("v", *one) == frame("v", *other)) == (one == other)
