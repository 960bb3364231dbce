"""Audit of the source of all noise, `OperatingSystemEntropy`, in reads of every size.

A release reads from sixteen bytes, for its identifier, to a quarter of a mebibyte at once, by the
sampler's blocks. A read that is short, or is filled up with zeros or with bytes that were given
before, shows in its bytes: all reads are cut into blocks of sixteen, and no block comes twice. Of n
blocks of random bytes two are equal with probability at most ``n^2 / 2^129``, here below 1e-25.
"""

from dataclasses import replace

import numpy as np

from dppca.common.kernel.privacy.noise.entropy import EntropySource, OperatingSystemEntropy
from dppca.owner.selftest.findings import Finding

READS = tuple(sorted({(1 << power) + off for power in range(1, 21) for off in (-1, 0, 1)}))
"""Sizes of the reads: around each power of two up to 1 MiB."""
_BLOCK = 16  # bytes at the end of all reads of one size that are looked at
_LEAST_VALUES = 4  # sixteen random bytes have fewer different values with probability below 1e-20
_FALSE_ALARM = 1e-18  # for the whole check


def audit_reads(source: EntropySource | None = None) -> Finding:
    """Read from the source of a release in all sizes, and compare all blocks of what comes.

    Reads below a block are made sixteen times and put together. ``source`` is for tests.
    """
    source = OperatingSystemEntropy() if source is None else source
    faults, reads = list[str](), dict[int, bytes]()
    for size in READS:
        parts = [source.bytes(size) for _ in range(1 if size >= _BLOCK else _BLOCK)]
        if any(len(part) != size for part in parts):
            faults.append(f"a read of {size} bytes gave another number of them")
        reads[size] = b"".join(parts)
        if len(set(reads[size][-_BLOCK:])) < _LEAST_VALUES:
            faults.append(f"a read of {size} bytes ends in bytes that are not random")
    if _count_repeated(list(reads.values())):
        wrong = [size for size, content in reads.items() if _count_repeated([content])]
        faults.append(f"blocks came twice, in reads of {wrong or 'different sizes'}")
    says = f"{len(READS)} reads of 1 to {READS[-1]} bytes are whole, and no 16 bytes came twice"
    found = Finding.of_faults("random bytes: reads of every size", faults, says)
    return replace(found, false_alarm=_FALSE_ALARM)


def _count_repeated(contents: list[bytes]) -> int:
    """Count the blocks that came before in the contents."""
    whole = (content[: len(content) // _BLOCK * _BLOCK] for content in contents)
    words = np.frombuffer(b"".join(whole), "<u8").reshape(-1, 2)
    ordered = words[np.lexsort((words[:, 1], words[:, 0]))]
    return int((ordered[1:] == ordered[:-1]).all(axis=1).sum())
