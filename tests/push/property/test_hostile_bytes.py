"""A short run of `tests.fuzz`: inputs that were good, changed in a few places; the same each time.

``make fuzz`` searches for as long as it is told, guided by what the code does.
"""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz import targets
from tests.fuzz.targets import TARGETS
from tests.support.examples import examples


@pytest.fixture(scope="module", autouse=True)
def _made() -> Iterator[None]:
    yield
    targets.close()


@st.composite
def changed(draw: st.DrawFn, n_seeds: int) -> tuple[int, list[tuple[int, float, bytes]]]:
    """Which input, and what is done to it: replace, insert, cut, or repeat, and where."""
    change = st.tuples(
        st.integers(0, 3), st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=8)
    )
    return draw(st.integers(0, n_seeds - 1)), draw(st.lists(change, max_size=4))


def apply(content: bytes, changes: list[tuple[int, float, bytes]]) -> bytes:
    for kind, place, piece in changes:
        at = int(place * len(content))
        head, tail = content[:at], content[at:]
        content = (
            head + piece + tail[len(piece) :],
            head + piece + tail,
            head + tail[len(piece) :],
            head + tail[: 16 * len(piece)] + tail,
        )[kind]
    return content


@pytest.mark.parametrize("name", list(TARGETS))
def test_what_was_good_is_taken(name: str) -> None:
    target, seeds, _ = TARGETS[name]
    for seed in seeds():
        target(seed)


@pytest.mark.parametrize("name", list(TARGETS))
def test_hostile_bytes_are_refused_with_errors_of_ours(name: str) -> None:
    target, make_seeds, share = TARGETS[name]
    seeds = make_seeds()

    @settings(
        max_examples=examples(25 * share),
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.one_of(changed(len(seeds)), st.binary(max_size=300)))
    def search(given_: tuple[int, list[tuple[int, float, bytes]]] | bytes) -> None:
        target(given_ if isinstance(given_, bytes) else apply(seeds[given_[0]], given_[1]))

    search()


def test_the_stage_takes_what_its_attacker_may_do() -> None:
    """The control: calls that are the attacker's own get through, the others are refused."""
    stage = targets._stage()
    answers = [stage.play(seed) for seed in stage.seeds()]
    assert answers[0] == ""
    assert answers[3] == ""
    assert answers[2] == "No such study."
    may_not = "This party may not do this."
    assert answers[-8:] == [*[may_not] * 4, "", "", may_not, may_not]


def _marked(content: bytes, mark: bytes, at: int, change: bytes) -> bytes:
    """The content with other bytes at a distance from the first mark."""
    place = content.index(mark) + at
    return content[:place] + change + content[place + len(change) :]


def test_what_the_search_has_found_stays_mended() -> None:
    """Kinds of input that ended with another error than ours when `make fuzz` began."""
    result = TARGETS["results"][1]()[0]
    targets.results(_marked(result, b"PK\x01\x02", 10, b"\x63\x00"))  # a zip method nobody knows
    targets.results(_marked(result, b", }", 2, b" "))  # an array's header without its end
    targets.results(_marked(result, b"\x93NUMPY", 0, b"\x00"))  # a file that is no array
    receipt = TARGETS["receipts"][1]()[0]
    targets.receipts(receipt.replace(b'"n_rows":1000', b'"n_rows":NaN'))
    targets.receipts(receipt.replace(b'"software":"', b'"software":"\\ud800'))
    request = TARGETS["requests"][1]()[0]
    targets.requests(_marked(request, b"\x02\x01\x00", 2, b"\x04"))  # a version of its own
