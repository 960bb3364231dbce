from collections.abc import Iterator
from threading import Event, Thread

import pytest

from dppca.owner.records.reading_ahead import ReadAhead

WAIT_S = 10


def test_every_batch_is_taken_once_by_the_reader_or_by_another() -> None:
    ahead, taken = ReadAhead[int](2), list[list[int]]()
    others = [Thread(target=lambda: taken.append(list(ahead.taken()))) for _ in range(2)]
    for other in others:
        other.start()
    left = list(ahead.left(range(200)))
    for other in others:
        other.join(WAIT_S)
    assert sorted([*left, *taken[0], *taken[1]]) == list(range(200))


def test_the_reader_works_on_what_has_no_room() -> None:
    ahead = ReadAhead[int](1)
    # Nobody takes: three wait, and the rest is the reader's.
    assert list(ahead.left(range(5))) == [3, 4]
    assert list(ahead.taken()) == [0, 1, 2]


def test_a_reader_alone_works_on_everything() -> None:
    assert list(ReadAhead[int](0).left(range(5))) == [0, 1, 2, 3, 4]


def test_after_a_stop_nothing_is_read_or_taken() -> None:
    ahead, read = ReadAhead[int](1), list[int]()

    def batches() -> Iterator[int]:
        for number in range(5):
            read.append(number)
            if number == 2:
                ahead.stop()
            yield number

    assert list(ahead.left(batches())) == []
    assert read == [0, 1, 2]
    assert list(ahead.taken()) == []


@pytest.mark.parametrize("by_failure", [True, False])
def test_who_waits_is_let_go_when_reading_ends(by_failure: bool) -> None:
    ahead, started, taken = ReadAhead[int](1), Event(), list[int]()

    def take() -> None:
        started.set()
        taken.extend(ahead.taken())

    other = Thread(target=take, daemon=True)
    other.start()
    started.wait(WAIT_S)
    if by_failure:
        ahead.stop()
    else:
        assert list(ahead.left([])) == []
    other.join(WAIT_S)
    assert not other.is_alive()
    assert taken == []
