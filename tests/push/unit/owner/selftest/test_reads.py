"""What comes of reads of the operating system's generator is judged by its bytes.

False alarms: a sound generator gives equal blocks of sixteen bytes with probability below 1e-18.
"""

import os
from collections.abc import Callable

import pytest

from dppca.owner.selftest.reads import READS, audit_reads

FALSE_ALARMS = 1e-18


class _Source:
    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read

    def bytes(self, count: int) -> bytes:
        return self._read(count)


def _padded(count: int) -> bytes:
    return os.urandom(min(count, 1 << 16)) + bytes(max(0, count - (1 << 16)))


def _again(count: int) -> bytes:
    half = os.urandom(-(-count // 2))
    return (half + half)[:count]


BAD: dict[str, Callable[[int], bytes]] = {
    "zeros": lambda count: bytes(count),
    "zeros of large reads": lambda count: bytes(count) if count > 1 << 18 else os.urandom(count),
    "zeros of the largest reads alone": lambda count: (
        bytes(count) if count > 1 << 20 else os.urandom(count)
    ),
    "zeros of a few bytes": lambda count: bytes(count) if count < 16 else os.urandom(count),
    "short reads filled up": _padded,
    "short reads": lambda count: os.urandom(min(count, 256)),
    "too many bytes": lambda count: os.urandom(count + 1),
    "the same half twice": _again,
    "the same start in two reads": lambda count: (
        bytes(range(32))[:count] + os.urandom(max(0, count - 32))
    ),
    "an end of zeros": lambda count: os.urandom(max(1, count - 15)) + bytes(min(15, count - 1)),
}


def test_the_operating_system_s_generator_passes() -> None:
    found = audit_reads()
    assert found.passed, found
    assert found.false_alarm == FALSE_ALARMS
    assert (min(READS), max(READS)) == (1, (1 << 20) + 1)


@pytest.mark.parametrize("fault", sorted(BAD))
def test_a_source_with_a_fault_is_found(fault: str) -> None:
    assert not audit_reads(_Source(BAD[fault])).passed
