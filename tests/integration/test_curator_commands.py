from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from common.conversation import Form
from common.results import result_from_bytes
from common.transport.tls import Role
from tests.support.daemon import Hub, write_credentials
from tests.support.hub import arrow, decoded_rows, make_release, make_study

pytestmark = pytest.mark.integration
STUDY = make_study()


def curator(*arguments: object) -> tuple[int, Any]:
    """Exit code and JSON document of one command."""
    done = subprocess.run(
        [sys.executable, "-m", "curator.cli", *map(str, arguments), "--json"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, json.loads(done.stdout)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("hub")).start()
    yield hub
    hub.stop()


@pytest.fixture(scope="module")
def connection(hub: Hub) -> tuple[object, ...]:
    folder = write_credentials(hub.folder / "alice", hub.authority.issue(Role.OPERATOR, "alice"))
    return ("--curator", hub.address, "--credentials", folder)


def test_a_study_from_its_file_to_its_tables(
    hub: Hub, connection: tuple[object, ...], tmp_path: Path
) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(yaml.safe_dump(json.loads(STUDY.canonical_bytes())))
    code, made = curator("study", "create", file, *connection)
    assert (code, made["digest"], made["already_stored"]) == (0, STUDY.digest, False)
    assert curator("study", "create", file, *connection)[1]["already_stored"]

    output = tmp_path / "components.npz"
    code, failed = curator("study", "components", "census", "--output", output, *connection)
    assert (code, failed["error"]["class"]) == (50, "NotReadyError")
    for owner in STUDY.owners:
        assert owner in failed["error"]["message"]
    assert not output.exists()

    for seed, owner in enumerate(STUDY.owners):
        hub.party(owner).contribute(make_release(STUDY, seed=seed))
    digest = hub.party("owner-1").result(STUDY).sha256
    code, got = curator("study", "components", "census", "--output", output, *connection)
    assert (code, got["bytes"]) == (0, output.stat().st_size)
    result_from_bytes(output.read_bytes(), STUDY)

    table = tmp_path / "rows.parquet"
    code, failed = curator("study", "synthetic", "census", "--output", table, *connection)
    assert (code, failed["error"]["class"]) == (50, "NotReadyError")
    rows = arrow(decoded_rows())
    hub.party("owner-1").publish(STUDY, Form.DECODED, rows, n_rows=3, components=digest)
    code, got = curator(
        "study", "synthetic", "census", "--form", "decoded", "--output", table, *connection
    )
    assert (code, got["rows"]) == (0, 3)
    assert pyarrow.parquet.read_table(table).column_names == ["age", "sex", "work"]

    ca = tmp_path / "ca.pem"
    ca.write_bytes(hub.authority.pem)
    for released, sealed_by in ((output, "curator hub"), (table, "operator alice")):
        code, verified = curator("verify", released, "--ca", ca)
        assert (code, verified["sealed_by"]) == (0, sealed_by)
        assert [each["owner"] for each in verified["owners"]] == list(STUDY.owners)
    ca.unlink()

    code, shown = curator("study", "show", "census", *connection)
    assert (shown["state"], shown["contributions"]) == ("decomposed", 3)
    assert [who["rows"] for who in shown["who"]] == [1000] * 3
    assert curator("study", "list", *connection)[1]["studies"][0]["study"] == "census"
    assert curator("study", "close", "census", *connection)[1]["state"] == "closed"
    code, failed = curator("study", "abort", "census", "--reason", "late", *connection)
    assert (code, failed["error"]["class"]) == (44, "StudyStateError")
    assert {path.name for path in tmp_path.iterdir()} == {
        "study.yaml",
        "components.npz",
        "rows.parquet",
    }


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("study", "show", "nothing"), 43, "UnknownStudyError"),
        (("study", "create", "no-such-file.yaml"), 10, "SettingError"),
        (("study", "synthetic", "census", "--output", "rows.xlsx"), 10, "SettingError"),
        (("study", "abort", "census"), 2, "UsageError"),
    ],
)
def test_what_is_wrong_is_said_by_class_and_exit_code(
    arguments: tuple[str, ...], code: int, error: str, connection: tuple[object, ...]
) -> None:
    ended, document = curator(*arguments, *connection)
    assert (ended, document["error"]["class"]) == (code, error)


def test_an_owners_certificate_is_refused_before_it_is_shown_to_anybody(
    hub: Hub, tmp_path: Path
) -> None:
    folder = write_credentials(tmp_path, hub.authority.issue(Role.OWNER, "owner-1"))
    code, document = curator("study", "list", "--curator", hub.address, "--credentials", folder)
    assert (code, document["error"]["class"]) == (41, "IdentityError")


def test_a_curator_is_not_served_with_anothers_certificate(hub: Hub, tmp_path: Path) -> None:
    folder = write_credentials(tmp_path / "alice", hub.authority.issue(Role.OPERATOR, "alice"))
    serve = ("serve", "--listen", "127.0.0.1:0", "--state", tmp_path / "state")
    code, document = curator(*serve, "--credentials", folder)
    assert (code, document["error"]["class"]) == (41, "IdentityError")
    code, document = curator(*serve, "--credentials", tmp_path / "nowhere")
    assert (code, document["error"]["class"]) == (41, "IdentityError")
    code, document = curator(
        "serve",
        *("--listen", hub.address),
        *("--state", tmp_path / "other"),
        *("--credentials", hub.credentials),
    )
    assert (code, document["error"]["class"]) == (10, "SettingError")


def test_certificates_made_by_the_commands_carry_a_whole_study(tmp_path: Path) -> None:
    authority = tmp_path / "authority"
    assert curator("pki", "init", "--directory", authority)[0] == 0
    assert stat.S_IMODE((authority / "ca-key.pem").stat().st_mode) == 0o600
    hub = Hub(tmp_path / "run")
    hub.credentials = tmp_path / "hub"
    for role, name, hosts in (
        ("curator", "hub", ("--host", "127.0.0.1", "--host", "localhost")),
        ("operator", "alice", ()),
    ):
        code, made = curator(
            *("pki", "issue", "--directory", authority, "--role", role, "--name", name),
            *(*hosts, "--output", tmp_path / name),
        )
        assert (code, made["role"], made["name"]) == (0, role, name)

    key = ec.generate_private_key(ec.SECP256R1())
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "owner-1")]))
        .sign(key, hashes.SHA256())
    )
    (tmp_path / "request.pem").write_bytes(request.public_bytes(Encoding.PEM))
    sign = ("pki", "sign", "--directory", authority, "--request", tmp_path / "request.pem")
    output = ("--output", tmp_path / "certificate.pem")
    code, failed = curator(*sign, *output, "--name", "owner-2")
    assert (code, failed["error"]["class"]) == (41, "IdentityError")
    code, signed = curator(*sign, *output, "--name", "owner-1")
    assert (code, signed["name"]) == (0, "owner-1")
    assert len(signed["fingerprint"]) == 64

    hub.start()
    try:
        connection = ("--curator", hub.address, "--credentials", tmp_path / "alice")
        assert curator("study", "list", *connection) == (
            0,
            {"command": "study list", "studies": []},
        )
    finally:
        assert hub.terminate() == 0
