"""A masked sum from the owners' rows to files that anybody can check, by the parties' commands."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dppca.common.attestation.envelopes import Claim, read_envelope, unchecked_predicate
from dppca.common.attestation.signatures import make_signer
from dppca.common.errors import AlteredError, ReceiptError, SettingError, SignatureError
from dppca.common.schema.document import canonical_json
from dppca.common.transport.tls import Role
from dppca.curator.cli import cli
from tests.support.census import sign_document
from tests.support.curator import Curator
from tests.support.envelopes import releases_in, sign_again
from tests.support.federations import MaskedFederation, make_masked_federation

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
