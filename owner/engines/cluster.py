"""Engines on a cluster of the site's own: workers answer for parts, and one sum is merged."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.schema.units import Unit
from dppca.owner.engines.kernel import Answer, Work, take_fingerprint, tell_difference
from dppca.owner.engines.merging import merge
from dppca.owner.engines.parts import Part, make_manifest
from dppca.owner.records.check import FaultCounts
from dppca.owner.records.faults import CheckReport
from dppca.owner.records.mapping_files import mapping_wire
from dppca.owner.records.table import Table


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
        """Exact sums over all rows (`Engine.sum_table`); workers send no key."""
        _require_rows(table)
        moments = self._merged(table, _work(table), tally, progress)
        tally.add_keys(table)
        return moments

    def count_faults(
        self, table: Table, *, limit: int, target: str | None, progress: Callable[[int], None]
    ) -> CheckReport:
        """Report of coding faults (`Engine.count_faults`)."""
        _require_rows(table)
        limit = limit if table.source.is_numbered else 0
        tally = FaultCounts(table.schema, limit=limit, target=target)
        work = _work(table, limit=limit, target=target, with_sums=False)
        self._merged(table, work, tally, progress)
        tally.add_keys(table)
        return tally.report(table)

    def _merged(
        self, table: Table, work: Work, tally: FaultCounts, progress: Callable[[int], None]
    ) -> Moments:
        """Moments from the merged answers for a table."""
        parts = make_manifest(table, slots=self.slots)
        return merge(
            table.title,
            parts,
            self.run(parts, work),
            table.schema,
            fingerprint=work.fingerprint,
            tally=tally,
            progress=progress,
            with_sums=work.with_sums,
        )


def _require_rows(table: Table) -> None:
    if table.schema.unit is not Unit.ROW:
        raise SettingError(
            f"{table.title}: the rows of a study with unit: person are added up by this machine "
            "alone: leave out --engine, or the data set's `engine`"
        )


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
