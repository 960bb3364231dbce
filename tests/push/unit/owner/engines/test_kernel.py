"""What a worker answers, and that it never raises."""

import datetime as dt
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dppca.common.kernel.schema import Schema
from dppca.owner.engines import kernel
from dppca.owner.engines.kernel import (
    Answer,
    Failure,
    Work,
    answer_batches,
    answer_part,
    digest_code,
    take_fingerprint,
)
from dppca.owner.engines.parts import Part, make_manifest
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.table import moments_of_table, open_table
from tests.support.blas import MANY, counted, many_blas_threads
from tests.support.engines import MIXED, mixed_rows, write_files
from tests.support.patience import run_watched


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_files(mixed_rows(300), tmp_path / "rows", 1)


@pytest.fixture
def part(folder: Path) -> Part:
    (part,) = make_manifest(open_table(local_files(folder), MIXED), slots=1)
    return part


@pytest.fixture
def work() -> Work:
    return Work(MIXED.canonical_bytes().decode(), take_fingerprint())


def answer(part: Part, work: Work) -> Answer:
    return answer_part(part.to_json(), work.to_json())


def test_dates_and_levels_are_read_as_in_this_process(tmp_path: Path) -> None:
    document = {
        "attributes": [
            {"name": "a b", "type": "numeric", "lower": 0, "upper": 9},
            {"name": "day", "type": "date", "lower": "2020-01-01", "upper": "2020-12-31"},
            {"name": "how", "type": "ordinal", "levels": ["low", "middle", "high"]},
        ]
    }
    schema = Schema.from_document(document)
    path = tmp_path / "rows.parquet"
    day = [dt.date(2020, 3, number) for number in range(1, 10)]
    rows = {"a b": range(9), "day": day, "how": ["low", "high", "?"] * 3}
    pq.write_table(pa.table({name: pa.array(cells) for name, cells in rows.items()}), path)
    table = open_table(path, schema)
    (part,) = make_manifest(table, slots=1)
    work = Work(schema.canonical_bytes().decode(), take_fingerprint())
    expected = moments_of_table(table, schema)
    batches = pq.read_table(path).to_batches(4)
    for found in (answer(part, work), answer_batches(0, batches, work.to_json())):
        np.testing.assert_array_equal(np.frombuffer(found.packed, np.int64), expected.packed)


@pytest.mark.parametrize("field", ["python", "numpy", "pyarrow", "code", "canary"])
def test_a_worker_that_differs_adds_nothing_up(part: Part, work: Work, field: str) -> None:
    changed = replace(work.fingerprint, **{field: "0"})
    assert changed.digest != work.fingerprint.digest == answer(part, work).fingerprint
    other = replace(work, fingerprint=changed)
    assert answer(part, other) == Answer(0, 0, b"", "", Failure.DIFFERS)


def test_a_file_that_changes_during_the_pass_is_noticed(
    folder: Path, part: Part, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = folder.iterdir()

    def sum_and_touch(*arguments: object, **options: object) -> object:
        os.utime(path, ns=(1, 1))
        return moments_of_table(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(kernel, "moments_of_table", sum_and_touch)
    assert answer(part, work).failure == Failure.CHANGED


def test_other_row_groups_than_the_manifests_are_noticed(
    folder: Path, part: Part, work: Work
) -> None:
    (path,), (piece,) = folder.iterdir(), part.pieces
    pq.write_table(mixed_rows(300), path, row_group_size=50)
    status = path.stat()
    same = replace(piece, size=status.st_size, changed_ns=status.st_mtime_ns)
    assert answer(replace(part, pieces=(same,)), work).failure == Failure.CHANGED


def test_a_file_that_is_not_there_or_damaged_is_a_word(
    folder: Path, part: Part, work: Work
) -> None:
    (path,), (piece,) = folder.iterdir(), part.pieces
    path.write_bytes(b"PAR1 no footer here PAR1")
    status = path.stat()
    damaged = replace(piece, size=status.st_size, changed_ns=status.st_mtime_ns)
    assert answer(replace(part, pieces=(damaged,)), work).failure == Failure.UNREADABLE
    path.unlink()
    assert answer(part, work).failure == Failure.UNREADABLE


@pytest.mark.parametrize(
    ("raised", "failure"),
    [(MemoryError, Failure.MEMORY), (RuntimeError, Failure.DEFECT), (KeyError, Failure.DEFECT)],
)
def test_whatever_is_raised_is_a_word(
    part: Part,
    work: Work,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    raised: type[Exception],
    failure: Failure,
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise raised("a row says 41.5")

    monkeypatch.setattr(kernel, "moments_of_table", broken)
    assert answer(part, work) == Answer(0, 0, b"", "", failure)
    assert answer_part("{", "no json").failure == Failure.DEFECT
    assert capfd.readouterr() == ("", "")


def test_the_digest_is_of_all_that_a_worker_loads_and_of_every_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "import sys; from dppca.owner.engines import kernel, parts; print(*sys.modules)"
    loaded = run_watched([sys.executable, "-c", line]).stdout.split()
    rooms = {name.split(".")[1] for name in loaded if name.startswith("dppca.")}
    assert {"dppca." + room for room in rooms} == {*kernel.ROOMS}
    assert digest_code() == take_fingerprint().code
    for module in ("a.py", "below/b.py", "below/__init__.py"):
        path = tmp_path / module
        path.parent.mkdir(exist_ok=True)
        path.write_text("x = 1\n")
    (tmp_path / "notes.txt").write_text("no module")
    monkeypatch.setattr(kernel, "files", lambda _: tmp_path)
    first, seen = digest_code(), set()
    (tmp_path / "notes.txt").write_text("changed")
    assert digest_code() == first
    for change in (
        lambda: (tmp_path / "below/b.py").write_text("x = 2\n"),
        lambda: (tmp_path / "a.py").rename(tmp_path / "c.py"),
        lambda: (tmp_path / "below/__init__.py").unlink(),
    ):
        change()
        seen.add(digest_code())
    assert len(seen | {first}) == 4


def test_batches_have_the_sums_and_counts_of_the_file(folder: Path, part: Part, work: Work) -> None:
    rows = pq.read_table(folder).select([a.name for a in MIXED.attributes])
    expected = answer_part(part.to_json(), work.to_json())
    for n_each in (1, 7, 1000):
        batches = rows.to_batches(max_chunksize=n_each)
        batches.insert(0, batches[0].slice(0, 0))
        found = kernel.answer_batches(0, batches, work.to_json())
        assert found[:3] == expected[:3]
        seen, whole = json.loads(found.faults), json.loads(expected.faults)
        # Of many values out of bounds, which are kept depends on the batches; their number not.
        out, of_all = seen.pop("out"), whole.pop("out")
        assert {name: n for name, (n, _) in out.items()} == {
            name: n for name, (n, _) in of_all.items()
        }
        assert seen == whole
    assert kernel.answer_batches(5, [], work.to_json()).n_rows == 0


def test_each_thread_of_a_worker_multiplies_with_one_blas_thread(work: Work) -> None:
    """A worker of Dask has several threads, and whatever ran in another one before."""
    (batch,) = mixed_rows(50).to_batches()

    def batches(found: list[set[int]]) -> Iterator[pa.RecordBatch]:
        found.append(counted())
        yield batch

    def run(index: int) -> list[set[int]]:
        found = list[set[int]]()
        answer_batches(index, batches(found), work.to_json())
        return found

    with (
        many_blas_threads(),
        ThreadPoolExecutor(1) as one,
        ThreadPoolExecutor(1) as other,
    ):
        assert [pool.submit(run, 0).result() for pool in (one, other, one)] == [[{1}]] * 3
        assert counted() == {MANY}


def test_batches_that_fail_say_a_word_and_nothing_of_a_row(work: Work) -> None:
    def failing() -> Iterator[object]:
        raise ValueError("hidden-word")
        yield

    answer = kernel.answer_batches(3, failing(), work.to_json())  # type: ignore[arg-type]
    assert answer == Answer(3, 0, b"", "", Failure.DEFECT)
    other = replace(work, fingerprint=replace(work.fingerprint, canary="0"))
    assert kernel.answer_batches(3, [], other.to_json()).failure == Failure.DIFFERS
