"""Streams of synthetic rows that ask for far more work than they have bytes.

Work is counted, not timed: how many headers the walk looks at, and how many batches are decoded,
before the stream is refused. A reader that stops at the first header beyond a limit looks at the
same number of them however long the stream is.
"""

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.errors import ArtefactError, UploadError
from dppca.common.kernel.identity.tls import Role
from dppca.curator.operator.downloads import write_table
from dppca.curator.study import row_streams, synthetic_rows
from dppca.curator.study.row_streams import BATCH_ROWS, SMALL_BATCHES, read_header
from dppca.curator.study.synthetic_rows import check_rows, join_rows, table_schema
from dppca.owner.synthesis.tables import publishable, with_metadata
from tests.support.census import decoded_rows
from tests.support.certificates import new_authority
from tests.support.examples import examples
from tests.support.studies import make_study

STUDY = make_study()
SCHEMA = STUDY.table
CODED = table_schema(SCHEMA, Form.CODED)
Batches = Iterator[pa.RecordBatch]


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Headers looked at, and batches decoded."""
    counts: Counter[str] = Counter()
    read = synthetic_rows._read_batches

    def header(metadata: bytes) -> row_streams.MessageHeader:
        counts["headers"] += 1
        return read_header(metadata)

    def decode(*given: Any) -> Batches:
        for batch in read(*given):
            counts["batches"] += 1
            yield batch

    monkeypatch.setattr(row_streams, "read_header", header)
    monkeypatch.setattr(synthetic_rows, "_read_batches", decode)
    return counts


def coded(*sizes: int) -> Batches:
    for size in sizes:
        yield pa.record_batch([np.zeros(size)] * len(CODED), schema=CODED)


def stream(path: Path, batches: Batches, **options: Any) -> Path:
    first = next(batches)
    with (
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_stream(file, first.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer,
    ):
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)
    return path


def labelled(n_rows: int, labels: list[str]) -> pa.RecordBatch:
    """Decoded rows whose last column has a dictionary of ``labels``."""
    work = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n_rows, np.int8)), pa.array(labels))
    table = decoded_rows(n_rows).set_column(2, "work", work)
    return table.combine_chunks().to_batches()[0]


@pytest.mark.parametrize("length", [1000, 4000])
@pytest.mark.parametrize(
    ("size", "most"), [(0, 2), (1, SMALL_BATCHES + 3)], ids=["without rows", "of one row"]
)
def test_small_batches_are_refused_at_the_same_place_in_a_stream_of_any_length(
    tmp_path: Path, work: Counter[str], size: int, most: int, length: int
) -> None:
    path = stream(tmp_path / "rows", coded(*[size] * length, 1))
    with pytest.raises(UploadError, match="batches for"):
        check_rows(path, SCHEMA, Form.CODED, n_rows=length * size + 1)
    assert work["headers"] <= most
    assert work["batches"] == 0


def test_empty_batches_among_large_ones_are_refused(tmp_path: Path, work: Counter[str]) -> None:
    path = stream(tmp_path / "rows", coded(50 * BATCH_ROWS, *[0] * 40))
    with pytest.raises(UploadError, match="batches for"):
        check_rows(path, SCHEMA, Form.CODED, n_rows=50 * BATCH_ROWS)
    assert work == {"headers": 3}


def test_another_number_of_rows_is_seen_before_any_is_decoded(
    tmp_path: Path, work: Counter[str]
) -> None:
    path = stream(tmp_path / "rows", coded(BATCH_ROWS, BATCH_ROWS))
    with pytest.raises(UploadError, match="were announced"):
        check_rows(path, SCHEMA, Form.CODED, n_rows=10**9)
    assert work["batches"] == 0


def test_dictionaries_that_nothing_uses_are_refused(tmp_path: Path, work: Counter[str]) -> None:
    """Between two batches a column's dictionary can change once, by any writer."""
    batch = labelled(3, ["state"])
    path = stream(tmp_path / "rows", iter([batch]))
    content = path.read_bytes()
    ends = _ends(path)
    one = content[ends[0] : ends[1]]
    path.write_bytes(content[: ends[0]] + one * 5000 + content[ends[1] :])
    with pytest.raises(UploadError, match="dictionaries for"):
        check_rows(path, SCHEMA, Form.DECODED, n_rows=3)
    assert work["headers"] <= 3 + 2


def test_a_large_dictionary_beside_many_small_batches_is_refused(
    tmp_path: Path, work: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be looked through for every batch: work without bytes."""
    monkeypatch.setattr(row_streams, "DICTIONARY_WORK_FREE", 1 << 20)
    labels = ["private", "state", "other", *(f"spare {n:0900}" for n in range(900))]
    batch = labelled(BATCH_ROWS, labels)
    for n_batches in (100, 200):
        work.clear()
        path = stream(tmp_path / "rows", iter([batch] * n_batches))
        with pytest.raises(UploadError, match="bytes of labels"):
            check_rows(path, SCHEMA, Form.DECODED, n_rows=n_batches * BATCH_ROWS)
        assert work["headers"] < 20
        assert work["batches"] == 0


def test_dictionaries_that_grow_are_refused(tmp_path: Path, work: Counter[str]) -> None:
    batches = [labelled(3, ["state", "private"][:n]) for n in (1, 2)]
    path = stream(tmp_path / "rows", iter(batches), emit_dictionary_deltas=True)
    with pytest.raises(UploadError, match="adds to its dictionaries"):
        check_rows(path, SCHEMA, Form.DECODED, n_rows=6)
    assert work["batches"] == 0


def test_columns_that_lie_in_the_same_bytes_are_refused(tmp_path: Path, work: Counter[str]) -> None:
    """A hundred columns in one column's bytes: a hundred times the work of the upload."""
    path = stream(tmp_path / "rows", coded(BATCH_ROWS))
    size = BATCH_ROWS * 8
    content = path.read_bytes()
    # Places and lengths of the second column's buffers: no missing values, then its numbers.
    place = struct.pack("<qqqq", size, 0, size, size)
    assert content.count(place) == 1
    path.write_bytes(content.replace(place, struct.pack("<qqqq", size, 0, 0, 2 * size)))
    with pytest.raises(UploadError, match="buffers of"):
        check_rows(path, SCHEMA, Form.CODED, n_rows=BATCH_ROWS)
    assert work["batches"] == 0


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_a_bomb_is_refused_before_it_unfolds(
    tmp_path: Path, work: Counter[str], codec: str
) -> None:
    path = stream(tmp_path / "rows", coded(1 << 20), compression=codec)
    assert path.stat().st_size < (1 << 20)
    with pytest.raises(UploadError, match="compressed"):
        check_rows(path, SCHEMA, Form.CODED, n_rows=1 << 20)
    assert work == {"headers": 2}


def test_a_second_schema_is_refused(tmp_path: Path) -> None:
    path = stream(tmp_path / "rows", coded(3))
    content = path.read_bytes()
    schema = content[: _ends(path)[0]]
    path.write_bytes(schema + content)
    with pytest.raises(UploadError, match="one schema"):
        check_rows(path, SCHEMA, Form.CODED, n_rows=3)


@pytest.mark.parametrize(
    "attack",
    [
        lambda: coded(*[0] * 20_000, 3),
        lambda: coded(*[1] * 20_000),
    ],
    ids=["without rows", "of one row"],
)
def test_a_curator_cannot_do_to_an_operator_what_an_owner_cannot_do_to_it(
    tmp_path: Path, work: Counter[str], attack: Callable[[], Batches]
) -> None:
    operator = make_signer(new_authority().issue(Role.OPERATOR, "alice"))
    path = stream(tmp_path / "stream", attack())
    with pytest.raises(ArtefactError, match="batches for"):
        write_table(path, tmp_path / "table.parquet", operator)
    assert work["headers"] <= 10_000 + 4
    assert not (tmp_path / "table.parquet").exists()


@settings(max_examples=examples(25))
@given(st.lists(st.integers(1, 70_000), min_size=1, max_size=40))
def test_what_this_software_writes_is_taken(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    """An owner's rows, in as many pieces as the table has, and all owners' rows joined."""
    folder = tmp_path_factory.mktemp("sizes")
    tables = [decoded_rows(3).take(pa.array(np.zeros(size, np.int8))) for size in sizes]
    table = pa.concat_tables(tables)
    schema = with_metadata(table.schema, {"label": "released"})
    with pa.parquet.ParquetWriter(folder / "rows.parquet", schema) as writer:
        for each in tables:
            writer.write_table(each.cast(schema))
    path = folder / "rows"
    with publishable(folder / "rows.parquet") as written:
        written.seek(0)
        path.write_bytes(written.read())
    check_rows(path, SCHEMA, Form.DECODED, n_rows=sum(sizes))
    download = folder / "download"
    download.write_bytes(b"".join(join_rows([path] * 3, SCHEMA, Form.DECODED)))
    n_columns = len(table_schema(SCHEMA, Form.DECODED))
    assert row_streams.check_messages(download, n_columns=n_columns) == 3 * sum(sizes)


def _ends(path: Path) -> list[int]:
    """Where each message of a stream ends."""
    ends = []
    with pa.memory_map(str(path)) as source:
        while True:
            try:
                pa.ipc.read_message(source)
            except EOFError:
                return ends
            ends.append(source.tell())
