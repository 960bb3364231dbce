"""Any changed byte of a released file is found, and the part it lies in is named.

Places and changes are drawn by hypothesis without the clock or the system's entropy, so a run is
the same run each time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dppca.common.attestation.signatures import make_signer
from dppca.common.attestation.tables import sealed_writer
from dppca.common.errors import AlteredError, ArtefactError, ReceiptError, SignatureError
from dppca.common.verification.files import verify_file
from dppca.owner.client.session import load_site_credentials
from dppca.owner.site.config import load_site
from tests.support.documents import require_documented
from tests.support.examples import examples
from tests.support.sites import ProvedSite, make_proved_site

PARTS = re.compile(
    r"array \S+: |array \S+, array|column \S+: |column \S+, column|the columns are not those"
    r"|the receipt of |the table (carries|has)|the container|the block with the seal is damaged"
    r"|the seal (is damaged|differs)|the certificate of |the study's document|the file carries no"
    r"|there is no receipt of the components"
    r"|the header of |the arrays: |the schema in the model|the model (is|carries)"
)
"""How every message that names a part begins."""


@dataclass(frozen=True, slots=True)
class Files:
    """Released files of every kind, and the authority of those who signed them."""

    proved: ProvedSite
    paths: dict[str, Path]
    folder: Path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("proof")
    proved = make_proved_site(folder)
    assert proved.site.run("synthesize", "site-test", "--rows", "60")[0] == 0
    asked = ("train", "site-test", "--target", "ill", "--method", "dp-svm", "--epsilon", "1")
    code, made = proved.site.run(*asked, "--yes")
    assert code == 0
    decoded = proved.components.with_name("synthetic-decoded.parquet")
    arrow = folder / "rows.arrow"
    signer = make_signer(load_site_credentials(load_site(proved.site.folder)))
    table = pq.read_table(decoded).combine_chunks()
    with sealed_writer(arrow, ".arrow", table.schema, signer, mode=0o600) as writer:
        writer.write_table(table)
    paths = {
        "components": proved.components,
        "decoded rows": decoded,
        "coded rows": decoded.with_name("synthetic-coded.parquet"),
        "arrow rows": arrow,
        "model": Path(made["model"]),
    }
    return Files(proved, paths, folder)


ROWS = ["decoded rows", "coded rows", "arrow rows"]
KINDS = ["components", *ROWS, "model"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_unchanged_file_verifies(files: Files, kind: str) -> None:
    report = verify_file(files.paths[kind], ca=files.proved.ca)
    printed = {"command": "verify", "file": kind, **report, "acknowledged": []}
    require_documented("dppca-curator", printed)
    assert report["label"] == "released"
    assert report["authority"] is not None
    assert report["sealed_by"] == ("curator hub" if kind == "components" else "owner owner-1")
    assert report["countersigned_by"] == "hub"
    assert [each["owner"] for each in report["owners"]] == ["owner-1", "owner-2"]


@pytest.mark.parametrize("kind", KINDS)
@settings(
    derandomize=True,
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(place=st.integers(0, 1 << 40), change=st.integers(1, 255))
def test_any_changed_byte_is_found_and_its_part_named(
    files: Files, kind: str, place: int, change: int
) -> None:
    content = bytearray(files.paths[kind].read_bytes())
    content[place % len(content)] ^= change
    _require_found(files, kind, bytes(content))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda content: content + b"\0", id="one byte more"),
        pytest.param(lambda content: content[:-1], id="one byte less"),
        pytest.param(lambda content: b"\0" + content, id="one byte before"),
        pytest.param(lambda content: content[: len(content) // 2], id="half"),
        pytest.param(lambda content: b"", id="nothing"),
    ],
)
def test_a_file_of_another_length_is_found(
    files: Files, kind: str, damage: Callable[[bytes], bytes]
) -> None:
    _require_found(files, kind, damage(files.paths[kind].read_bytes()))


@pytest.mark.parametrize("kind", ROWS)
def test_a_column_whose_name_is_no_text_is_found(files: Files, kind: str) -> None:
    content = files.paths[kind].read_bytes()
    place = content.rindex(b"x0", 0, content.rindex(b"x1"))
    _require_found(files, kind, content[:place] + b"\xf8" + content[place + 1 :])


def _require_found(files: Files, kind: str, content: bytes) -> None:
    changed = files.folder / f"changed{files.paths[kind].suffix}"
    changed.write_bytes(content)
    with pytest.raises((AlteredError, ArtefactError, ReceiptError, SignatureError)) as found:
        verify_file(changed, ca=files.proved.ca)
    assert PARTS.match(str(found.value)), str(found.value)
