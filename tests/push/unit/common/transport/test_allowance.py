"""No answer in many messages is read for ever: messages, bytes and time are bounded together."""

from collections.abc import Iterator
from itertools import count

import pytest

from dppca.common.kernel.errors import LimitError
from dppca.common.transport.allowance import Allowance
from dppca.common.transport.codec import MOST_VALUES, read_message
from dppca.common.wire import federation_pb2 as pb
from dppca.owner.client.calls import StudyProgress


def without_end(taken: list[int]) -> Iterator[pb.Chunk]:
    for number in count():
        taken.append(number)
        yield pb.Chunk(content=b"1234")


@pytest.mark.parametrize(
    ("most", "read", "unit"),
    [
        ({"messages": 3}, 4, "3 messages"),
        ({"n_bytes": 13}, 3, "13 bytes"),
        ({"seconds": 5}, 6, "s"),
    ],
)
def test_an_answer_ends_at_the_first_of_its_bounds(
    most: dict[str, int], read: int, unit: str
) -> None:
    seconds, taken = iter(count()), list[int]()
    allowed = Allowance("the list", clock=lambda: float(next(seconds)), **most)
    with pytest.raises(LimitError, match=f"the list does not end within .*{unit}"):
        list(allowed.of(without_end(taken)))
    assert len(taken) == read


def test_an_answer_within_its_bounds_is_read_whole() -> None:
    allowed = Allowance("the list", messages=2, n_bytes=12, seconds=0, clock=lambda: 7.0)
    chunks = [pb.Chunk(content=b"1234")] * 2
    assert list(allowed.of(chunks)) == chunks


def test_one_message_with_countless_values_is_not_read_into_them() -> None:
    names = [""] * MOST_VALUES
    answer = pb.GetResultResponse(state=pb.STUDY_STATE_OPEN, missing=names)
    assert len(read_message(StudyProgress, answer).missing) == MOST_VALUES
    answer.missing.append("")
    with pytest.raises(LimitError, match="missing of the other side's answer has more than"):
        read_message(StudyProgress, answer)
