"""Tables of every command that prints one fit into a terminal of 60 columns, and into one of 40."""

from __future__ import annotations

from pathlib import Path

import pytest

from dppca.common.transport.tls import Role
from tests.support.certificates import write_credentials
from tests.support.curator import Curator
from tests.support.federations import MaskedHub
from tests.support.sites import OwnerSite, make_trained_site
from tests.support.terminal import run_on_terminal, wider_than

WIDTHS = (60, 40)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> OwnerSite:
    folder = tmp_path_factory.mktemp("site")
    site = make_trained_site(folder, budget='epsilon: "10", delta: "1e-6"')[0]
    assert site.run("synthesize", "site-test", "--rows", "200")[0] == 0
    line = "train site-test --target ill --method dp-svm --epsilon 0.5 --delta 1e-9 --C 0.02 --yes"
    assert site.run(*line.split())[0] == 0
    return site


@pytest.mark.parametrize("width", WIDTHS)
def test_budgets_fit(site: OwnerSite, width: int) -> None:
    owner = ("dppca.owner.cli", "--site", site.folder, "budget")
    lines = run_on_terminal(*owner, width=width)
    assert "dp-svm" in " ".join(lines)
    assert wider_than(lines[1:], width) == []

    further = ("plan", "--epsilon", "0.25", "--delta", "1e-9", "--times", "3")
    text, *table = run_on_terminal(*owner, *further, width=width)
    assert "is left" in text
    assert " times" in " ".join(table)
    assert wider_than(table, width) == []


def test_lists_of_a_curator_fit(curator: Curator, tmp_path: Path) -> None:
    sites = MaskedHub(curator).join(4, 4, spares=1, name="masked")
    sites.contribute()
    sites.until_sealed()
    sites.openers[0].vote()
    operator = write_credentials(
        tmp_path / "alice", curator.authority.issue(Role.OPERATOR, "alice")
    )
    connection = ("--curator", curator.address, "--credentials", operator)
    for width in WIDTHS:
        listed = run_on_terminal("dppca.curator.cli", "study", "list", *connection, width=width)
        assert "masked" in " ".join(listed)
        assert wider_than(listed, width) == []

        shown = run_on_terminal(
            "dppca.curator.cli", "study", "show", "masked", *connection, width=width
        )
        table = shown[[line.startswith("owner") for line in shown].index(True) :]
        assert "voted" in " ".join(table)
        assert wider_than(table, width) == []

        owner = ("owner", "show", "owner-1", *connection)
        _, *contributions = run_on_terminal("dppca.curator.cli", *owner, width=width)
        assert "masked" in " ".join(contributions)
        assert wider_than(contributions, width) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_certificates_fit(tmp_path: Path, width: int) -> None:
    pki = ("dppca.curator.cli", "pki")
    run_on_terminal(*pki, "init", "--directory", tmp_path / "ca", width=width)
    issue = ("issue", "--directory", tmp_path / "ca", "--role", "operator")
    named = ("--name", "alice-of-the-hub", "--output", tmp_path / "alice")
    run_on_terminal(*pki, *issue, *named, width=width)
    lines = run_on_terminal(*pki, "list", "--directory", tmp_path / "ca", width=width)
    assert "alice-of-the-hub" in " ".join(lines)
    assert wider_than(lines, width) == []
