import json
import re
import stat
from functools import partial
from pathlib import Path

import pyarrow.parquet
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from dppca.common.kernel.attestation.results import result_from_bytes
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.errors import StudyError
from dppca.common.kernel.identity.tls import Role
from dppca.curator.cli import cli
from tests.support.census import arrow, decoded_rows, make_release
from tests.support.certificates import write_credentials
from tests.support.commands import answer_of, run_here
from tests.support.curator import Curator
from tests.support.federations import MaskedHub
from tests.support.sites import make_enrolled_site
from tests.support.studies import make_study, numeric_of, study_document

STUDY = make_study()
run_curator = partial(answer_of, "dppca-curator", cli)


def test_a_study_from_its_file_to_its_tables(curator: Curator, tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(yaml.safe_dump(json.loads(STUDY.canonical_bytes())))
    code, made = curator.operate("study", "create", file, "--yes")
    assert (code, made["digest"], made["already_stored"]) == (0, STUDY.digest, False)
    assert curator.operate("study", "create", file, "--yes")[1]["already_stored"]
    other = tmp_path / "other.yaml"
    other.write_text(
        json.dumps(
            study_document([numeric_of("id", 0, 1e300, integer=True), numeric_of("x", 0, 1)])
        )
    )
    code, failed = curator.operate("study", "create", other, "--yes")
    assert (code, failed["error"]["class"]) == (StudyError.exit_code, "StudyError")
    assert "attribute id: integer: whole numbers beyond" in failed["error"]["message"]
    other.unlink()
    awaited = {"first": list(STUDY.owners), "total": 3}
    listed = curator.operate("study", "list")[1]["studies"][0]
    assert (listed["epsilon"], listed["missing"], listed["unheard"]) == ("1", awaited, awaited)

    output = tmp_path / "components.npz"
    code, failed = curator.operate("study", "components", "census", "--output", output)
    assert (code, failed["error"]["class"]) == (50, "NotReadyError")
    for owner in STUDY.owners:
        assert owner in failed["error"]["message"]
    assert not output.exists()

    for seed, owner in enumerate(STUDY.owners):
        curator.party(owner).contribute(make_release(STUDY, seed=seed))
    digest = curator.party("owner-1").result(STUDY).sha256
    code, got = curator.operate("study", "components", "census", "--output", output)
    assert (code, got["bytes"]) == (0, output.stat().st_size)
    result_from_bytes(output.read_bytes(), STUDY)

    table = tmp_path / "rows.parquet"
    code, failed = curator.operate("study", "synthetic", "census", "--output", table)
    assert (code, failed["error"]["class"]) == (50, "NotReadyError")
    rows = arrow(decoded_rows())
    curator.party("owner-1").publish(STUDY, Form.DECODED, rows, n_rows=3, components=digest)
    code, got = curator.operate(
        "study", "synthetic", "census", "--form", "decoded", "--output", table
    )
    assert (code, got["rows"]) == (0, 3)
    assert pyarrow.parquet.read_table(table).column_names == ["age", "sex", "work"]

    ca = tmp_path / "ca.pem"
    ca.write_bytes(curator.authority.pem)
    for released, signed_by in ((output, "curator hub"), (table, "operator alice")):
        code, verified = run_curator("verify", released, "--ca", ca)
        assert (code, verified["signed_by"]) == (0, signed_by)
        assert [each["owner"] for each in verified["owners"]] == list(STUDY.owners)
    ca.unlink()

    code, shown = curator.operate("study", "show", "census")
    assert (shown["summary"]["state"], shown["summary"]["contributions"]) == ("decomposed", 3)
    assert [owner["n_rows"] for owner in shown["owners"]] == [1000] * 3
    listed = curator.operate("study", "list")[1]["studies"][0]
    assert (listed["name"], listed["missing"]["total"]) == ("census", 0)
    code, told = curator.operate("refusals", "--study", "census")
    assert (code, told["dropped"]) == (0, 0)
    assert {(each["method"], each["error"]) for each in told["refusals"]} == {
        ("DownloadSynthetic", "NotReadyError")
    }
    assert [each["party"] for each in told["refusals"]] == ["operator:alice"]
    assert curator.operate("study", "close", "census")[1]["state"] == "closed"
    code, failed = curator.operate("study", "abort", "census", "--reason", "late")
    assert (code, failed["error"]["class"]) == (44, "StudyStateError")
    assert "study census is closed: only one that waits is aborted" in failed["error"]["message"]
    assert {path.name for path in tmp_path.iterdir()} == {
        "study.yaml",
        *("components.npz", "components.npz.intoto.json"),
        *("rows.parquet", "rows.parquet.intoto.json"),
    }


def test_an_operator_is_told_how_to_find_a_study_and_in_what_another_differs(
    curator: Curator, tmp_path: Path
) -> None:
    code, failed = curator.operate("study", "show", "nothing")
    assert (code, failed["error"]["class"]) == (43, "UnknownStudyError")
    assert "`dppca-curator study list`" in failed["error"]["message"]
    assert "list this owner" not in failed["error"]["message"]
    assert failed["error"]["message"].endswith("You asked for nothing")
    file = tmp_path / "twice.yaml"
    document = json.loads(make_study(name="twice").canonical_bytes())
    file.write_text(yaml.safe_dump(document))
    assert curator.operate("study", "create", file, "--yes")[0] == 0
    code, failed = curator.operate("study", "show", "twise")
    assert (code, failed["error"]["class"]) == (43, "UnknownStudyError")
    assert failed["error"]["message"].endswith("You asked for twise; did you mean twice?")
    document["privacy"]["epsilon"] = "0.123"
    document["schema"]["attributes"][0]["upper"] = 91.25
    file.write_text(yaml.safe_dump(document))
    code, failed = curator.operate("study", "create", file, "--yes")
    assert (code, failed["error"]["class"]) == (45, "ConflictError")
    assert "differs in: privacy.epsilon, attribute age. Nothing" in failed["error"]["message"]
    assert "0.123" not in failed["error"]["message"]
    assert "once more" not in failed["error"]["message"], "nobody came, and nobody would pay again"


def test_who_would_add_an_owner_to_a_study_is_told_what_those_who_came_pay(
    curator: Curator, tmp_path: Path
) -> None:
    begun = curator.begin("owner-1", "owner-2")
    curator.party("owner-1").contribute(make_release(begun, seed=1))
    more = tmp_path / "more.json"
    document = {**json.loads(begun.canonical_bytes()), "owners": ["owner-1", "owner-2", "late"]}
    more.write_text(json.dumps(document))
    code, failed = curator.operate("study", "create", more, "--yes")
    assert code == 45
    assert "costs the 1 who came to this one once more" in failed["error"]["message"]
    late = make_enrolled_site(curator, tmp_path, name="late")
    code, failed = late.run("review", begun.name)
    assert code == 43
    assert (
        "a new study with it costs those who came to the first once more"
        in (failed["error"]["message"])
    )


def test_an_owners_certificate_is_refused_before_it_is_shown_to_anybody(
    curator: Curator, tmp_path: Path
) -> None:
    folder = write_credentials(tmp_path, curator.authority.issue(Role.OWNER, "owner-1"))
    code, document = run_curator(
        "study", "list", "--curator", curator.address, "--credentials", folder
    )
    assert (code, document["error"]["class"]) == (41, "IdentityError")


def test_a_curator_is_not_served_with_anothers_certificate(
    curator: Curator, tmp_path: Path
) -> None:
    folder = write_credentials(tmp_path / "alice", curator.authority.issue(Role.OPERATOR, "alice"))
    serve = ("serve", "--listen", "127.0.0.1:0", "--state", tmp_path / "state")
    code, document = run_curator(*serve, "--credentials", folder)
    assert (code, document["error"]["class"]) == (41, "IdentityError")
    code, document = run_curator(*serve, "--credentials", tmp_path / "nowhere")
    assert (code, document["error"]["class"]) == (41, "IdentityError")


def test_certificates_made_by_the_commands_carry_a_whole_study(tmp_path: Path) -> None:
    authority = tmp_path / "authority"
    assert run_curator("pki", "init", "--directory", authority)[0] == 0
    assert stat.S_IMODE((authority / "ca-key.pem").stat().st_mode) == 0o600
    curator = Curator(tmp_path / "run")
    curator.credentials = tmp_path / "hub"
    for role, name, hosts in (
        ("curator", "hub", ("--host", "127.0.0.1", "--host", "localhost")),
        ("operator", "alice", ()),
    ):
        code, made = run_curator(
            *("pki", "issue", "--directory", authority, "--role", role, "--name", name),
            *(*hosts, "--output", tmp_path / name),
        )
        assert (code, made["role"], made["name"]) == (0, role, name)

    def request_of(name: str) -> bytes:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = x509.CertificateSigningRequestBuilder().subject_name(subject)
        signed = made.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
        return signed.public_bytes(Encoding.PEM)

    (tmp_path / "request.pem").write_bytes(request_of("owner-1"))
    sign = ("pki", "sign", "--directory", authority, "--request", tmp_path / "request.pem")
    output = ("--output", tmp_path / "certificate.pem")
    code, asked = run_curator("pki", "show", tmp_path / "request.pem")
    assert (code, asked["name"]) == (0, "owner-1")
    code, failed = run_curator(*sign, *output, "--name", "owner-2")
    assert (code, failed["error"]["class"]) == (41, "IdentityError")
    code, signed = run_curator(*sign, *output, "--name", "owner-1")
    assert (code, signed["name"]) == (0, "owner-1")
    assert signed["fingerprint"] == asked["fingerprint"]
    other = request_of("owner-1")
    (tmp_path / "request.pem").write_bytes(other)
    again = (*sign, "--output", tmp_path / "second.pem")
    code, failed = run_curator(*again)
    assert (code, failed["error"]["class"]) == (41, "IdentityError")
    assert not (tmp_path / "second.pem").exists()
    assert run_curator(*again, "--renews", signed["serial"])[0] == 0

    curator.start()
    try:
        connection = ("--curator", curator.address, "--credentials", tmp_path / "alice")
        assert run_curator("study", "list", *connection) == (
            0,
            {"command": "study list", "studies": []},
        )
    finally:
        assert curator.terminate() == 0


def test_a_sealed_study_shows_who_has_voted_and_opened(curator: Curator, tmp_path: Path) -> None:
    sites = MaskedHub(curator).join(4, 4, spares=1, name="masked")
    code, shown = curator.operate("study", "show", "masked")
    summary = shown["summary"]
    assert (code, summary["state"], shown["sealed"], shown["set_digest"]) == (0, "open", None, None)
    sites.contribute()
    sites.until_sealed()
    for opener in sites.openers[:3]:
        opener.vote()
    sites.openers[1].open()

    code, shown = curator.operate("study", "show", "masked")
    assert (code, shown["summary"]["state"]) == (0, "sealed")
    assert shown["set_digest"] == sites.openers[0].shown().digest
    assert shown["missing_openers"] == ["owner-1", "owner-3", "owner-4"]
    steps = [(each["opener"], each["voted"], each["opened"]) for each in shown["owners"]]
    assert [(opener, voted is None, opened is None) for opener, voted, opened in steps] == [
        (True, False, True),
        (True, False, False),
        (True, False, True),
        (True, True, True),
    ]
    assert shown["sealed"].startswith("20")
    _, text, _ = run_here(cli, "study", "show", "masked", *curator.connection)
    assert "Study masked, sealed: 4 of 4 owners have contributed." in text
    assert f"set {shown['set_digest']}" in text
    assert "Waits to be opened by: owner-1, owner-3, owner-4" in text
    lines = [line for line in text.splitlines() if line.startswith("owner-")]
    assert re.search(r"  voted 20\S+, opened 20\S+$", lines[1])
    assert lines[3].endswith("  not yet")

    output = tmp_path / "components.npz"
    code, refusal = curator.operate("study", "components", "masked", "--output", output)
    assert (code, refusal["error"]["class"]) == (50, "NotReadyError")
    assert "waits to be opened by owner-1, owner-3, owner-4" in refusal["error"]["message"]
    sites.openers[0].open()
    assert sites.wait().total_bytes > 0
    code, made = curator.operate("study", "components", "masked", "--output", output)
    assert (code, made["bytes"]) == (0, output.stat().st_size)
