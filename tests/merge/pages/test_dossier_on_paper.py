"""Each sheet of a dossier prints on one page of A4 and asks no host, in a real browser."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from dppca import write_dossier
from tests.support.browser import watched
from tests.support.checkout import ROOT

ANSWERS = """
curators: [University Hospital of Example, Institute of Example]
authors: [Dr A. Example]
region: Lower Saxony
published: {edition: 2026-11-30}
"""


@pytest.mark.parametrize("edition", ["0.2.0-aggregate", "0.2.0-owner"])
@pytest.mark.parametrize("file", ["site/studies/edition/components.npz", "joined.csv"])
def test_every_sheet_prints_on_one_page(
    edition: str, file: str, tmp_path: Path, browser: Browser
) -> None:
    place, answers = ROOT / "tests/golden/editions" / edition, tmp_path / "dossier.yaml"
    answers.write_text(
        ANSWERS.replace("edition:", "edition-second:") if "joined" in file else ANSWERS
    )
    ca = (place / "ca.pem").read_bytes()
    written = write_dossier(place / file, tmp_path / "out", ca=ca, answers=answers)
    sheets = [path for path in written if path.suffix == ".html"]
    assert len(sheets) == 4
    for path in sheets:
        with watched(browser) as seen:
            seen.page.goto(path.as_uri())
            seen.page.emulate_media(media="print")
            printed = seen.page.pdf(prefer_css_page_size=True)
            assert len(re.findall(rb"/Type /Page\b", printed)) == 1, path.name
            assert [url for url in seen.requests if not url.startswith("file:")] == []
            assert seen.complaints == []
