"""Any changed byte of a released file, or of what was signed of it, is found.

Places and changes are drawn by hypothesis without the clock or the system's entropy, so a run is
the same run each time.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dppca.common.kernel.attestation.claims import Replicate
from dppca.common.kernel.attestation.envelopes import (
    Claim,
    envelope_path,
    read_envelope,
    sign_statement,
    unchecked_predicate,
)
from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.documents.values import to_document
from dppca.common.kernel.durable.files import digest_file
from dppca.common.kernel.errors import AlteredError, ReceiptError, SignatureError
from dppca.common.kernel.identity.tls import load_credentials
from dppca.common.verification.files import verification_text, verify_file
from dppca.owner.site.config import load_site
from dppca.owner.synthesis.tables import write_released
from tests.support.documents import require_documented
from tests.support.examples import examples
from tests.support.sites import ProvedSite, make_proved_site


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
    told = proved.site.run("synthesize", "site-test", "--rows", "60", "--replicates", "4")
    assert told[0] == 0
    asked = ("train", "site-test", "--target", "ill", "--method", "dp-svm", "--epsilon", "1")
    code, made = proved.site.run(*asked, "--yes")
    assert code == 0
    decoded = proved.components.with_name("synthetic-decoded.parquet")
    arrow, csv = folder / "rows.arrow", folder / "rows.csv"
    signer = make_signer(load_credentials(load_site(proved.site.folder)))
    table = pq.read_table(decoded).combine_chunks()
    claims = unchecked_predicate(read_envelope(decoded))
    for path in (arrow, csv):
        write_released(path, table.to_batches(), signer, fields=table.schema, claims=claims)
    paths = {
        "components": proved.components,
        "decoded rows": decoded,
        "coded rows": decoded.with_name("synthetic-coded.parquet"),
        "arrow rows": arrow,
        "csv rows": csv,
        "replicate": Path(told[1]["replicates"][2]),
        "model": Path(made["model"]),
    }
    return Files(proved, paths, folder)


ROWS = ["decoded rows", "coded rows", "arrow rows", "csv rows", "replicate"]
KINDS = ["components", *ROWS, "model"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_unchanged_file_verifies(files: Files, kind: str) -> None:
    report = verify_file(files.paths[kind], ca=files.proved.ca)
    require_documented("dppca-curator", {"command": "verify", **to_document(report)})
    assert report.label == "released"
    assert report.authority is not None
    assert report.signed_by == ("curator hub" if kind == "components" else "owner owner-1")
    assert report.countersigned_by == "hub"
    assert [each.owner for each in report.owners] == ["owner-1", "owner-2"]


@pytest.mark.parametrize("kind", KINDS)
@settings(
    derandomize=True,
    max_examples=examples(30),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(place=st.integers(0, 1 << 40), change=st.integers(1, 255))
def test_any_changed_byte_of_a_file_is_found_before_it_is_read(
    files: Files, kind: str, place: int, change: int
) -> None:
    content = bytearray(files.paths[kind].read_bytes())
    content[place % len(content)] ^= change
    _require_unread(files, kind, bytes(content))


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
    _require_unread(files, kind, damage(files.paths[kind].read_bytes()))


@pytest.mark.parametrize("kind", KINDS)
@settings(
    derandomize=True,
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(place=st.integers(0, 1 << 40), change=st.integers(1, 255))
def test_a_changed_byte_of_an_envelope_is_found_or_says_the_same(
    files: Files, kind: str, place: int, change: int
) -> None:
    """Some bytes of JSON and base64 mean nothing; statement and signature may not change."""
    envelope = bytearray(read_envelope(files.paths[kind]))
    envelope[place % len(envelope)] ^= change
    true = verify_file(files.paths[kind], ca=files.proved.ca)
    changed = files.folder / f"changed{files.paths[kind].suffix}"
    changed.write_bytes(files.paths[kind].read_bytes())
    envelope_path(changed).write_bytes(envelope)
    try:
        found = verify_file(changed, ca=files.proved.ca)
    except (AlteredError, ReceiptError, SignatureError):
        return
    assert replace(found, file=true.file) == true


def _require_unread(files: Files, kind: str, content: bytes) -> None:
    """A changed file is refused by its digest: that is the same message for all changes."""
    changed = files.folder / f"changed{files.paths[kind].suffix}"
    changed.write_bytes(content)
    envelope_path(changed).write_bytes(read_envelope(files.paths[kind]))
    with pytest.raises(AlteredError, match="the file is not the one that"):
        verify_file(changed, ca=files.proved.ca)


@pytest.mark.parametrize("field", ["software", "form", "n_rows"])
def test_signed_rows_whose_claims_lack_a_field_are_refused(
    files: Files, field: str, tmp_path: Path
) -> None:
    claims = unchecked_predicate(read_envelope(files.paths["decoded rows"]))
    del claims[field]
    with pytest.raises((ReceiptError, AlteredError)):
        verify_file(_sign_again(files, "decoded rows", claims, tmp_path), ca=files.proved.ca)


def _sign_again(files: Files, kind: str, claims: dict[str, Any], folder: Path) -> Path:
    """Write a table with other claims, signed by the site all the same."""
    path = folder / files.paths[kind].name
    path.write_bytes(files.paths[kind].read_bytes())
    signer = make_signer(load_credentials(load_site(files.proved.site.folder)))
    envelope = sign_statement(path.name, digest_file(path), Claim.ROWS, claims, signer)
    envelope_path(path).write_bytes(envelope)
    return path


def test_each_table_says_what_it_is_not_for(files: Files) -> None:
    said = {kind: verify_file(files.paths[kind], ca=files.proved.ca) for kind in ROWS}
    release = digest_file(files.paths["components"])
    assert said["replicate"].replicate == Replicate(3, 4, release)
    text = f"replicate 3 of 4 of release {release}; its law of noise was added once more; "
    assert text in verification_text(said["replicate"])
    for kind in ROWS[:-1]:
        assert said[kind].replicate is None
        assert "do not compute standard errors from these rows" in verification_text(said[kind])
    assert verify_file(files.paths["components"], ca=files.proved.ca).use is None


def test_rows_of_0_1_0_say_nothing_of_their_use(files: Files, tmp_path: Path) -> None:
    claims = unchecked_predicate(read_envelope(files.paths["decoded rows"]))
    del claims["use"]
    path = _sign_again(files, "decoded rows", claims, tmp_path)
    assert verify_file(path, ca=files.proved.ca).rows == 60


OTHER = {"number": 3, "of": 4, "release": "0" * 64}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"replicate": OTHER}, "of a replicate of another release"),
        ({"replicate": {**OTHER, "number": 5}}, "states no replicate"),
        ({"replicate": {**OTHER, "number": 0}}, "states no replicate"),
        ({"replicate": {**OTHER, "of": 3}}, "states no replicate"),
        ({"replicate": {**OTHER, "of": "4"}}, "states no replicate"),
        ({"replicate": {**OTHER, "number": True}}, "states no replicate"),
        ({"replicate": {**OTHER, "weight": 1}}, "states no replicate"),
        ({"replicate": {"number": 3, "of": 4}}, "states no replicate"),
        ({"replicate": [3, 4]}, "states no replicate"),
        ({"replicate": "3 of 4"}, "states no replicate"),
        ({"replicate": None}, "does not follow from the study, in: replicate"),
        ({"use": "any"}, "states another use"),
        ({"form": "coded"}, "a replicate has decoded rows"),
        ({"joined": []}, "a replicate has decoded rows"),
    ],
)
def test_signed_claims_of_no_replicate_of_this_release_are_refused(
    files: Files, tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    claims = unchecked_predicate(read_envelope(files.paths["replicate"]))
    path = _sign_again(files, "replicate", {**claims, **changes}, tmp_path)
    with pytest.raises(ReceiptError, match=says):
        verify_file(path, ca=files.proved.ca)
