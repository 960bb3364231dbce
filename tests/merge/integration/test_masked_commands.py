"""One sum by the parties' commands with a real curator: contributed to, opened, and proved."""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from dppca.common.kernel.aggregation.pooling import require_upload
from dppca.common.kernel.aggregation.sum_messages import SealedSet, Upload
from dppca.common.kernel.attestation.envelopes import Claim, read_envelope, unchecked_predicate
from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.errors import (
    AlteredError,
    ConsentError,
    ReceiptError,
    SettingError,
    SignatureError,
)
from dppca.common.kernel.identity.tls import Role
from dppca.common.kernel.study import study_from_mapping
from dppca.curator.cli import cli
from dppca.owner.commands.opening import open_sum
from dppca.owner.ledger.database import open_ledger
from dppca.owner.site.config import load_site
from tests.support.census import sign_document
from tests.support.curator import Curator, far_moment
from tests.support.envelopes import releases_in, sign_again
from tests.support.federations import (
    MaskedFederation,
    identity_of,
    make_masked_federation,
    study_of_sites,
)
from tests.support.sites import OwnerSite, error_of, make_enrolled_site

SETTING, MISMATCH, NO_POLICY, REFUSED = 10, 12, 20, 26
IDENTITY, PERMISSION, STATE, NOT_READY = 41, 42, 44, 50


def test_what_is_stored_and_sent_is_the_masked_upload_of_this_site(
    federation: MaskedFederation,
) -> None:
    study, site = federation.study, federation.sites[-1]
    code, document = site.contribute(study, "--digest", study.digest)
    assert code == 0
    assert document["entries"] == study.table.layout.n_entries
    kept = load_site(site.folder)
    with open_ledger(kept.ledger, lock=kept.lock) as ledger:
        stored = ledger.stored(study.digest)
    assert len(stored.payload) == document["bytes"]
    upload = Upload.from_bytes(stored.payload, federation.terms)
    assert upload.statement.owner == site.name
    require_upload(federation.terms, upload)
    assert error_of(site.contribute(study, "--digest", "0" * 64))[0] == MISMATCH
    code, again = site.contribute(study)
    assert (code, again["already_stored"], again["release_id"]) == (0, True, document["release_id"])
    assert len(site.history.charges) == 1
    assert site.history.total("survey").rho > 0
    code, verified = site.run("budget", "verify")
    assert (code, [each["recomputed"] for each in verified["releases"]]) == (0, [True])
    (charge,) = site.run("budget")[1]["releases"]
    assert (charge["colluders"], charge["honest"]) == (1, 2)


def test_without_a_digest_nothing_is_contributed_until_the_keys_are_verified(
    federation: MaskedFederation,
) -> None:
    study, site = federation.study, federation.sites[-1]
    before = site.history
    code, message = error_of(site.contribute(study))
    assert code == SETTING
    assert all(owner in message for owner in study.owners)
    for digest, expected in (("0" * 64, MISMATCH), ("", SETTING)):
        code, message = error_of(site.contribute(study, "--digest", digest))
        assert code == expected
        assert study.digest not in message
    assert site.history == before
    code, reviewed = site.run("review", study.name)
    assert (code, reviewed["aggregate"]["keys_verified"]) == (0, False)
    assert reviewed["aggregate"]["unverified"] == sorted(study.owners)
    assert not (site.folder / "peers.yaml").exists()
    code, reviewed = site.run("review", study.name, "--digest", study.digest.upper())
    assert (code, reviewed["aggregate"]["keys_verified"]) == (0, True)
    assert yaml.safe_load((site.folder / "peers.yaml").read_text())["peers"] == {
        owner: federation.study.model_dump(mode="json")["identities"][owner]
        for owner in study.owners
    }
    assert site.contribute(study)[0] == 0


def test_a_peer_whose_key_has_changed_is_refused_even_with_a_digest_that_fits(
    curator: Curator, federation: MaskedFederation, tmp_path: Path
) -> None:
    site, impostor = federation.sites[-1], make_enrolled_site(curator, tmp_path)
    federation.contribute(site)
    study = study_of_sites(federation.sites)
    document = study.model_dump(mode="json", by_alias=True)
    name = federation.sites[1].name
    other = identity_of(impostor, study.name, opener=True)
    document["identities"][name] = other["key"]
    document["openers"][name] = {key: other["opener"][key] for key in ("key", "signature")}
    forged = study_from_mapping(document)
    curator.operator().create(forged)
    before = site.history
    for options in ((), ("--digest", forged.digest)):
        code, message = error_of(site.contribute(forged, *options))
        assert code == IDENTITY
        assert name in message
    assert site.history == before


def test_a_policy_without_a_rule_that_fits_refuses(federation: MaskedFederation) -> None:
    site, study, reason = federation.sites[-1], federation.study, "asks for 2"
    policy = site.folder / "policy.yaml"
    policy.write_text(policy.read_text().replace("{colluders: 1}", "{colluders: 2}"))
    before = site.history
    code, message = error_of(site.contribute(study, "--digest", study.digest))
    assert (code, reason in message) == (NO_POLICY, True)
    assert site.history == before
    refused = site.run("review", study.name)[1]["refused"]
    assert reason in refused
    steps = {each["name"]: each["next"] for each in site.run("studies")[1]["studies"]}
    assert steps[study.name] == f"nothing, it is not covered: {refused}"


def test_a_contribution_from_before_a_renewal_is_sent_with_the_key_that_made_it(
    federation: MaskedFederation,
) -> None:
    site, study = federation.sites[-1], federation.study
    site.contribute(study, "--digest", study.digest, die_at="send")
    files = [site.folder / name for name in ("key.pem", "certificate.pem")]
    before = [file.read_bytes() for file in files]
    issued = make_enrolled_site(federation.curator, site.folder, name=site.name)
    for file in files:
        file.write_bytes((issued.folder / file.name).read_bytes())
    code, message = error_of(site.contribute(study))
    assert code == IDENTITY
    assert "before the site's key was renewed" in message
    for file, content in zip(files, before, strict=True):
        file.write_bytes(content)
    code, document = site.contribute(study)
    assert (code, document["already_stored"]) == (0, False)


@pytest.mark.parametrize(
    ("mechanism", "one_more", "all_others"), [("gaussian", "1.46", "1.46"), ("laplace", None, None)]
)
def test_a_review_says_against_whom_and_what_is_left_if_more_collude(
    curator: Curator, tmp_path: Path, mechanism: str, one_more: str | None, all_others: str | None
) -> None:
    federation = make_masked_federation(curator, tmp_path, mechanism=mechanism)
    code, document = federation.sites[0].run("review", federation.study.name)
    assert code == 0
    said = document["aggregate"]
    assert (said["quorum"], said["colluders"], said["honest"]) == (3, 1, 2)
    assert said["openers"] == list(federation.terms.openers)
    assert (said["epsilon_one_more"], said["epsilon_all_others"]) == (one_more, all_others)


def _open(
    site: OwnerSite, federation: MaskedFederation, *options: str
) -> tuple[int, dict[str, object]]:
    return site.run("open", federation.study.name, *options)


def _opened(federation: MaskedFederation) -> None:
    federation.contribute()
    for site in federation.openers:
        code, document = _open(site, federation)
        assert code == 0, document


def _require_stoppable(site: OwnerSite, federation: MaskedFederation) -> None:
    """Nothing is destroyed or sent where that is not agreed to."""
    asked: list[SealedSet | None] = []

    def refuse(shown: SealedSet | None) -> None:
        asked.append(shown)
        raise ConsentError("stopped")

    before, state, name = site.entries, federation.state(), federation.study.name
    with pytest.raises(ConsentError, match="stopped"):
        open_sum(load_site(site.folder), name, digest=None, wait_s=0.0, agree_to=refuse)
    assert asked == [None]
    assert (site.entries, federation.state()) == (before, state)


def test_a_sum_is_not_sent_again_after_a_stop(federation: MaskedFederation) -> None:
    federation.contribute()
    site, other = federation.openers
    assert _open(other, federation)[0] == 0
    site.run("open", federation.study.name, die_at="open")
    _require_stoppable(site, federation)
    assert federation.state() == "sealed"


def test_an_aborted_study_takes_the_key_with_it_but_not_after_a_stop(
    curator: Curator, federation: MaskedFederation
) -> None:
    site = federation.openers[0]
    federation.contribute(site)
    curator.operator().abort(federation.study.name)
    _require_stoppable(site, federation)
    assert len(site.opener_keys) == 1
    code, message = error_of(_open(site, federation))
    assert (code, "destroyed" in message) == (STATE, True)
    assert site.opener_keys == ()


def test_two_openers_finish_a_study_and_their_keys_are_gone(federation: MaskedFederation) -> None:
    *others, last = federation.sites
    federation.contribute(*others)
    first, second = federation.openers
    code, message = error_of(_open(first, federation, "--wait", "1"))
    assert (code, last.name in message, len(first.opener_keys)) == (NOT_READY, True, 1)
    federation.contribute(last)
    assert federation.state() == "sealed"
    assert error_of(_open(first, federation, "--digest", "0" * 64))[0] == MISMATCH
    code, document = _open(first, federation, "--digest", federation.study.digest)
    assert (code, document["owners"], document["state"]) == (0, 3, "sealed")
    assert error_of(_open(federation.sites[-1], federation))[0] == PERMISSION
    opened = first.history
    code, again = _open(first, federation)
    assert (code, again["already_stored"], again["streams"]) == (0, True, [])
    code, message = error_of(federation.sites[-1].run("components", federation.study.name))
    assert code == NOT_READY
    assert f"still waits for its openers ({second.name}):" in message
    assert len(document["streams"]) == 1  # type: ignore[arg-type]
    code, document = _open(second, federation)
    assert (code, document["owners"]) == (0, 3)
    assert federation.end() == "decomposed"
    for site in federation.openers:
        assert site.opener_keys == ()
        assert site.entries == ["offer", "reserve", "commit", "sent", "open", "opened"]
        assert len(site.history.charges) == 1
    code, again = _open(first, federation)
    assert (code, again["state"], again["owners"]) == (0, "decomposed", 3)
    assert first.history == opened
    code, found = federation.sites[-1].run("components", federation.study.name)
    assert (code, found["contributed"]) == (0, sorted(each.name for each in federation.sites))


def test_an_opener_whose_ledger_was_lost_opens_nothing(federation: MaskedFederation) -> None:
    federation.contribute(*federation.sites[1:])
    site = federation.openers[0]
    for name in ("ledger.sqlite", "ledger.mark", "ledger.mark2"):
        (site.folder / name).unlink(missing_ok=True)
    assert site.run("ledger", "recover", "--yes")[0] == 0
    federation.contribute(site)
    code, message = error_of(_open(site, federation))
    assert code == REFUSED
    assert "ledger does not contain the opener key" in message
    assert federation.state() == "sealed"


def test_an_opener_that_took_no_part_opens_once_it_has_verified_the_keys(
    movable: Curator, tmp_path: Path
) -> None:
    federation = make_masked_federation(movable, tmp_path, 4, quorum=3, deadline=far_moment())
    first, second = federation.openers
    federation.contribute(second, *federation.sites[2:])
    assert error_of(_open(first, federation))[0] == SETTING
    movable.move_clock()
    code, document = _open(first, federation, "--digest", federation.study.digest, "--wait", "300")
    assert (code, document["owners"]) == (0, 3)
    assert first.history.charges == ()
    assert _open(second, federation)[0] == 0
    assert federation.end() == "decomposed"


def test_identity_gives_the_same_key_until_it_was_used(federation: MaskedFederation) -> None:
    site, name = federation.openers[0], federation.study.name
    first = identity_of(site, name, opener=True)
    assert first["opener"]["key_id"] == next(iter(site.history.openers))
    assert identity_of(site, name, opener=True) == first
    assert (
        identity_of(site, "another-study", opener=True)["opener"]["key"] != first["opener"]["key"]
    )
    _opened(federation)
    again = identity_of(site, name, opener=True)
    assert again["opener"]["key"] != first["opener"]["key"]
    assert site.opener_keys == tuple(
        sorted(key_id for key_id, record in site.history.openers.items() if record.opening is None)
    )


@pytest.mark.parametrize("gone", [0, 3])
def test_with_a_spare_any_one_opener_may_be_gone(
    curator: Curator, tmp_path: Path, gone: int
) -> None:
    federation = make_masked_federation(curator, tmp_path, 4, n_openers=4, spares=1)
    federation.contribute()
    there = [site for place, site in enumerate(federation.openers) if place != gone]
    for site in there[:2]:
        code, message = error_of(_open(site, federation))
        assert code == NOT_READY
        assert federation.openers[gone].name in message
        assert len(site.opener_keys) == 1
    for site in (there[2], *there[:2]):
        code, document = _open(site, federation)
        assert code == 0, document
        assert site.opener_keys == ()
    assert federation.end() == "decomposed"
    late = federation.openers[gone]
    code, document = _open(late, federation)
    assert (code, document["owners"], document["state"]) == (0, None, "decomposed")
    assert late.opener_keys == ()


def _findings(site: OwnerSite, area: str) -> list[tuple[str, str]]:
    _, document = site.run("doctor")
    assert document is not None
    return [
        (each["state"], each["message"]) for each in document["findings"] if each["area"] == area
    ]


def test_doctor_says_what_waits_for_an_opener_and_when_it_cannot_open(
    federation: MaskedFederation,
) -> None:
    first, second = federation.openers
    assert _findings(first, "opener") == []
    assert [state for state, _ in _findings(first, "ledger")] == ["ok"], "none is charged yet"
    federation.contribute()
    ((state, message),) = _findings(first, "opener")
    assert (state, f"dppca-owner open {federation.study.name}" in message) == ("warning", True)
    (key_id,) = second.opener_keys
    (second.folder / "openers" / f"{key_id}.key").unlink()
    ((state, message),) = _findings(second, "opener")
    assert (state, "not here any more" in message) == ("broken", True)
    code, message = error_of(_open(second, federation))
    assert (code, "Tell the operator" in message) == (REFUSED, True)
    assert _open(first, federation)[0] == 0
    assert _findings(first, "opener") == []
    (first.folder / "peers.yaml").write_text("peers: {owner-1: no-key}")
    ((state, _),) = _findings(first, "peers")
    assert state == "broken"


Change = Callable[["Done", dict[str, Any]], None]


@dataclass(frozen=True)
class Done:
    """A study that was carried out; the first site's components."""

    federation: MaskedFederation
    components: Path
    folder: Path

    @property
    def claims(self) -> dict[str, Any]:
        return unchecked_predicate(read_envelope(self.components))

    def verify(self, path: Path, *options: str) -> Any:
        """What the operator's command says, or the error it ends with."""
        ca = self.folder / "ca.pem"
        ca.write_bytes(self.federation.curator.authority.pem)
        arguments = ["verify", str(path), "--ca", str(ca), "--json", *options]
        ended = CliRunner().invoke(cli, arguments, standalone_mode=False)
        return ended.exception or json.loads(ended.output)

    def forge(self, change: Change) -> Path:
        """The result with other claims, which a curator of the authority signs."""
        document = self.claims
        change(self, document)
        curator = make_signer(self.federation.curator.authority.issue(Role.CURATOR, "liar"))
        path, content = self.folder / "forged.npz", self.components.read_bytes()
        sign_again(path, curator, content, Claim.COMPONENTS, document)
        return path


@pytest.fixture(scope="module")
def done(curator: Curator, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """Five owners with a quorum of four; four are openers, of whom one never comes back."""
    folder = tmp_path_factory.mktemp("sites")
    federation = make_masked_federation(curator, folder, 5, n_openers=4, spares=1)
    federation.contribute()
    name, openers = federation.study.name, federation.openers[:3]
    for opener in openers:
        code, document = opener.run("open", name)
        assert code in (0, 50), document
    for opener in openers:
        code, document = opener.run("open", name, "--wait", "300")
        assert code == 0, document
    for site in federation.sites:
        code, document = site.run("components", name, "--wait", "300")
        assert code == 0, document
    return Done(federation, openers[0].folder / "studies" / name / "components.npz", folder)


def test_what_every_site_keeps_proves_the_sum_and_who_opened_it(done: Done) -> None:
    study, came = done.federation.study, {site.name for site in done.federation.openers[:3]}
    for site in done.federation.sites:
        kept = site.folder / "studies" / study.name / "components.npz"
        assert kept.read_bytes() == done.components.read_bytes()
        code, report = site.run("verify", str(kept))
        assert code == 0, report
        assert set(report["opened_by"]) <= came
        assert report["added_up"] is False
        assert [each["owner"] for each in report["acknowledged"]] == [site.name]
    mechanism = report["mechanism"]
    assert (mechanism["trust"], mechanism["colluders"], mechanism["honest"]) == ("aggregate", 1, 4)
    told = " ".join(report["guarantee"]["assumptions"])
    assert "any other owner" in told
    assert "computational" in told


def test_who_holds_the_curators_files_adds_them_up(done: Done, tmp_path: Path) -> None:
    blobs = done.federation.curator.state / "blobs"
    assert done.verify(done.components, "--uploads", str(blobs))["added_up"] is True
    copy = tmp_path / "blobs"
    shutil.copytree(blobs, copy)
    receipt = done.claims
    upload = copy / releases_in(receipt)[4].receipt.claims.payload_sha256
    total = copy / receipt["sum"]["openings"][0]["total_sha256"]
    for path in (upload, total):
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        assert isinstance(done.verify(done.components, "--uploads", str(copy)), AlteredError)
        path.unlink()
        assert isinstance(done.verify(done.components, "--uploads", str(copy)), SettingError)
        path.write_bytes(content)
    assert done.verify(done.components, "--uploads", str(copy))["added_up"] is True


def test_rows_drawn_from_a_sum_carry_its_proof(done: Done) -> None:
    site, name = done.federation.sites[0], done.federation.study.name
    code, made = site.run("synthesize", name, "--rows", "50")
    assert code == 0, made
    table = next((site.folder / "studies" / name).rglob("*decoded*.parquet"))
    report = done.verify(table)
    assert report["mechanism"]["trust"] == "aggregate"
    assert report["opened_by"]


def _drop_sum(done: Done, document: dict[str, Any]) -> None:
    del document["sum"]


def _fewer_votes(done: Done, document: dict[str, Any]) -> None:
    document["sum"]["votes"].pop()


def _stream_not_opened(done: Done, document: dict[str, Any]) -> None:
    document["sum"]["openings"].pop()


def _smaller_set(done: Done, document: dict[str, Any]) -> None:
    """The lie of a curator that left an owner out after the openings."""
    left_out = document["releases"].pop()
    document["owners"] -= 1
    document["rows"] -= releases_in({"releases": [left_out]})[0].receipt.n_rows
    document["missing"] = [left_out["owner"]]
    del document["sum"]["statements"][left_out["owner"]]


def _more_honest(done: Done, document: dict[str, Any]) -> None:
    document["mechanism"]["honest"] = 5


def _smaller_epsilon(done: Done, document: dict[str, Any]) -> None:
    document["guarantee"]["epsilon"] = "0.5"


def _without_the_assumption(done: Done, document: dict[str, Any]) -> None:
    del document["guarantee"]["assumptions"][-1]


def _own_total(done: Done, document: dict[str, Any]) -> None:
    document["sum"]["openings"][0]["total_sha256"] = "00" * 32


def _sock_puppet(done: Done, document: dict[str, Any]) -> None:
    """The authority certifies another key for an owner, and signs in its name."""
    release = document["releases"][0]
    puppet = done.federation.curator.authority.issue(Role.OWNER, release["owner"])
    receipt = unchecked_predicate(canonical_json(release["envelope"]))
    release["envelope"] = json.loads(sign_document(receipt, make_signer(puppet)))


def _changed_study(done: Done, document: dict[str, Any]) -> None:
    """A document with fewer colluders than the owners agreed on."""
    document["study"]["privacy"]["colluders"] = 2
    document["study_digest"] = hashlib.sha256(canonical_json(document["study"])).hexdigest()


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (_drop_sum, ReceiptError, "lacks a field"),
        (_fewer_votes, ReceiptError, "3 must have voted"),
        (_stream_not_opened, ReceiptError, "every stream of masks opened once"),
        (_smaller_set, ReceiptError, "needs 5"),
        (_more_honest, ReceiptError, "mechanism.honest"),
        (_smaller_epsilon, ReceiptError, "guarantee.epsilon"),
        (_without_the_assumption, ReceiptError, "guarantee.assumptions"),
        (_own_total, SignatureError, "opening of"),
        (_sock_puppet, SignatureError, "another key than the study names"),
        (_changed_study, (ReceiptError, AlteredError), "receipt"),
    ],
)
def test_what_a_lying_curator_signs_does_not_verify(
    done: Done, change: Change, error: type[Exception], says: str
) -> None:
    assert done.verify(done.forge(lambda *_: None))["opened_by"]
    found = done.verify(done.forge(change))
    assert isinstance(found, error), found
    assert says in str(found)
