"""What is left to do in a study whose contribution the ledger has recovered or disowned."""

import shutil
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from click.testing import CliRunner

from dppca.common.kernel.attestation.contributions import read_acknowledgement
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.identity.revoked import RevocationList
from dppca.common.kernel.identity.tls import Role, parse_certificate
from dppca.common.kernel.study import Study
from dppca.owner.cli import cli
from tests.support.census import make_release
from tests.support.curator import Curator
from tests.support.party import Party
from tests.support.sites import OwnerSite, error_of, make_enrolled_site

ARTEFACT, SIGNATURE, STATE, CHAIN = 15, 17, 44, 48
RECOVER = ("ledger", "recover", "--data-set", "survey", "--yes")
WHY = "Key stolen on 3 May."


@pytest.fixture(scope="module")
def operator(curator: Curator) -> Party:
    return curator.operator()


@pytest.fixture
def site(curator: Curator, tmp_path: Path) -> OwnerSite:
    return make_enrolled_site(curator, tmp_path, budget='epsilon: "2.0", delta: "0"')


@pytest.fixture
def study(curator: Curator, site: OwnerSite) -> Study:
    """A study of this owner alone: it has a result with the first contribution."""
    return curator.begin(site.name, epsilon="0.5")


def _components(site: OwnerSite, study: Study) -> tuple[int, Any]:
    return site.run("components", study.name, "--wait", "300")


def _contribute_and_lose(site: OwnerSite, study: Study, *, folder: bool) -> None:
    assert site.contribute(study)[0] == 0
    for name in ("ledger.sqlite", "ledger.mark", "ledger.mark2"):
        (site.folder / name).unlink()
    if folder:
        shutil.rmtree(site.folder / "studies")


def test_a_recovered_contribution_has_all_that_comes_after_one(
    site: OwnerSite, study: Study
) -> None:
    _contribute_and_lose(site, study, folder=False)
    assert site.contribute(study)[0] == CHAIN
    code, said = error_of(site.run("components", study.name, "--wait", "300"))
    assert code == ARTEFACT
    assert "ledger recover" in said
    assert site.run(*RECOVER)[0] == 0

    code, found = _components(site, study)
    assert code == 0, found
    assert (found["contributed"], found["disowned"]) == ([site.name], None)
    assert site.run("synthesize", study.name)[0] == 0
    ask = ("--target", "sex", "--method", "dp-svm", "--epsilon", "0.5", "--yes")
    assert site.run("train", study.name, *ask)[0] == 0
    assert site.run("report", study.name)[0] == 0

    code, said = error_of(site.contribute(study))
    assert code == STATE
    assert f"has contributed to study {study.name}" in said
    assert "nothing was drawn or charged" in said
    assert site.history.total("survey").epsilon == Decimal("1.0")
    code, budget = site.run("budget")
    assert budget["populations"][0]["spent"] == "1"
    assert {each["state"] for each in budget["releases"]} >= {"recovered"}
    code, doctor = site.run("doctor")
    assert code == 0
    (ledger,) = (each for each in doctor["findings"] if each["area"] == "ledger")
    assert "recovered: 1" in ledger["message"]


def test_the_acknowledgement_of_what_was_recovered_is_had_again(
    curator: Curator, site: OwnerSite, study: Study
) -> None:
    _contribute_and_lose(site, study, folder=True)
    code, done = site.run(*RECOVER)
    assert code == 0
    (kept,) = map(Path, done["acknowledgements"])
    taken, _ = read_acknowledgement(kept.read_bytes(), KnownParties(curator.authority.pem))
    (recovered,) = site.history.recoveries.values()
    assert (taken.release_id, taken.payload_sha256) == (
        recovered.release_id.hex(),
        recovered.payload_sha256,
    )
    assert _components(site, study)[0] == 0
    result = site.folder / "studies" / study.name / "components.npz"
    code, said = site.run("verify", str(result), "--acknowledgement", str(kept))
    assert code == 0, said
    signed = kept.read_bytes()
    kept.unlink()
    assert site.run("ledger", "recover")[0] == 0, "the same command again brings it back"
    assert kept.read_bytes() == signed


def test_a_study_with_a_disowned_contribution_is_fetched_and_says_so(
    curator: Curator, site: OwnerSite, study: Study
) -> None:
    stolen = curator.authority.issue(Role.OWNER, site.name)
    curator.connect(stolen).contribute(make_release(study), ledger_length=5)
    code, said = error_of(site.run("components", study.name, "--wait", "300"))
    assert code == ARTEFACT
    assert f"--disown {study.name}" in said
    disown = ("ledger", "recover", "--disown", study.name, "--reason", WHY, "--yes")
    assert site.run(*disown)[0] == 0

    code, found = _components(site, study)
    assert (code, found["disowned"]) == (0, WHY)
    line = ["--site", str(site.folder), "components", study.name]
    printed = CliRunner().invoke(cli, line, catch_exceptions=False).output
    assert "NOT FROM THIS SITE" in printed
    assert WHY in printed
    assert site.run("synthesize", study.name)[0] == 0
    assert site.history.total("survey").epsilon == 0
    code, said = error_of(site.contribute(study))
    assert code == STATE
    assert "make a new one" in said
    code, doctor = site.run("doctor")
    assert any("disowned: 1" in each["message"] for each in doctor["findings"])

    serial = parse_certificate(stolen.certificate).serial_number
    revoked = RevocationList(1, {serial: datetime(2026, 5, 3, tzinfo=UTC)})
    with mock.patch("dppca.owner.commands.components.read_revoked", return_value=revoked):
        code, said = error_of(site.run("components", study.name))
    assert code == SIGNATURE
    assert "was revoked on 2026-05-03" in said
