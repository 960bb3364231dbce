"""The pictures in README and index show the two pages as they are now.

``make pictures`` takes them again: `docs/pictures/steward.png`, on which a steward is asked to
consent, and `operator.png`, on which an operator sees who has come. Digits and dates differ from
run to run, so the tolerance is that of charts.
"""

import os
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser

from dppca.common.kernel.identity.tls import Role
from dppca.common.transport.testbed import CURATOR, OWNER, Processes
from tests.night.pictures.test_page_pictures import CHARTS, differences, small
from tests.support.browser import look_at_review, require_font, serve_page, watched
from tests.support.census import census_rows
from tests.support.certificates import write_credentials
from tests.support.checkout import ROOT
from tests.support.curator import Curator
from tests.support.sites import make_enrolled_site

PICTURES = ROOT / "docs/pictures"
WINDOW = {"viewport": {"width": 1000, "height": 760}}
TITLE = "Age and kinds of work in three institutions"
OWNERS = ("hospital", "clinic", "agency")


def _require_shown(name: str, png: bytes) -> None:
    path = PICTURES / f"{name}.png"
    if os.environ.get("DPPCA_STORE_PICTURES"):
        PICTURES.mkdir(exist_ok=True)
        Image.open(BytesIO(png)).convert("RGB").quantize(48).save(path, optimize=True)
    mean, worst = differences(small(png), small(path.read_bytes()))
    assert mean < CHARTS[0], f"{path.name} shows another page: make pictures"
    assert worst < CHARTS[1], f"{path.name} shows another page: make pictures"


@pytest.fixture(scope="module")
def federation(curator: Curator, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Folder of a site that is asked to consent, and of an operator's credentials."""
    require_font("DejaVu Sans")
    folder = tmp_path_factory.mktemp("federation")
    sites = [
        make_enrolled_site(curator, folder, name=name, rows=census_rows(3000)) for name in OWNERS
    ]
    study = curator.begin(
        *OWNERS,
        name="survey-2026",
        epsilon="1",
        title=TITLE,
        purpose="Find which kinds of work go with which age, to plan advice at work.",
        contact="Olga, study@hub.example.org",
        approval="Ethics board of the hub, 2026-114",
    )
    assert sites[1].contribute(study)[0] == 0
    credentials = write_credentials(
        folder / "operator", curator.authority.issue(Role.OPERATOR, "olga")
    )
    return sites[0].folder, credentials


def test_the_picture_of_the_steward_is_the_question_for_consent(
    browser: Browser, federation: tuple[Path, Path]
) -> None:
    with Processes() as live, watched(browser, **WINDOW) as seen:
        seen.page.goto(serve_page(live, OWNER, ["--site", federation[0], "page"]).address)
        seen.page.get_by_role("link", name=TITLE).click()
        look_at_review(seen.page)
        _require_shown("steward", seen.page.screenshot())


def test_the_picture_of_the_operator_is_who_has_come(
    browser: Browser, curator: Curator, federation: tuple[Path, Path]
) -> None:
    at_hub = ["page", "--curator", curator.address, "--credentials", federation[1]]
    with Processes() as live, watched(browser, **WINDOW) as seen:
        seen.page.goto(serve_page(live, CURATOR, at_hub).address)
        seen.page.get_by_role("link", name=TITLE).click()
        seen.page.get_by_text("agency").first.wait_for()
        _require_shown("operator", seen.page.screenshot())
