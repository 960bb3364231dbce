"""All that a steward does for one sum is done on the page, without a command."""

from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Page, expect

from dppca.common.analysis.study_file import study_from_yaml
from dppca.curator.cli import cli
from tests.support.browser import OpenSite, agree, require_accessible, require_told
from tests.support.commands import answer_of
from tests.support.curator import Curator
from tests.support.federations import MASKED
from tests.support.sites import OwnerSite, make_enrolled_site
from tests.support.studies import study_document

NAME = "pressure"
PEOPLE = [
    {"name": "age", "type": "numeric", "lower": 17, "upper": 90},
    {"name": "sex", "type": "binary", "values": ["Female", "Male"]},
    {"name": "work", "type": "categorical", "categories": ["private", "state", "other"]},
]


def _give_key(page: Page, folder: Path, *, opener: bool) -> Path:
    """Give a site's key on its page; return the file for the operator."""
    page.get_by_role("link", name="Keys").click()
    page.get_by_label("Name of the study").fill(NAME)
    if opener:
        page.get_by_label("will also be an opener").check()
    page.get_by_role("button", name="Give the key").click()
    with page.expect_download() as given:
        page.get_by_role("link", name="Download").click()
    path = folder / given.value.suggested_filename
    given.value.save_as(path)
    assert path.read_text().strip() == (page.locator("pre").text_content() or "").strip()
    return path


def _create(curator: Curator, folder: Path, sites: list[OwnerSite], files: list[Path]) -> str:
    """Make the study of a draft and the sites' files, like an operator; return its digest."""
    document = study_document(
        PEOPLE,
        name=NAME,
        owners=[site.name for site in sites],
        mechanism="gaussian",
        delta="1e-6",
        trust="aggregate",
        colluders=1,
        open_by="2100-01-01T00:00:00+00:00",
    )
    draft, made = folder / "draft.yaml", folder / "study.yaml"
    draft.write_text(yaml.safe_dump(document))
    line = ("study", "assemble", str(draft), *map(str, files), "--output", str(made))
    assert answer_of("dppca-curator", cli, *line)[0] == 0
    assert curator.operate("study", "create", made, "--yes")[0] == 0
    return study_from_yaml(made.read_text()).digest


def test_three_stewards_give_keys_compare_contribute_open_and_fetch_on_their_pages(
    curator: Curator, tmp_path: Path, open_site: OpenSite
) -> None:
    sites = [make_enrolled_site(curator, tmp_path, **MASKED) for _ in range(3)]
    with ExitStack() as stack:
        opened = [stack.enter_context(open_site(site)) for site in sites]
        pages = [seen.page for seen, _ in opened]
        files = [_give_key(page, tmp_path, opener=page is not pages[2]) for page in pages]
        require_accessible(pages[0])
        digest = _create(curator, tmp_path, sites, files)
        for page in pages:
            page.get_by_role("link", name="Studies").click()
            page.get_by_role("link", name=NAME).click()
            expect(page.locator("[aria-current=step]")).to_contain_text("Compare the digest")
            assert page.locator("code.digest").text_content() == digest
            require_accessible(page)
            page.get_by_role("link", name="Review what would leave").click()
            grouped = " ".join(digest[place : place + 8] for place in range(0, 64, 8))
            page.get_by_label("Digest of the study").fill(grouped)
            agree(page)
            expect(page.get_by_text("ε 1 was charged, once")).to_be_visible()
        for page in pages[:2]:
            expect(page.locator("[aria-current=step]")).to_contain_text("Open")
            page.get_by_role("link", name="Look at what would be opened").click()
            agree(page, "Open this")
        for page in pages:
            page.get_by_role("button", name="Fetch the components").click()
            expect(page.get_by_text("Largest loadings of component 1")).to_be_attached()
        for seen, _ in opened:
            seen.require_quiet()
    for site in sites:
        assert len(site.history.charges) == 1
        assert not site.opener_keys


def test_a_name_that_no_study_can_have_makes_no_key(site: OwnerSite, open_site: OpenSite) -> None:
    with open_site(site) as (seen, _):
        page = seen.page
        page.get_by_role("link", name="Keys").click()
        require_accessible(page)
        page.get_by_label("Name of the study").fill("../other")
        page.get_by_label("will also be an opener").check()
        page.get_by_role("button", name="Give the key").click()
        expect(page.get_by_role("alert")).to_contain_text("No key was made")
        expect(page.get_by_label("Name of the study")).to_have_value("../other")
        require_told(page)
        seen.require_quiet_but("422 (Unprocessable Entity)")
    assert not site.opener_keys


@pytest.mark.parametrize("opener", [True, False])
def test_to_look_at_given_keys_makes_none(
    site: OwnerSite, open_site: OpenSite, opener: bool
) -> None:
    with open_site(site) as (seen, _):
        page = seen.page
        if opener:
            assert site.run("identity", NAME, "--opener")[0] == 0
        keys = site.opener_keys
        place = page.url
        for _ in range(2):
            page.goto(f"{place}keys/{NAME}")
            assert ("openers:" in page.inner_text("pre")) == opener
        assert site.opener_keys == keys
