"""Engine on Spark: parts of files, or a Spark table, in the session that the environment names.

*Files*: Spark gives each part of the manifest to a task, whose Python reads the files by pyarrow as
this machine does. A table of Spark is added up *in place*: each partition gives one answer, the
answers together must have the counted number of rows, and none counts twice.

Only DataFrames and `mapInArrow` are used: Databricks refuses RDDs, and an accumulator may count a
task that ran twice. A failed attempt leaves nothing in any result. Functions for the workers are
sent by value and call the kernel of the DPPCA that is installed there; a worker process compares
itself with this machine before it answers (`kernel`).

Limits: all answers for a table are held until the last has arrived, so a wide table is cut into
fewer partitions. Progress over a table is estimated from the finished tasks, as if each had the
same number of rows; by Spark Connect it is taken from the answers themselves. For a view that Spark
computes in several steps no progress is known before the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from contextlib import contextmanager, suppress
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa

from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.schema.units import Unit
from dppca.owner.engines.cluster import ClusterEngine, require_alike
from dppca.owner.engines.kernel import Answer, Failure, Work
from dppca.owner.engines.merging import merge
from dppca.owner.engines.parts import PARTS_PER_SLOT, Part
from dppca.owner.records.check import FaultCounts
from dppca.owner.records.sources import Source
from dppca.owner.records.spark_sessions import is_by_connect, open_session, translated_errors
from dppca.owner.records.table import Table, rows_at_once

_ANSWER: Final = (
    "index bigint, n_rows bigint, packed binary, faults string, failure string, fingerprint string"
)
_WITHOUT_DPPCA: Final = Answer(-1, 0, b"", "", Failure.DIFFERS.value)._asdict()
_LOOKS: Final = 1 << 12  # rows of a made table, so that every executor has some
_JOB_BYTES: Final = 512 << 20
"""Limit of one job's answers; Spark's own limit is 1 GiB (``spark.driver.maxResultSize``)."""
_MOST_JOBS: Final = 8  # at once
_WATCH_S: Final = 0.5  # between two looks at a job
_TITLE: Final = "a part of the rows"


@contextmanager
def open_spark() -> Iterator[SparkEngine]:
    """Open the session that the environment names; it stays open, for its caller may own it."""
    yield SparkEngine(open_session())


class SparkEngine(ClusterEngine):
    """A `ClusterEngine` whose slots are the tasks that a session runs at once."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._slots = 1

    @property
    def slots(self) -> int:
        """Number of partitions of a range of numbers; Spark makes one for each slot."""
        return self._slots

    def check(self) -> None:
        """Compare versions, code and canary once for each slot (`ClusterEngine.check`)."""
        try:
            with translated_errors("Spark"):
                seen = self._session.range(_LOOKS).mapInArrow(_looking(), "seen string").collect()
        except DataError:
            raise SettingError(
                "Python does not start on Spark's workers: give them this machine's version of "
                "Python (PYSPARK_PYTHON), with pandas, pyarrow and the dppca of this machine"
            ) from None
        for row in seen:
            require_alike("a worker of Spark", json.loads(row[0]))
        self._slots = max(1, len(seen))

    def run(self, parts: Sequence[Part], work: Work) -> Iterator[Answer]:
        """Run a few jobs at a time, each of about one task for each slot (`ClusterEngine.run`)."""
        size = max(1, min(self._slots, _JOB_BYTES // _answer_bytes(work)))
        jobs = [parts[start : start + size] for start in range(0, len(parts), size)]
        pool = ThreadPoolExecutor(min(_MOST_JOBS, -(-2 * self._slots // size)))
        tag = f"dppca-{uuid4().hex}"

        def answer(job: Sequence[Part]) -> list[Answer]:
            self._session.addTag(tag)
            texts = [part.to_json() for part in job]
            numbers = self._session.range(0, len(texts), 1, len(texts))
            return self._collect(numbers, _answering(texts, work.to_json()))

        try:
            # No list of finished jobs: each would keep its answers in memory.
            for done in as_completed({pool.submit(answer, job) for job in jobs}):
                yield from done.result()
        except BaseException:
            with suppress(Exception):  # Java may have gone; the first error already says why
                self._session.interruptTag(tag)
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _merged(
        self, table: Table, work: Work, tally: FaultCounts, progress: Callable[[int], None]
    ) -> Moments:
        frame = table.source.frame(table.own_columns, rows_at_once(table.schema))
        if frame is None:
            return super()._merged(table, work, tally, progress)
        if table.people is not None:
            raise SettingError(
                f"{table.title}: rows of a study with unit: person are not added up in a Spark "
                "table: a row weighs by its key, no key leaves this machine, and rows without an "
                "order cannot be sent their weights instead. Leave out --engine, or the data set's "
                "`engine`, so that this machine reads them; or keep them as Parquet files"
            )
        most = max(1, min(PARTS_PER_SLOT * self._slots, _JOB_BYTES // _answer_bytes(work)))
        shown, add_up = _Shown(progress), _adding_up(work.to_json())
        answers = self._watched(frame.coalesce(most), add_up, table.source, shown.reach)
        if not any(answer.failure for answer in answers):
            table.source.require_rows(sum(answer.n_rows for answer in answers))
        parts = [Part(index, 0, n_rows, ()) for index, n_rows, *_ in answers]
        moments = merge(
            table.title,
            parts,
            answers,
            table.schema,
            fingerprint=work.fingerprint,
            tally=tally,
            with_sums=work.with_sums,
        )
        shown.reach(moments.n_rows)
        return moments

    def _watched(
        self,
        frame: Any,
        answer: Callable[[Any], Any],
        source: Source,
        reach: Callable[[int], None],
    ) -> list[Answer]:
        """Collect answers (`_collect`) and report the finished rows meanwhile."""
        if is_by_connect(self._session):
            answers = list[Answer]()
            with translated_errors(_TITLE):
                for row in frame.mapInArrow(answer, _ANSWER).toLocalIterator():
                    answers.append(_answer(row))
                    reach(sum(each.n_rows for each in answers))
            return answers
        context, group = self._session.sparkContext, f"dppca-{uuid4().hex}"

        def collect() -> list[Answer]:
            context.setJobGroup(group, "a pass over a table")  # of this thread alone
            return self._collect(frame, answer)

        with translated_errors(_TITLE), ThreadPoolExecutor(1) as pool:
            collected = pool.submit(collect)
            try:
                while wait([collected], _WATCH_S).not_done:
                    if not source.in_steps:
                        reach(int(source.n_rows * _share_done(context.statusTracker(), group)))
            except BaseException:
                with suppress(Exception):
                    context.cancelJobGroup(group)
                raise
            return collected.result()

    def _collect(self, frame: Any, answer: Callable[[Any], Any]) -> list[Answer]:
        with translated_errors(_TITLE):
            rows = frame.mapInArrow(answer, _ANSWER).collect()
        return [_answer(row) for row in rows]


class _Shown:
    """Rows that were reported as finished; never fewer, and none twice."""

    def __init__(self, progress: Callable[[int], None]) -> None:
        self._progress, self._n_rows = progress, 0

    def reach(self, n_rows: int) -> None:
        """Report the increase to ``n_rows``."""
        if n_rows > self._n_rows:
            self._progress(n_rows - self._n_rows)
            self._n_rows = n_rows


def _share_done(tracker: Any, group: str) -> float:
    """Share of finished tasks of a job with one stage; 0 as long as Spark reports none."""
    jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(group)]
    numbers = [number for job in jobs if job is not None for number in job.stageIds]
    stages = [stage for stage in map(tracker.getStageInfo, numbers) if stage is not None]
    n_tasks = sum(stage.numTasks for stage in stages)
    return sum(stage.numCompletedTasks for stage in stages) / n_tasks if n_tasks else 0.0


def _answer(row: Any) -> Answer:
    return Answer(row[0], row[1], bytes(row[2]), *(str(text) for text in row[3:]))


def _answer_bytes(work: Work) -> int:
    schema = work.read_schema()
    return 8 * schema.layout.n_entries * (2 if schema.unit is Unit.PERSON else 1)


def _looking() -> Callable[[Any], Any]:
    """For a worker: report its fingerprint; sent by value, so that it uses only the kernel."""

    def look(batches: Any) -> Any:
        for _ in batches:
            pass
        try:
            from dppca.owner.engines.kernel import fingerprint_document

            seen: Any = fingerprint_document()
        except Exception:  # noqa: BLE001 - this machine reports any failure in its own words
            seen = None
        yield pa.RecordBatch.from_pydict({"seen": [json.dumps(seen)]})

    return look


def _answering(parts: Sequence[str], work_json: str) -> Callable[[Any], Any]:
    """For a worker: answer for the parts with the received numbers; sent by value."""
    without = _WITHOUT_DPPCA

    def answer(batches: Any) -> Any:
        try:
            from dppca.owner.engines.kernel import answer_part
        except ImportError:
            yield pa.RecordBatch.from_pylist([without])
            return
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pylist([answer_part(parts[number], work_json)._asdict()])

    return answer


def _adding_up(work_json: str) -> Callable[[Any], Any]:
    """For a worker: answer for the rows of a partition; sent by value."""
    without = _WITHOUT_DPPCA

    def add(batches: Any) -> Any:
        try:
            from dppca.owner.engines.kernel import answer_batches
        except ImportError:
            yield pa.RecordBatch.from_pylist([without])
            return
        from pyspark import TaskContext

        index = TaskContext.get().partitionId()
        yield pa.RecordBatch.from_pylist([answer_batches(index, batches, work_json)._asdict()])

    return add
