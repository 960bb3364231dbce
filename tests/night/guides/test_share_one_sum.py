"""The commands of ``docs/how-to/share-one-sum.md``, run as they stand there."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from dppca.common.transport.testbed import OWNER, LocalFederation, Processes
from dppca.curator.certificates.local import make_authority
from tests.support.browser import agree, look_at_review, require_told, serve_page, watched
from tests.support.checkout import ROOT
from tests.support.page_shell import PageShell, read_blocks

PAGE = ROOT / "docs/how-to/share-one-sum.md"
OWNERS = ("hospital-a", "hospital-b", "clinic-c")
POLICY = re.search(r"```yaml\n(populations:.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[PageShell]:
    """Three sites in one folder, a curator, and its operator at the shell."""
    with Processes() as live:
        federation = LocalFederation(live, tmp_path, make_authority(tmp_path / "authority"))
        federation.start()
        assert POLICY is not None
        for name in OWNERS:
            federation.join(name)
            site = federation.site(name)
            (site / "policy.yaml").write_text(POLICY[1])
            rows = "".join(f"{20 + n % 70},{'yes' if n % 3 else 'no'},no\n" for n in range(200))
            (site / "patients.csv").write_text("age,smoker,high\n" + rows)
            (tmp_path / name).symlink_to(site)
        shell = PageShell(tmp_path, read_blocks(PAGE))
        shell.variables |= {
            "DPPCA_CURATOR": federation.address,
            "DPPCA_CREDENTIALS": str(federation.operator),
        }
        yield shell


def test_two_stewards_and_an_operator_carry_it_through(shell: PageShell) -> None:
    shell.run("draft")
    shell.run("identity")
    created = shell.run("create")
    digest = re.search(r"Digest: ([0-9a-f]{64})", created)
    assert digest is not None
    assert digest[1] in shell.run("review")
    shell.variables["DIGEST"] = digest[1]
    shell.run("contribute")
    shell.run("open")
    keys = [*(shell.folder / "hospital-a" / "openers").glob("*.key")]
    assert keys == []
    assert "result ready" in shell.run("components")


def test_on_a_page_a_steward_needs_the_digest_of_another_one(
    shell: PageShell, browser: Browser, live: Processes
) -> None:
    shell.run("draft")
    shell.run("identity")
    digest = re.search(r"Digest: ([0-9a-f]{64})", shell.run("create"))
    assert digest is not None
    with watched(browser) as seen:
        page = seen.page
        page.goto(serve_page(live, OWNER, ["--site", shell.folder / OWNERS[0], "page"]).address)
        study = page.locator(".list a").first.text_content() or ""
        page.get_by_role("link", name=study).click()

        look_at_review(page)
        for given in ("", "0" * 63, "0" * 64):
            page.get_by_label("Digest of the study").fill(given)
            agree(page)
            expect(page.get_by_role("alert")).to_contain_text("Nothing was drawn")
            expect(page.get_by_label("Digest of the study")).to_have_value(given)
            require_told(page)
        page.get_by_label("Digest of the study").fill(digest[1])
        agree(page)
        page.get_by_text("ε 1 was charged, once").wait_for()
        seen.require_quiet_but("422 (Unprocessable Entity)")
