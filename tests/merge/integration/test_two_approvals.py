"""A site where two people sign, with OpenSSH's own keys, from its first roles to what leaves."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import click
import grpc
import pytest

from dppca.common.kernel.attestation.envelopes import (
    Claim,
    read_envelope,
    sign_file,
    unchecked_predicate,
    write_signed,
)
from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.durable.files import CredentialFolder
from dppca.common.kernel.errors import NotApprovedError, SettingError, SignatureError, StudyError
from dppca.common.kernel.identity.tls import load_credentials
from dppca.common.kernel.study import Study
from dppca.common.verification.approving import describe_statement, read_proposal
from dppca.common.verification.cli import cli as verify
from dppca.common.verification.files import verification_text, verify_file
from dppca.owner.commands.opening import OpeningRun
from dppca.owner.ledger.database import begin_ledger
from dppca.owner.site.config import load_site
from tests.support.census import make_release
from tests.support.commands import answer_of
from tests.support.curator import Curator
from tests.support.federations import MASKED, MaskedFederation, study_of_sites
from tests.support.patience import wait_until
from tests.support.sites import OwnerSite, error_of, make_enrolled_site

NOT_APPROVED = NotApprovedError.exit_code
PEOPLE = ("anna", "bert", "cora")


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    folder = tmp_path / "keys"
    folder.mkdir()
    for name in PEOPLE:
        make = ["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", str(folder / name)]
        subprocess.run(make, check=True)
    return folder


@pytest.fixture(autouse=True)
def agreeing(monkeypatch: pytest.MonkeyPatch) -> None:
    """People who answer yes; no test of this file asks them anything else."""
    monkeypatch.setattr(click, "confirm", lambda *_, **__: True)


def waiting(site: OwnerSite, folder: Path) -> list[Path]:
    """Statements that wait, written for people."""
    code, found = site.run("proposals", "--output", str(folder))
    assert code == 0
    return [Path(each) for each in found["written"]]


def approve(site: OwnerSite, keys: Path, *names: str) -> Any:
    """Sign each statement that waits, as people do elsewhere, and hand the signatures back."""
    (statement,) = waiting(site, keys.parent / "to-sign")
    found: Any = None
    for name in names:
        output = keys.parent / f"{statement.stem}-{name}.json"
        code, signed = answer_of(
            "dppca-verify", verify, "approve", statement, "--key", keys / name, "--output", output
        )
        assert (code, signed["owner"]) == (0, site.name)
        code, found = site.run("approve", str(output))
        assert code == 0
    return found


def begin(site: OwnerSite, keys: Path) -> None:
    people = keys / "people.yaml"
    lines = [
        f"- {{group: {name}, keys: ['{(keys / name).with_suffix('.pub').read_text().strip()}']}}"
        for name in PEOPLE
    ]
    text = "needed: 2\nreview_by: {}\npeople:\n{}\n"
    from datetime import UTC, datetime, timedelta

    day = (datetime.now(UTC) + timedelta(days=300)).date()
    people.write_text(text.format(day, "\n".join(lines)))
    code, found = site.run("roles", "propose", str(people))
    assert (code, found["roles"], found["statements"][0]["state"]) == (0, 0, "waits")
    assert approve(site, keys, *PEOPLE)["roles"] == 1


def test_a_contribution_waits_for_two_people_and_leaves_once(
    site: OwnerSite, study: Study, keys: Path
) -> None:
    begin(site, keys)
    code, said = error_of(site.contribute(study))
    assert (code, "0 of 2 have signed" in said) == (NOT_APPROVED, True)
    assert approve(site, keys, "anna")["statements"][-1]["signed"] == [1]
    code, said = error_of(site.contribute(study))
    assert (code, "1 of 2 have signed (p1)" in said) == (NOT_APPROVED, True)
    assert not site.history.charges
    approve(site, keys, "bert")
    code, done = site.contribute(study)
    assert (code, done["already_stored"]) == (0, False)
    assert site.entries[-3:] == ["reserve", "commit", "sent"]
    code, again = site.contribute(study)
    assert (code, again["already_stored"]) == (0, True)
    assert site.run("proposals")[1]["statements"][-1]["state"] == "used"
    code, done = site.run("budget")
    assert code == 0
    assert site.run("doctor")[0] == 0
    code, done = site.run("audit", "--output", str(keys.parent / "audit"))
    assert code == 0
    line = ("audit", done["bundle"], "--ca", site.folder / "ca.pem")
    code, told = answer_of("dppca-verify", verify, *line)
    assert (code, [each["signed"] for each in told["releases"]]) == (0, [[1, 2]])


def test_rows_that_change_after_the_signatures_are_others(
    site: OwnerSite, study: Study, keys: Path
) -> None:
    begin(site, keys)
    site.contribute(study)
    approve(site, keys, "anna", "cora")
    rows = site.folder / "rows.csv"
    before = rows.read_text()
    rows.write_text("\n".join([*before.splitlines()[:-1], before.splitlines()[1]]) + "\n")
    assert error_of(site.contribute(study))[0] == NOT_APPROVED
    rows.write_text(before)
    assert site.contribute(study)[0] == 0


def test_a_policy_is_in_force_once_two_have_signed_it(
    site: OwnerSite, study: Study, keys: Path
) -> None:
    begin(site, keys)
    policy = site.folder / "policy.yaml"
    policy.write_text(policy.read_text().replace('epsilon: "3.0"', 'epsilon: "30"'))
    code, said = error_of(site.contribute(study))
    assert (code, "policy propose" in said) == (NOT_APPROVED, True)
    assert site.run("policy", "propose")[0] == 0
    approve(site, keys, "anna", "bert")
    assert error_of(site.contribute(study))[0] == NOT_APPROVED
    approve(site, keys, "bert", "cora")
    assert site.contribute(study)[0] == 0


def test_a_killed_command_goes_on_with_the_same_reservation(
    site: OwnerSite, study: Study, keys: Path
) -> None:
    begin(site, keys)
    site.contribute(study)
    approve(site, keys, "anna", "bert")
    assert site.contribute(study, die_at="reserve")[0] != 0
    assert site.contribute(study)[0] == 0
    assert site.entries.count("reserve") == 1


def test_a_site_signs_with_no_machine_key_and_writes_no_statement_into_itself(
    site: OwnerSite, study: Study, keys: Path
) -> None:
    public = keys / "machine.yaml"
    made = subprocess.run(
        ["ssh-keygen", "-y", "-f", str(site.folder / "key.pem")],
        check=True,
        capture_output=True,
        text=True,
    )
    lines = [made.stdout.strip(), (keys / "anna.pub").read_text().strip()]
    people = [f"- {{group: g, keys: ['{each}']}}" for each in lines]
    public.write_text("needed: 2\nreview_by: 2027-01-01\npeople:\n" + "\n".join(people) + "\n")
    code, said = error_of(site.run("roles", "propose", str(public)))
    assert (code, "one of this site" in said) == (SettingError.exit_code, True)
    for hostile in ("[]", "people: 1", "people: [{keys: [1], group: g}]", "\xff", "a: ["):
        public.write_text(hostile)
        assert error_of(site.run("roles", "propose", str(public)))[0] == SettingError.exit_code
    begin(site, keys)
    site.contribute(study)
    code, _ = error_of(site.run("proposals", "--output", str(site.folder)))
    assert code == SettingError.exit_code
    wrong = keys / "wrong.json"
    wrong.write_text(json.dumps({"payload": ""}))
    assert error_of(site.run("approve", str(wrong)))[0] == SignatureError.exit_code
    digest = site.run("proposals")[1]["statements"][-1]["statement"]
    assert site.run("withdraw", digest[:10])[1]["statements"][-1]["state"] == "withdrawn"
    assert error_of(site.run("withdraw", "zz"))[0] == SettingError.exit_code


def test_a_study_that_pins_the_people_takes_nothing_without_them(
    site: OwnerSite, curator: Curator, keys: Path
) -> None:
    begin(site, keys)
    digest = site.run("proposals")[1]["roles_sha256"]
    older = curator.begin(site.name, name="before-anybody-signed")
    study = curator.begin(site.name, signatories={site.name: {"needed": 2, "roles": digest}})
    assert error_of(site.contribute(study))[0] == NOT_APPROVED
    approve(site, keys, "anna")

    alone = curator.connect(
        load_credentials(CredentialFolder(site.folder))
    )  # who has the account, other software
    with pytest.raises(grpc.RpcError) as refused:
        alone.contribute(make_release(study), ledger_length=50)
    assert refused.value.details() == SignatureError.public
    assert not curator.operator().show(study.name).owners[0].contributed
    emptied = OwnerSite(Path(shutil.copytree(site.folder, keys.parent / "emptied")), site.name)
    for path in (*emptied.folder.glob("ledger*"), emptied.folder / "roles.json"):
        path.unlink()
    at = load_site(emptied.folder)
    begin_ledger(at.ledger, lock=at.lock)
    code, said = error_of(emptied.contribute(study))
    assert (code, "this site has no roles" in said) == (StudyError.exit_code, True)

    approve(site, keys, "bert")
    assert site.contribute(study)[0] == 0
    assert site.contribute(study)[1]["already_stored"] is True
    code, found = site.run("components", study.name, "--wait", "60")
    assert code == 0
    path = site.folder / "studies" / study.name / "components.npz"
    code, report = site.run("verify", found.get("path", str(path)))
    (people,) = report["signatories"]
    assert (people["owner"], people["signed"], people["people"]) == (site.name, 2, 3)
    with pytest.raises(grpc.RpcError) as unpinned:
        curator.begin(site.name)
    assert unpinned.value.details() == StudyError.public
    charged = site.run("budget")[1]["ledger"]["entries"]
    code, said = error_of(site.contribute(older))
    assert (code, "pins nobody" in said) == (StudyError.exit_code, True)
    assert site.run("budget")[1]["ledger"]["entries"] == charged, "refused before any charge"

    model = keys.parent / "model.skops"
    asked = (
        "train",
        study.name,
        "--target",
        "sex",
        "--method",
        "dp-svm",
        "--epsilon",
        "1",
        "--yes",
        "--output",
        str(model),
    )
    assert error_of(site.run(*asked))[0] == NOT_APPROVED
    approve(site, keys, "bert", "cora")
    assert site.run(*asked)[0] == 0
    assert site.run("verify", str(model))[0] == 0
    claims = read_stated_claims(model)
    del claims["consent"]
    signer = make_signer(load_credentials(CredentialFolder(site.folder)))
    write_signed(model, sign_file(model.name, model.read_bytes(), Claim.MODEL, claims, signer))
    assert error_of(site.run("verify", str(model)))[0] == SignatureError.exit_code


@pytest.mark.parametrize("spares", [0, 1])
def test_an_opener_whose_people_a_study_pins_opens_nothing_without_them(
    curator: Curator, tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch, spares: int
) -> None:
    n_openers = 2 + 2 * spares
    sites = [make_enrolled_site(curator, tmp_path, **MASKED) for _ in range(3 + spares)]
    pinned = sites[0]
    begin(pinned, keys)
    pin = {"needed": 2, "roles": pinned.run("proposals")[1]["roles_sha256"]}
    more = {"spares": 1} if spares else {}
    study = study_of_sites(sites, n_openers=n_openers, signatories={pinned.name: pin}, **more)
    curator.operator().create(study)
    federation = MaskedFederation(curator, sites, study)
    federation.contribute(*sites[1:])
    asked = ("contribute", study.name, "--yes", "--digest", study.digest)
    assert error_of(pinned.run(*asked))[0] == NOT_APPROVED
    approve(pinned, keys, "anna", "bert")
    assert pinned.run(*asked)[0] == 0
    wait_until(lambda: federation.state() != "open")

    assert error_of(pinned.run("open", study.name))[0] == NOT_APPROVED
    approve(pinned, keys, "bert", "cora")
    with monkeypatch.context() as other_software:
        other_software.setattr(OpeningRun, "_consent", lambda _: None)
        code, said = error_of(pinned.run("open", study.name))
        assert (code, federation.state()) == (SignatureError.exit_code, "sealed"), said
    for site in federation.openers[: n_openers - spares]:
        assert site.run("open", study.name)[0] in (0, 50)
    for site in federation.openers[: n_openers - spares]:
        assert site.run("open", study.name, "--wait", "60")[0] == 0
    code, _ = pinned.run("components", study.name, "--wait", "60")
    assert code == 0
    path = pinned.folder / "studies" / study.name / "components.npz"
    code, report = pinned.run("verify", str(path))
    (people,) = report["opening_signatories"]
    assert (code, people["owner"], people["signed"]) == (0, pinned.name, 2)
    text = verification_text(verify_file(path, ca=(pinned.folder / "ca.pem").read_bytes()))
    assert f"opening signed by 2 of 3 people of {pinned.name}" in text
    assert unchecked_predicate(read_envelope(path))["sum"]["consents"].keys() == {pinned.name}


def test_what_people_sign_with_a_contribution_opens_its_set_and_publishes_its_rows(
    curator: Curator, tmp_path: Path, keys: Path
) -> None:
    """Cases 40 and 41: they sign once; another form of rows is asked for again."""
    sites = [make_enrolled_site(curator, tmp_path, **MASKED) for _ in range(3)]
    pinned, other, _ = sites
    begin(pinned, keys)
    pin = {"needed": 2, "roles": pinned.run("proposals")[1]["roles_sha256"]}
    study = study_of_sites(sites, n_openers=2, signatories={pinned.name: pin})
    curator.operator().create(study)
    federation = MaskedFederation(curator, sites, study)
    plain = ("contribute", study.name, "--yes", "--digest", study.digest)
    asked = (*plain, "--also-open", "--also-publish", "coded", "--also-rows", "50")
    code, said = error_of(other.run(*asked))
    assert (code, "where people sign" in said) == (SettingError.exit_code, True)
    federation.contribute(*sites[1:])
    assert error_of(pinned.run(*asked))[0] == NOT_APPROVED
    (statement,) = waiting(pinned, tmp_path / "to-read")
    assert "beforehand, once: vote for and open the one set" in described(statement)
    assert len(pinned.run("proposals")[1]["statements"][-1]["also"]) == 2
    approve(pinned, keys, "anna", "bert")
    assert pinned.run(*plain)[0] == 0
    wait_until(lambda: federation.state() != "open")
    for site in federation.openers:
        assert site.run("open", study.name)[0] == 0
    assert pinned.run("components", study.name, "--wait", "60")[0] == 0
    path = pinned.folder / "studies" / study.name / "components.npz"
    code, report = pinned.run("verify", str(path))
    assert (code, [each["owner"] for each in report["opening_signatories"]]) == (0, [pinned.name])
    rows = ("synthesize", study.name, "--publish", "--form")
    assert error_of(pinned.run(*rows, "coded", "--rows", "51"))[0] == NOT_APPROVED
    shutil.rmtree(path.parent / ".unpublished", ignore_errors=True)
    assert error_of(pinned.run(*rows, "decoded", "--rows", "50"))[0] == NOT_APPROVED
    assert pinned.run(*rows, "coded", "--rows", "50")[0] == 0
    assert pinned.entries.count("published") == 1


def described(statement: Path) -> str:
    return describe_statement(read_proposal(statement.read_bytes(), now=utc_now()))


def read_stated_claims(path: Path) -> dict[str, Any]:
    return unchecked_predicate(read_envelope(path))
