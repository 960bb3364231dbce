"""Merging of answers: each part counts exactly once, checked against the manifest.

An engine may run a part again after a worker was lost, and may return both answers. Here every
index counts once, with the manifest's rows; a second answer must have the same bytes, or else the
rows changed in between. Nothing is returned before every part has arrived.

An answer's sums are added at once and only its SHA-256 is kept, so memory does not grow with the
number of parts.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.moments.people import PeopleSums
from dppca.common.kernel.schema import Schema
from dppca.owner.engines.kernel import Answer, Failure, Fingerprint
from dppca.owner.engines.parts import Part
from dppca.owner.records.check import FaultCounts

_WHY = {
    Failure.CHANGED: "the source changed while it was read: do not write to it meanwhile, and run "
    "the command again",
    Failure.UNREADABLE: "a worker cannot read a file of it: every worker needs the same paths, and "
    "rights or credentials of its own for them",
    Failure.DIFFERS: "a worker is not like this machine: install the same DPPCA, Python, NumPy and "
    "pyarrow on all workers, and start them again",
    Failure.MEMORY: "a worker has not enough memory for a part: give workers more memory, or fewer "
    "threads",
    Failure.DEFECT: "a worker failed at a part, and what it said is left out, since it may quote a "
    "row: run the command without --engine to see whether the rows or the cluster are the cause",
}


def merge(
    title: str,
    manifest: Sequence[Part],
    answers: Iterable[Answer],
    schema: Schema,
    *,
    fingerprint: Fingerprint,
    tally: FaultCounts,
    progress: Callable[[int], None] | None = None,
    with_sums: bool = True,
    people: Mapping[int, int] | None = None,
) -> Moments:
    """Moments of all parts; raises as soon as an answer cannot be true.

    ``title`` is the table's name in messages, ``fingerprint`` the expected one of every worker;
    ``tally`` receives the counts of coding faults. ``progress`` is called with the number of rows
    of every part that has arrived. If ``with_sums`` is False, the answers bring counts of faults
    only, and the sums are zeros. ``people`` is how many people have k rows, by k, where answers
    bring sums over people.

    Raise `DataError` if a part failed, changed, has other rows than the manifest's, or is missing;
    raise `SettingError` if a worker differs from this machine.
    """
    parts = {part.index: part for part in manifest}
    total = np.zeros(schema.layout.n_entries, dtype=np.int64)
    of_people = None if people is None else PeopleSums(schema)
    size = total.nbytes * (1 if of_people is None else 2) * with_sums
    seen: dict[int, bytes] = {}
    for answer in answers:
        if answer.failure:
            raise _error(title, answer.failure)
        if answer.fingerprint != fingerprint.digest:
            raise _error(title, Failure.DIFFERS)
        part = parts.get(answer.part)
        if part is None or answer.n_rows != part.n_rows:
            raise _error(title, Failure.CHANGED)
        digest = hashlib.sha256(answer.packed + answer.faults.encode()).digest()
        if answer.part in seen:
            if seen[answer.part] != digest:
                raise _error(title, Failure.CHANGED)
            continue
        seen[answer.part] = digest
        if len(answer.packed) != size:
            raise _error(title, Failure.DEFECT)
        try:
            packed = np.frombuffer(answer.packed, dtype=np.int64)
            if of_people is not None:
                of_people.merge_words(packed.reshape(2, -1))
            elif with_sums:
                total += packed
            tally.merge(answer.faults, first_row=part.first_row)
        except (ValueError, KeyError, TypeError):
            raise _error(title, Failure.DEFECT) from None
        if progress is not None:
            progress(part.n_rows)
    missing = len(parts) - len(seen)
    if missing:
        raise DataError(
            f"{missing} of {len(parts)} parts of {title} did not come: nothing was counted; run "
            "the command again"
        )
    if of_people is not None and people is not None:
        return of_people.total(people)
    return Moments(sum(part.n_rows for part in manifest), total)


def _error(title: str, failure: str) -> DataError | SettingError:
    why = _WHY.get(Failure(failure) if failure in list(Failure) else Failure.DEFECT, "")
    kind = SettingError if failure == Failure.DIFFERS else DataError
    return kind(f"{title}: {why}")
