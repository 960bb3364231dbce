"""Engines on a cluster of the site's own: workers answer for parts, and one sum is merged."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version

import numpy as np

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.moments.moments import Moments
from dppca.owner.engines.kernel import Answer, Work, take_fingerprint, tell_difference
from dppca.owner.engines.merging import merge
from dppca.owner.engines.parts import Part, make_manifest
from dppca.owner.records.check import FaultCounts
from dppca.owner.records.faults import CheckReport
from dppca.owner.records.mapping_files import mapping_wire
from dppca.owner.records.people import PeopleCounts
from dppca.owner.records.table import Table, require_counted


class ClusterEngine(ABC):
    """Workers that answer for parts; `merge` makes one sum of the answers."""

    @property
    @abstractmethod
    def slots(self) -> int:
        """Number of parts that can be worked on at once, at least 1."""

    @abstractmethod
    def check(self) -> None:
        """Refuse workers that differ from this machine, before a row is read.

        Raise `SettingError` if a worker has another version or another sum of the canary, or lacks
        DPPCA; raise `UnreachableError` if the cluster does not answer.
        """

    @abstractmethod
    def run(self, parts: Sequence[Part], work: Work) -> Iterator[Answer]:
        """Answers of `answer_part` for all parts, as they arrive; some may come twice.

        Raise `DataError` if a part was lost too often or none came for too long, and
        `UnreachableError` if the cluster has gone.
        """

    def sum_table(
        self, table: Table, *, tally: FaultCounts, progress: Callable[[int], None]
    ) -> Moments:
        """Exact sums over all rows (`Engine.sum_table`); workers see and send no key."""
        moments = self._merged(table, _work(table), tally, progress)
        if table.people is None:
            tally.add_keys(table)
        return moments

    def count_faults(
        self, table: Table, *, limit: int, target: str | None, progress: Callable[[int], None]
    ) -> CheckReport:
        """Report of coding faults (`Engine.count_faults`)."""
        limit = limit if table.source.is_numbered else 0
        tally = FaultCounts(table.schema, limit=limit, target=target)
        work = _work(table, limit=limit, target=target, with_sums=False)
        self._merged(table, work, tally, progress)
        _count_keys(table, tally)
        return tally.report(table)

    def _merged(
        self, table: Table, work: Work, tally: FaultCounts, progress: Callable[[int], None]
    ) -> Moments:
        """Moments from the merged answers for a table."""
        parts = make_manifest(table, slots=self.slots)
        people = require_counted(table) if work.with_sums else None
        if people is not None:
            parts = tuple(_with_people(parts, table, people))
        return merge(
            table.title,
            parts,
            self.run(parts, work) if parts else (),  # no row, where their number is secret
            table.schema,
            fingerprint=work.fingerprint,
            tally=tally,
            progress=progress,
            with_sums=work.with_sums,
            people=None if people is None else people.by_rows(),
        )


def _count_keys(table: Table, tally: FaultCounts) -> None:
    """Count the keys of rows that workers checked, in a pass of their own.

    Of people who are counted already, each has to have as many rows as before.
    """
    people = table.people
    if people is None:
        tally.add_keys(table)
        return
    people.read_anew()
    for keys in iter(table.keys()):
        people.find(keys)
    people.require_all()


def _with_people(parts: Sequence[Part], table: Table, people: PeopleCounts) -> Iterator[Part]:
    """Yield the parts with k of each row's person, by a pass over the keys in the parts' order."""
    keys, left = table.keys(), np.empty(0, np.int64)
    for part in parts:
        found = [left]
        while sum(map(len, found)) < part.n_rows and (cells := next(keys, None)) is not None:
            found.append(people.find(cells))
        rows = np.concatenate(found)
        left = rows[part.n_rows :]
        yield part.with_people(rows[: part.n_rows])
    people.require_all()


def require_alike(worker: str, theirs: object) -> None:
    """Raise `SettingError` for a worker that differs from this machine.

    ``worker`` is its name in the message; ``theirs`` is its `fingerprint_document`, or any other
    value if it could not make one.
    """
    differ = tell_difference(theirs) if isinstance(theirs, dict) else ""
    if isinstance(theirs, dict) and not differ:
        return
    what = f"has another {differ}" if differ else "cannot load DPPCA"
    ours = take_fingerprint()
    raise SettingError(
        f"{worker} {what}: install the dppca of this machine there ({version('dppca')}, from the "
        f"same wheel), with Python {ours.python}, numpy {ours.numpy} and pyarrow {ours.pyarrow}, "
        "and start it again"
    )


def _work(
    table: Table, *, limit: int = 0, target: str | None = None, with_sums: bool = True
) -> Work:
    return Work(
        table.schema.canonical_bytes().decode(),
        take_fingerprint(),
        limit=limit,
        target=target,
        with_sums=with_sums,
        mapping_json="" if table.mapped is None else json.dumps(mapping_wire(table.mapped)),
    )
