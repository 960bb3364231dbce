"""Archives and tables that somebody else has made: sizes are known before anything is unpacked."""

import io
import json
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
import skops.io
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dppca.common.kernel.attestation.archives import array_in, read_archive, require_model
from dppca.common.kernel.attestation.file_headers import (
    PAGE_BYTES,
    is_compressed,
    measure_dictionaries,
    require_plain_arrow,
    require_small_pages,
)
from dppca.common.kernel.errors import ArtefactError

ROOM = 8 << 20
"""Bytes that reading a small hostile file may take; each would become far more."""
HUGE = 1 << 26


def _saved(**members: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **members)
    return buffer.getvalue()


def _zipped(members: list[tuple[str, bytes]], *, method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()


def _npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def _peak(call: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        with pytest.raises(ArtefactError):
            call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


NUMBERS = st.sampled_from(["<i8", "<f8", "|u1", "<i4", "|b1", "<f4"]).map(np.dtype)


@given(
    array=NUMBERS.flatmap(
        lambda kind: arrays.arrays(kind, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0))
    ),
    fortran=st.booleans(),
)
def test_what_numpy_saves_is_read_to_the_same_numbers(array: Any, fortran: bool) -> None:
    saved = np.asfortranarray(array) if fortran else array
    member = read_archive(_saved(it=saved)).members["it.npy"]
    found = array_in(member)
    assert (found.dtype, found.shape) == (saved.dtype, saved.shape)
    assert found.tobytes() == saved.tobytes()


@given(content=st.binary(max_size=300), place=st.integers(0, 600), by=st.integers(1, 255))
def test_any_changed_byte_is_refused_or_is_found_by_its_checksum(
    content: bytes, place: int, by: int
) -> None:
    good = _zipped([("a", content), ("b", b"second")])
    bad = bytearray(good)
    bad[place % len(bad)] ^= by
    try:
        found = read_archive(bytes(bad))
    except ArtefactError:
        return
    same = {name: bytes(member) for name, member in found.members.items()} == {
        "a": content,
        "b": b"second",
    }
    assert same or list(found.damaged())


def _compressed() -> bytes:
    return _zipped([("header.npy", _npy(np.zeros(HUGE, "u1")))], method=zipfile.ZIP_DEFLATED)


def _lying(*, central: int | None, local: int | None) -> bytes:
    """A compressed member that says it is stored, of another size."""
    content = bytearray(_compressed())
    with zipfile.ZipFile(io.BytesIO(bytes(content))) as archive:
        start, packed = archive.start_dir, archive.infolist()[0].compress_size
    for place, size in ((8, local), (start + 10, central)):
        if size is not None:
            struct.pack_into("<H", content, place, zipfile.ZIP_STORED)
    for place, size in ((22, local), (start + 24, central)):
        if size is not None:
            struct.pack_into("<I", content, place, packed if size < 0 else size)
    return bytes(content)


def _overlapping() -> bytes:
    """Many names for the same bytes: what each is, all are."""
    content = _zipped([("a.npy", _npy(np.zeros(1 << 18, "u1")))])
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        start = archive.start_dir
    entry = content[start : content.index(b"PK\x05\x06")]
    entries = b"".join(entry.replace(b"a.npy", b"%c.npy" % name) for name in b"abcdefgh")
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 8, 8, len(entries), start, 0)
    return content[:start] + entries + end


def _between() -> bytes:
    """Two members with bytes between them that are neither's."""
    first, second = _zipped([("a", b"1")]), _zipped([("b", b"2")])
    gap = b"hidden"
    with zipfile.ZipFile(io.BytesIO(first)) as one, zipfile.ZipFile(io.BytesIO(second)) as two:
        heads, tails = (one.start_dir, two.start_dir), (first, second)
    moved = bytearray(second[heads[1] : second.index(b"PK\x05\x06")])
    struct.pack_into("<I", moved, 42, heads[0] + len(gap))
    directory = first[heads[0] : first.index(b"PK\x05\x06")] + bytes(moved)
    body = tails[0][: heads[0]] + gap + tails[1][: heads[1]]
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 2, 2, len(directory), len(body), 0)
    return body + directory + end


HOSTILE = {
    "compressed": _compressed,
    "compressed, stored by the directory": lambda: _lying(central=HUGE + 128, local=None),
    "compressed, stored by its own header": lambda: _lying(central=None, local=HUGE + 128),
    "larger than the archive": lambda: _lying(central=HUGE + 128, local=HUGE + 128),
    "many names for the same bytes": _overlapping,
    "bytes between members": _between,
    "bytes before the first": lambda: b"before" + _saved(a=np.zeros(3)),
    "too many members": lambda: _zipped([(f"{i}", b"") for i in range(10_001)]),
    "a name twice": lambda: _zipped([("aa", b"1"), ("ab", b"2")]).replace(b"ab", b"aa"),
    "no member": lambda: _zipped([]),
    "no archive": lambda: b"PK\x05\x06",
    "nothing": lambda: b"",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_an_archive_that_could_become_more_than_it_is_is_refused_unread(kind: str) -> None:
    content = HOSTILE[kind]()
    assert _peak(lambda: read_archive(content)) < ROOM


ARRAYS = {
    "more than there is": _npy(np.zeros(3))[:-8],
    "less than there is": _npy(np.zeros(3)) + bytes(8),
    "pickled": _npy(np.array([{}], object)),
    "of a type of records": _npy(np.zeros(2, [("a", "<i4")])),
    "of no bytes": _npy(np.array(["a"])).replace(b"<U1", b"<U0")[:-4],
    "a huge one": _npy(np.zeros(3)).replace(b"(3,)", b"(33333333333333,)"),
    "an expression": _npy(np.zeros(3)).replace(b"(3,)", b"(3*1,)"),
    "a version to come": _npy(np.zeros(3)).replace(b"\x01\x00v", b"\x03\x00v", 1),
    "nothing": b"",
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_an_array_is_read_only_where_its_header_fits_its_size(kind: str) -> None:
    member = memoryview(ARRAYS[kind])
    assert _peak(lambda: array_in(member)) < ROOM


def test_a_models_archive_is_taken_as_it_is_written() -> None:
    model = {"a": np.arange(6.0), "b": "text", "c": [1, None, True]}
    archive = require_model(skops.io.dumps(model))
    assert "schema.json" in archive.members
    assert not list(archive.damaged())


def _asking(times: int) -> bytes:
    """A model that asks for one array again and again."""
    content = skops.io.dumps({"a": np.zeros(1 << 17)})
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(members["schema.json"])
    once = schema["content"]["a"]
    schema["content"] |= {f"a{i}": {**once, "__id__": i} for i in range(times)}
    members["schema.json"] = json.dumps(schema).encode()
    return _zipped(list(members.items()))


MODELS = {
    "one array asked for a hundred times": lambda: _asking(100),
    "an archive within": lambda: _zipped([("schema.json", b"{}"), ("a.npz", _compressed())]),
    "an archive that is called an array": lambda: _zipped(
        [("schema.json", b"{}"), ("a.npy", _compressed())]
    ),
    "an array that is not there": lambda: _zipped([("schema.json", b'{"file": "a.npy"}')]),
    "a schema that is none": lambda: _zipped([("schema.json", b"[" * 100_000)]),
    "no schema": lambda: _saved(a=np.zeros(3)),
    "compressed": lambda: skops.io.dumps(
        {"a": np.zeros(HUGE // 8)}, compression=zipfile.ZIP_DEFLATED
    ),
}


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_that_could_become_more_than_it_is_is_refused_unread(kind: str) -> None:
    content = MODELS[kind]()
    assert _peak(lambda: require_model(content)) < ROOM


def test_a_model_may_name_an_array_twice() -> None:
    require_model(_asking(2))


def _parquet(table: pa.Table, **options: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **options)
    return buffer.getvalue()


LABELS = pa.table({"x": np.arange(5000.0), "t": pa.array(["a", "b"] * 2500).dictionary_encode()})


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["snappy", "zstd", "none"])
def test_pages_as_our_writers_make_them_are_taken(version: str, codec: str) -> None:
    require_small_pages(_parquet(LABELS, data_page_version=version, compression=codec))
    require_small_pages(_parquet(LABELS, write_statistics=False, row_group_size=700))


LARGE = pa.table({"t": ["x" * (PAGE_BYTES + 1)]})


@pytest.mark.parametrize(
    ("table", "options", "says"),
    [
        (LARGE, {"compression": "zstd"}, f"a page of {PAGE_BYTES + 5} bytes"),
        (LARGE, {"compression": "none", "use_dictionary": False}, "a page of"),
        (
            pa.table({"t": ["x" * 1000] * 1000}),
            {"use_dictionary": False, "column_encoding": {"t": "DELTA_BYTE_ARRAY"}},
            "encoded as no page",
        ),
    ],
    ids=["compressed", "as it is", "repeating what is before"],
)
def test_a_page_that_becomes_more_than_ours_is_refused_unread(
    table: pa.Table, options: dict[str, Any], says: str
) -> None:
    content = _parquet(table, **options)
    before = pa.total_allocated_bytes()
    with pytest.raises(ArtefactError, match=says):
        require_small_pages(content)
    assert pa.total_allocated_bytes() == before


@pytest.mark.parametrize("n_groups", [1, 14, 15, 40])
@pytest.mark.parametrize("options", [{}, {"use_dictionary": ["n.list.element"]}], ids=str)
def test_dictionaries_are_as_long_as_pyarrow_says(n_groups: int, options: dict[str, Any]) -> None:
    texts = pa.array(["a", "bb", "é" * 20] * n_groups)
    rows = pa.table({"x": np.arange(3.0 * n_groups), "t": texts, "n": [["u"]] * 3 * n_groups})
    content = _parquet(rows, row_group_size=3, **options)
    group = pq.read_metadata(io.BytesIO(content)).row_group(0)
    chunks = [group.column(index) for index in range(group.num_columns)]
    expected = {
        chunk.path_in_schema: chunk.data_page_offset - chunk.dictionary_page_offset
        for chunk in chunks
        if chunk.physical_type == "BYTE_ARRAY" and chunk.has_dictionary_page
    }
    assert measure_dictionaries(content) == expected != {}
    assert measure_dictionaries(content[-5000:] if n_groups < 15 else content) == expected
    empty = io.BytesIO()
    pq.ParquetWriter(empty, rows.schema).close()
    with pytest.raises(ValueError, match="no row group"):
        measure_dictionaries(empty.getvalue())


def _arrow(table: pa.Table, codec: str | None) -> bytes:
    buffer = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_file(buffer, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=1000)
    return buffer.getvalue()


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_an_arrow_file_is_taken_plain_and_refused_compressed(codec: str) -> None:
    require_plain_arrow(_arrow(LABELS, None))
    with pytest.raises(ArtefactError, match="compressed"):
        require_plain_arrow(_arrow(LABELS, codec))
    # Whether a codec is named only for the dictionary or the numbers, does not matter.
    with pytest.raises(ArtefactError, match="compressed"):
        require_plain_arrow(_arrow(LABELS.select(["x"]), codec))


@pytest.mark.parametrize(
    ("require", "good"),
    [
        (require_small_pages, _parquet(LABELS)),
        (require_plain_arrow, _arrow(LABELS.slice(0, 5), None)),
    ],
    ids=["pages", "arrow"],
)
@given(place=st.integers(0, 1 << 20), by=st.integers(1, 255))
@example(place=22, by=20)  # a number where the description of a page should be
def test_changed_headers_are_refused_or_lead_nowhere(
    require: Callable[[bytes], object], good: bytes, place: int, by: int
) -> None:
    bad = bytearray(good)
    bad[place % len(bad)] ^= by
    try:
        require(bytes(bad))
    except (ArtefactError, struct.error, IndexError, ValueError):
        return


def test_only_batches_can_be_compressed(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    with pa.ipc.new_stream(str(path), LABELS.schema) as writer:
        writer.write_table(LABELS)
    with pa.memory_map(str(path)) as source:
        found = [is_compressed(pa.ipc.read_message(source).metadata.to_pybytes()) for _ in range(3)]
    assert found == [False, False, False]
