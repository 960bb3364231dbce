import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dppca.common.kernel.attestation.envelopes import envelope_path, unchecked_predicate
from dppca.common.kernel.attestation.signatures import Signer, make_signer
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.errors import (
    ArtefactError,
    ReceiptError,
    SettingError,
    SignatureError,
    UploadError,
)
from dppca.common.kernel.identity.tls import Role
from dppca.common.wire import federation_pb2 as pb
from dppca.curator.operator.client import _save
from dppca.curator.operator.downloads import require_format, require_proved, write_table
from dppca.curator.study.synthetic_rows import check_rows, join_rows, table_schema
from tests.support.census import arrow, coded_rows, decoded_rows
from tests.support.certificates import new_authority
from tests.support.studies import make_study

STUDY = make_study()
SCHEMA = STUDY.table


def signer() -> Signer:
    """An operator."""
    return make_signer(new_authority().issue(Role.OPERATOR, "alice"))


def write(folder: Path, table: pa.Table, name: str = "rows", **options: Any) -> Path:
    path = folder / name
    path.write_bytes(arrow(table, **options))
    return path


@pytest.mark.parametrize(
    "labels",
    [
        pa.array(["state", "other", "private"]),
        pa.array(["state", "other", "private"], pa.large_string()),
        pa.array(["state", "other", "private"]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(
            pa.array([1, 2, 0], pa.int8()), pa.array(["private", "state", "other", "unused"])
        ),
    ],
    ids=["text", "large text", "dictionary", "larger dictionary"],
)
def test_labels_may_come_as_text_or_dictionary_and_leave_as_one_dictionary(
    tmp_path: Path, labels: pa.Array
) -> None:
    table = decoded_rows().set_column(2, "work", labels)
    path = write(tmp_path, table)
    check_rows(path, SCHEMA, Form.DECODED, n_rows=3)
    stream = b"".join(join_rows([path, path], SCHEMA, Form.DECODED))
    read = pa.ipc.open_stream(stream).read_all()
    assert read.schema == table_schema(SCHEMA, Form.DECODED)
    assert read["work"].to_pylist() == ["state", "other", "private"] * 2
    for chunk in read["work"].chunks:
        assert chunk.dictionary.to_pylist() == ["private", "state", "other"]


def test_rows_of_many_batches_come_back_in_order(tmp_path: Path) -> None:
    table = coded_rows(STUDY, 200_000)
    table = table.set_column(0, "age", pa.array(np.arange(200_000.0)))
    path = write(tmp_path, table)
    check_rows(path, SCHEMA, Form.CODED, n_rows=200_000)
    pieces = list(join_rows([path], SCHEMA, Form.CODED))
    assert len(pieces) > 2
    assert pa.ipc.open_stream(b"".join(pieces)).read_all().equals(table)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("form", Form)
def test_compressed_streams_are_refused(tmp_path: Path, codec: str, form: Form) -> None:
    table = decoded_rows() if form is Form.DECODED else coded_rows(STUDY)
    with pytest.raises(UploadError, match="compress"):
        check_rows(write(tmp_path, table, compression=codec), SCHEMA, form, n_rows=3)


@pytest.mark.parametrize("said", [b'{"label":"site-only"}', b"[]", b"{", b"[" * 5000])
def test_rows_that_say_they_may_not_leave_are_refused(tmp_path: Path, said: bytes) -> None:
    table = decoded_rows()
    released = table.replace_schema_metadata({"dppca": '{"label":"released","rows":3}'})
    check_rows(write(tmp_path, released), SCHEMA, Form.DECODED, n_rows=3)
    labelled = table.replace_schema_metadata({"dppca": said})
    with pytest.raises(UploadError):
        check_rows(write(tmp_path, labelled), SCHEMA, Form.DECODED, n_rows=3)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv"])
def test_a_download_becomes_the_file_its_name_says(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path, decoded_rows())
    stream = tmp_path / "stream"
    receipt = b'{"form":"decoded","label":"released","n_rows":6}'
    stream.write_bytes(b"".join(join_rows([path, path], SCHEMA, Form.DECODED, receipt)))
    output = tmp_path / f"table{suffix}"
    assert write_table(stream, output, signer()) == 6
    if suffix == ".csv":
        read = pa.csv.read_csv(output)
    else:
        if suffix == ".parquet":
            read = pa.parquet.read_table(output)
        else:
            read = pa.ipc.open_file(output.read_bytes()).read_all()
        document = json.loads(read.schema.metadata[b"dppca"])
        assert document == {"label": "released", "form": "decoded"}
    assert read["work"].to_pylist() == ["state"] * 6
    envelope = envelope_path(output)
    assert unchecked_predicate(envelope.read_bytes()) == json.loads(receipt)
    assert {*tmp_path.iterdir()} == {path, stream, output, envelope}


def test_other_endings_and_damaged_downloads_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"\.parquet"):
        require_format(tmp_path / "table.xlsx")
    (tmp_path / "stream").write_bytes(b"\xff" * 100)
    with pytest.raises(ArtefactError):
        write_table(tmp_path / "stream", tmp_path / "table.csv", signer())
    assert not (tmp_path / "table.csv").exists()


def test_an_operator_signs_no_rows_whose_claims_do_not_follow(tmp_path: Path) -> None:
    rows, stream, ca = write(tmp_path, decoded_rows()), tmp_path / "stream", new_authority().pem
    for receipt in (b"{}", b'{"label":"released"}', b'{"components_envelope":{},"guarantee":{}}'):
        stream.write_bytes(b"".join(join_rows([rows], SCHEMA, Form.DECODED, receipt)))
        with pytest.raises((ReceiptError, SignatureError)):
            require_proved(stream, ca=ca)
    compressed = write(tmp_path, decoded_rows(20_000), compression="zstd")
    with pytest.raises(ArtefactError):
        require_proved(compressed, ca=ca)


def test_a_download_that_has_a_gap_gets_no_name(tmp_path: Path) -> None:
    chunks = [pb.Chunk(offset=0, content=b"1234"), pb.Chunk(offset=4, content=b"5678")]
    path = tmp_path / "rows"
    with pytest.raises(UploadError, match="begins at byte 4"):
        _save(chunks[1:], path)
    assert not list(tmp_path.iterdir())
    assert _save(chunks, path) == 8
    assert path.read_bytes() == b"12345678"


def test_a_stream_that_grows_in_memory_is_refused_before_it_does(tmp_path: Path) -> None:
    many = pa.table({f"c{number}": pa.array([], pa.float64()) for number in range(5000)})
    noted = decoded_rows().replace_schema_metadata({b"note": bytes(1 << 17)})
    for table in (many, noted):
        with pytest.raises(UploadError, match="describes itself"):
            check_rows(write(tmp_path, table), SCHEMA, Form.DECODED, n_rows=3)


def test_a_large_dictionary_is_refused_and_a_spare_label_is_not(tmp_path: Path) -> None:
    def work(labels: list[str]) -> Path:
        column = pa.DictionaryArray.from_arrays(pa.array([0, 0, 0], pa.int32()), pa.array(labels))
        return write(tmp_path, decoded_rows().set_column(2, "work", column))

    check_rows(work(["state", "spare"]), SCHEMA, Form.DECODED, n_rows=3)
    for labels in (
        ["state", *(f"spare {number}" for number in range(2000))],
        ["state", "x" * (1 << 21)],
    ):
        with pytest.raises(UploadError, match="a dictionary of"):
            check_rows(work(labels), SCHEMA, Form.DECODED, n_rows=3)
