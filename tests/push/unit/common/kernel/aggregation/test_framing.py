import pytest

from dppca.common.kernel.aggregation.framing import frame, unframe
from dppca.common.kernel.errors import LimitError, UploadError


@pytest.mark.parametrize(
    "content",
    [
        b"",
        frame("seed", b"ab"),
        frame("vote", b"ab")[:-1],
        frame("vote", b"ab")[:-3],
        frame("vote"),
        frame("vote", b"a") + b"x",
        frame("vote", b"a", b""),
    ],
)
def test_bytes_of_another_kind_length_or_number_of_parts_are_refused(content: bytes) -> None:
    with pytest.raises((UploadError, LimitError)):
        unframe("vote", content, (2,))


def test_nothing_larger_than_its_limit_is_read() -> None:
    with pytest.raises(LimitError, match="14 are allowed"):
        unframe("v", frame("v", bytes(99)), (0,))
    with pytest.raises(LimitError, match="a part"):
        unframe("vote", frame("vote", b"abc", b""), (2, 9))
