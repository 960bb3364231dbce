"""Files that earlier versions wrote, and this one: read as they were, and gone on with."""

import json
import shutil
from pathlib import Path

import pyarrow.csv
import pytest
import yaml

from dppca.common.kernel.identity.tls import Role
from dppca.curator.cli import cli as curator_cli
from tests.golden.make_edition import EDITIONS, read_edition
from tests.support.census import census_rows
from tests.support.certificates import write_credentials
from tests.support.commands import answer_of
from tests.support.curator import Curator
from tests.support.sites import OwnerSite


@pytest.mark.parametrize("edition", sorted(EDITIONS.iterdir()), ids=lambda each: each.name)
def test_this_version_reads_what_an_edition_holds(edition: Path, tmp_path: Path) -> None:
    assert read_edition(edition, tmp_path) == json.loads((edition / "facts.json").read_text())


def test_an_edition_holds_no_private_key() -> None:
    for path in EDITIONS.rglob("*"):
        assert path.is_dir() or b"PRIVATE KEY" not in path.read_bytes(), path


@pytest.mark.parametrize("edition", sorted(EDITIONS.iterdir()), ids=lambda each: each.name)
def test_a_site_and_a_curator_of_an_edition_go_on_with_todays_commands(
    edition: Path, tmp_path: Path
) -> None:
    """An edition holds no keys: both have new certificates of a new authority."""
    curator = Curator(tmp_path / "hub")
    restored = ("restore", edition / "backup", "--state", curator.state)
    assert answer_of("dppca-curator", curator_cli, *restored)[0] == 0
    site = OwnerSite(Path(shutil.copytree(edition / "site", tmp_path / "site")), "north")
    write_credentials(site.folder, curator.authority.issue(Role.OWNER, "north"))
    pyarrow.csv.write_csv(census_rows(300), site.folder / "north.csv")
    curator.start()
    try:
        settings = yaml.safe_load((site.folder / "site.yaml").read_text())
        settings["curator"] = curator.address
        (site.folder / "site.yaml").write_text(yaml.safe_dump(settings))
        charged, entries = site.history.length, site.entries
        study = curator.begin("north", quorum=1, deadline="2040-01-01T00:00:00Z")
        code, refused = site.contribute(study)
        assert (code, site.entries) == (48, entries), refused
        assert site.run("ledger", "recover", "--yes")[0] == 0
        code, sent = site.contribute(study)
        assert (code, sent.get("already_stored")) == (0, False), sent
        assert site.entries[: len(entries)] == entries
        assert site.history.length > charged
        releases = json.loads((edition / "facts.json").read_text())["ledger"]["releases"]
        assert len(site.run("budget", "verify")[1]["releases"]) == len(releases) + 1
        listed = {each["name"]: each for each in site.run("studies")[1]["studies"]}
        assert {name for name, each in listed.items() if each["contributed"]} == {
            "edition",
            "edition-second",
            study.name,
        }
        assert site.contribute(study)[1]["already_stored"] is True
    finally:
        curator.stop()
