"""Words of art: pages and documentation say the same of them, and each has a place of its own."""

import pytest

from dppca.common.kernel.durable.clock import utc_now
from dppca.common.pages.rendering import render
from dppca.common.shell.glossary import WORDS
from tools.glossary import PATH, glossary_page
from tools.markdown import ROOT


def test_the_documentation_says_what_the_pages_say() -> None:
    assert (ROOT / PATH).read_text() == glossary_page()
    assert len({each.place for each in WORDS}) == len(WORDS)


@pytest.mark.parametrize(
    "place",
    [
        "noise",
        "components",
        "coded",
        "opener",
        "digest",
        "ledger",
        "replace-one",
        "epsilon",
        "delta",
    ],
)
def test_a_word_of_art_has_its_place_on_the_page(place: str) -> None:
    page = render(
        (), "words.html", who="o", links=[], tab="/words", place="", now=utc_now(), words=WORDS
    )
    assert page.count(f'<dt id="{place}"') == 1
    assert "<code>policy.yaml</code>" in page
