"""Released files, checked by a reader: with our verifier, and with OpenSSL and Python alone."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from dppca.common.kernel.attestation.envelopes import SUFFIX
from tests.support.checkout import ROOT
from tests.support.page_shell import PageShell, check_by_hand, read_blocks
from tests.support.sites import ProvedSite, make_proved_site


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a reader has a released file of each kind, its envelope, and the authority."""
    made: ProvedSite = make_proved_site(tmp_path_factory.mktemp("site"))
    assert made.site.run("synthesize", "site-test", "--rows", "20")[0] == 0
    there = tmp_path_factory.mktemp("reader")
    for path in made.components.parent.iterdir():
        shutil.copy(path, there)
    (there / "ca.pem").write_bytes(made.ca)
    return there


GIVEN = ROOT / "docs/how-to/check-what-you-were-given.md"


def test_a_reader_verifies_files_as_the_page_says(folder: Path) -> None:
    printed = PageShell(folder, read_blocks(GIVEN)).run("verify")
    assert printed.startswith("VERIFIED: components")
    assert json.loads(printed.splitlines()[-1])["authority"]["name"] == "test authority"


@pytest.mark.parametrize(
    ("name", "signer"),
    [
        ("components.npz", "URI:urn:dppca:curator:hub"),
        ("synthetic-decoded.parquet", "URI:urn:dppca:owner:owner-1"),
    ],
)
def test_a_tool_that_knows_nothing_of_us_finds_the_signature_good(
    folder: Path, name: str, signer: str
) -> None:
    _, verified, certified, names = check_by_hand(folder, name)
    assert "Verified OK" in verified
    assert "certificate.pem: OK" in certified
    assert signer in names


def test_it_finds_a_changed_statement_and_the_page_a_changed_file(folder: Path) -> None:
    check_by_hand(folder, "components.npz")
    (folder / "signed").write_bytes((folder / "signed").read_bytes() + b" ")
    line = "openssl dgst -sha256 -verify key.pem -signature signature signed"
    ran = subprocess.run(line.split(), cwd=folder, capture_output=True, text=True)
    assert ran.returncode != 0
    for end in ("", SUFFIX):
        shutil.copy(folder / f"components.npz{end}", folder / f"changed.npz{end}")
    (folder / "changed.npz").write_bytes(b"changed")
    with pytest.raises(subprocess.CalledProcessError):
        check_by_hand(folder, "changed.npz")
