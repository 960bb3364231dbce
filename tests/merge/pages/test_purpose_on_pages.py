"""What a study is for, in a real browser: before consent, beside the result, and on a sheet."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from dppca.common.kernel.documents.stated import WHOSE
from tests.support.browser import OpenSite, agree, look_at_review, require_accessible
from tests.support.curator import Curator, far_moment
from tests.support.sites import OwnerSite
from tests.support.studies import CENSUS

AGE = {"description": "Age on the visit", "unit": "years", "concept": "LOINC:30525-0"}
STATED = {
    "title": "Health and work in three regions",
    "purpose": "Find which kinds of work go together with illness, so that advice can begin where "
    "it helps most. Each region keeps its rows. " * 4,
    "contact": "Dr A. Example, a.example@hub.example.org, +00 123 456",
    "approval": "Ethics board of the hub, number 2029-114, of 3 March 2029",
}
MORE = [f"visit{number}" for number in range(9)]
ATTRIBUTES = [{**CENSUS[0], **AGE}, *CENSUS[1:], *({**CENSUS[0], **AGE, "name": n} for n in MORE)]


def _sheets(page: Page) -> int:
    """Number of pages that a browser prints: Skia writes an object of this type for each."""
    page.emulate_media(media="print")
    printed = page.pdf(prefer_css_page_size=True)
    page.emulate_media(media="screen")
    return len(re.findall(rb"/Type /Page\b", printed))


def test_a_purpose_is_read_before_consent_and_what_was_agreed_to_prints_on_one_sheet(
    curator: Curator, site: OwnerSite, open_site: OpenSite
) -> None:
    rows = site.folder / "rows.csv"
    head, *lines = rows.read_text().splitlines()
    more = [",".join([head, *MORE]), *(line + ",30" * len(MORE) for line in lines)]
    rows.write_text("\n".join(more) + "\n")
    study = curator.begin(
        site.name,
        "absent",
        attributes=ATTRIBUTES,
        targets=["work"],
        deadline=far_moment(),
        **STATED,
    )
    with open_site(site, viewport={"width": 1280, "height": 800}) as (seen, _):
        page = seen.page
        page.get_by_role("link", name="Review").click()
        page.get_by_text("What leaves, once").wait_for()
        said = page.get_by_role("region", name=WHOSE)
        for text in (study.purpose, study.contact, study.approval):
            expect(said.get_by_text(f"“{text}”")).to_be_visible()
        expect(page.get_by_role("heading", level=1)).to_have_text(f"“{study.title}”")
        expect(
            page.get_by_text("“Age on the visit, in years, LOINC:30525-0”").first
        ).to_be_visible()
        for name in ("Contribute", "Not now", "Decline"):
            expect(page.get_by_role("button", name=name)).to_be_in_viewport(ratio=1)
        assert _sheets(page) == 1
        require_accessible(page)
        page.set_viewport_size({"width": 1280, "height": 800})
        agree(page)
        expect(page.get_by_text("bytes on 200 rows left this site")).to_be_visible()
        expect(page.get_by_role("region", name=WHOSE)).to_be_visible()
        page.get_by_role("link", name="What was agreed to").click()
        agreed = page.inner_text("main")
        for text in (
            study.purpose,
            "200 rows of data set survey",
            "ε 2 of 3",
            str(site.folder.resolve() / "policy.yaml"),
            study.digest,
            "Agreed",
        ):
            assert str(text) in agreed
        require_accessible(page)
        assert _sheets(page) == 1
        seen.require_quiet()


@pytest.mark.parametrize("lie", ["nothing” Costs: ε 0. “", "“ What it costs: nothing ”"])
def test_no_text_of_a_study_leaves_its_quotes(
    curator: Curator, site: OwnerSite, open_site: OpenSite, lie: str
) -> None:
    lies: dict[str, Any] = dict.fromkeys(STATED, lie + "\u0301" * 40)
    attributes = [{**CENSUS[0], "description": lie, "unit": lie, "concept": lie}, *CENSUS[1:]]
    study = curator.begin(site.name, "absent", attributes=attributes, **lies)
    with open_site(site) as (seen, _):
        page = seen.page
        listed = page.get_by_role("listitem").filter(has_text=f"study {study.name}")
        listed.get_by_role("link").first.click()
        look_at_review(page)
        for place in page.locator(".said dd, small.quoted, h1 .quoted").all():
            text = place.inner_text()
            assert (text[0], text[-1]) == ("“", "”")
            assert not {*text[1:-1]} & {"“", "”"}
        outside = "(() => { document.querySelectorAll('.quoted').forEach((e) => e.remove()); })()"
        page.evaluate(outside)
        assert "nothing" not in page.inner_text("main")
        assert page.title() == f"Review {study.name}"
