"""What a shell offers when Tab is pressed for a study's name."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from dppca.common.transport.tls import Role
from dppca.curator.cli import cli as curator_cli
from dppca.owner.cli import cli as owner_cli
from tests.support.certificates import write_credentials
from tests.support.curator import Curator
from tests.support.sites import OwnerSite


def offer(group: click.Command, *line: str, begun: str = "") -> list[str]:
    shell = ShellComplete(group, {}, "command", "_COMMAND_COMPLETE")
    return [each.value for each in shell.get_completions(list(line), begun)]


def begin(curator: Curator, site: OwnerSite, *names: str) -> None:
    for name in names:
        curator.begin(site.name, name=name)


def test_a_steward_is_offered_the_curators_studies_that_name_the_site(
    curator: Curator, site: OwnerSite, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(curator, site, "heart", "hearing", "lungs")
    line = ("--site", str(site.folder), "review")
    assert offer(owner_cli, *line, begun="hea") == ["hearing", "heart"]
    assert "lungs" in offer(owner_cli, *line)
    assert offer(owner_cli, "--site", str(site.folder), "check", begun="l") == ["lungs"]
    assert capsys.readouterr() == ("", "")


def test_without_the_curator_those_that_the_site_keeps_are_offered(
    curator: Curator, site: OwnerSite, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(curator, site, "kept", "unseen")
    assert site.run("review", "kept")[0] == 0
    certificate = site.folder / "certificate.pem"
    certificate.rename(site.folder / "elsewhere.pem")
    assert offer(owner_cli, "--site", str(site.folder), "components") == ["kept"]
    assert offer(owner_cli, "--site", "/no/such/site", "components") == []
    assert capsys.readouterr() == ("", "")


def test_an_operator_is_offered_all_studies(
    curator: Curator, site: OwnerSite, tmp_path: Path
) -> None:
    begin(curator, site, "sleep")
    folder = write_credentials(tmp_path / "olga", curator.authority.issue(Role.OPERATOR, "olga"))
    line = ("study", "show", "--curator", curator.address, "--credentials", str(folder))
    assert offer(curator_cli, *line, begun="sle") == ["sleep"]
    assert offer(curator_cli, "study", "show") == []
