"""Pages and charts, drawn by a real browser, are the stored pictures within a tolerance.

Pictures are stored at a quarter of their size, in grey. What is compared is the mean difference,
and that of the worst tenth of the lines.

Charts: fonts differ between machines and only move text a little; with another font the two are
0.004 and 0.03. Without charts, with charts upside down or with bars left out they are 0.03 and 0.2
or more.

Pages of both sides are those of a real study with next to no noise. What differs in them from one
run to the next (digits, names, places of files) is written as eights before the picture is taken,
so that two runs give the same picture to the last point. Text of another font would wrap elsewhere,
so they need DejaVu Sans, as `.ci/run` installs it. What breaks a page made 0.011 and 0.11 or more.

``make pictures`` writes them again.
"""

import os
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Browser, Page

from dppca.common.analysis.loadings import KeptComponent, Loading
from dppca.common.kernel.identity.tls import Role
from dppca.common.pages.rendering import render_file
from dppca.common.shell.panels import Cell, Panel
from dppca.common.transport.testbed import CURATOR, OWNER, Processes
from tests.support.browser import (
    SCHEMES,
    WIDTHS,
    ZOOMED,
    require_accessible,
    require_font,
    serve_page,
    watched,
)
from tests.support.callers import refused
from tests.support.certificates import write_credentials
from tests.support.checkout import ROOT
from tests.support.curator import Curator
from tests.support.sites import make_enrolled_site

STORED = ROOT / "tests/golden/pages"
# Mean difference, and that of the worst tenth of the lines, of the range from black to white.
CHARTS, TEXTS = (0.02, 0.12), (0.008, 0.08)
_CHARTS = """{% extends "base.html" %}{% block title %}Charts{% endblock %}{% block main %}
{% from "charts.html" import scree, gauge, loadings, marginal, dots, bar %}
<h1>Charts</h1>
{{ scree("Variances", values, 0.05) }}{{ gauge("Budget", 3.0, segments) }}
{{ loadings(components) }}{% for panel in panels %}{{ marginal(panel, "ours", "theirs") }}
{% endfor %}<table><tr><td>{{ dots(0.9, 0.8, 0.6) }}</td><td>{{ bar(0.4) }}</td></tr></table>
{% endblock %}{% block footer %}{% endblock %}"""


@pytest.fixture(scope="module")
def charts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _draw(tmp_path_factory.mktemp("charts"), "age")


def _draw(folder: Path, first: str) -> Path:
    """A page of charts, whose first attribute has this name."""
    (folder / "gallery.html").write_text(_CHARTS)
    loadings = (Loading(first, None, 0.7), Loading("sex", "Male", -0.6), Loading("work", "x", 0.1))
    cells = tuple(Cell(f"{n}", n / 100, (14 - n) / 100) for n in range(1, 14))
    page = render_file(
        [folder],
        "gallery.html",
        who="",
        segments=[{"name": "a", "epsilon": "1", "width": 1.0}],
        values=[0.4, 0.2, 0.1, 0.04, -0.02],
        components=[KeptComponent(0.4, 0.57, above_noise=True, loadings=loadings)],
        panels=[Panel(first, True, cells), Panel("work", False, cells[:3], 2)],
    )
    path = folder / "page.html"
    path.write_text(page)
    return path


def small(png: bytes) -> NDArray[np.float64]:
    """A picture in grey at a quarter of its size, from 0 (black) to 1."""
    image = Image.open(BytesIO(png)).convert("L")
    size = (max(1, image.width // 4), max(1, image.height // 4))
    return np.asarray(image.resize(size, Image.Resampling.BOX), dtype=np.float64) / 255


def differences(ours: NDArray[np.float64], stored: NDArray[np.float64]) -> tuple[float, float]:
    """Mean over all points, and over the tenth of the lines that differ most, in [0, 1]."""
    height = max(len(ours), len(stored))  # text that wraps elsewhere makes a page longer
    padded = [
        np.pad(each, ((0, height - len(each)), (0, 0)), mode="edge") for each in (ours, stored)
    ]
    lines = np.abs(padded[0] - padded[1]).mean(axis=1)
    return float(lines.mean()), float(np.sort(lines)[-max(1, len(lines) // 10) :].mean())


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_charts_are_as_they_were(browser: Browser, charts: Path, width: int, scheme: str) -> None:
    with watched(browser, viewport={"width": width, "height": 800}, color_scheme=scheme) as seen:
        seen.page.goto(charts.as_uri())
        png = seen.page.screenshot(full_page=True)
    _require_as_stored(small(png), f"charts-{width}-{scheme}.png", CHARTS)


def _require_as_stored(ours: NDArray[np.float64], name: str, most: tuple[float, float]) -> None:
    path = STORED / name
    if os.environ.get("DPPCA_STORE_PICTURES"):
        path.parent.mkdir(exist_ok=True)
        Image.fromarray((ours * 255).round().astype(np.uint8)).save(path, optimize=True)
    mean, worst = differences(ours, _stored(name))
    assert mean < most[0]
    assert worst < most[1]


def _stored(name: str) -> NDArray[np.float64]:
    return np.asarray(Image.open(STORED / name), dtype=np.float64) / 255


def test_charts_can_be_read_by_everybody(browser: Browser, charts: Path) -> None:
    with watched(browser) as seen:
        seen.page.goto(charts.as_uri())
        require_accessible(seen.page)


@pytest.mark.parametrize("name", ["occupational_classification", "a_registry_has_named_it_" * 4])
def test_a_long_name_makes_no_page_wider(browser: Browser, tmp_path: Path, name: str) -> None:
    with watched(browser) as seen:
        seen.page.goto(_draw(tmp_path, name).as_uri())
        for width in (ZOOMED, *WIDTHS):
            seen.page.set_viewport_size({"width": width, "height": 800})
            assert seen.page.evaluate("document.documentElement.scrollWidth") <= width


PAGES = (
    "steward-studies",
    "steward-study",
    "steward-components",
    "steward-ledger",
    "operator-study",
    "operator-refusals",
)
# Digits, names that tests make up, and where their files are; all of them keep their length.
_EIGHTS = r"""() => {
    const all = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (all.nextNode()) {
        all.currentNode.data = all.currentNode.data
            .replace(/\S+\/studies\//g, "/site/studies/")
            .replace(/\b[0-9a-f]{8,}\b|\d/g, (text) => "8".repeat(text.length));
    }
}"""


class _Pages:
    """The pages of both sides of one study, as the browsers that logged in see them."""

    def __init__(self, windows: dict[str, Page]) -> None:
        self._windows = windows

    def picture(self, name: str, scheme: Any, *, width: int) -> NDArray[np.float64]:
        """The page as it is now."""
        window = self._windows[name]
        window.set_viewport_size({"width": width, "height": 800})
        window.emulate_media(color_scheme=scheme)
        window.reload()
        window.evaluate(_EIGHTS)
        return small(window.screenshot(full_page=True))


@pytest.fixture(scope="module")
def pages(
    curator: Curator, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[_Pages]:
    require_font("DejaVu Sans")
    folder = tmp_path_factory.mktemp("pages")
    sites = [
        make_enrolled_site(curator, folder, budget='epsilon: "5000", delta: "0"') for _ in range(2)
    ]
    names = [site.name for site in sites]
    done, waiting = (curator.begin(*names, epsilon="1000") for _ in range(2))
    for site, study in ((sites[0], done), (sites[1], done), (sites[0], waiting)):
        assert site.contribute(study)[0] == 0
    assert sites[0].run("components", done.name, "--wait", "300")[0] == 0
    party = curator.party(names[0])
    refused(lambda: party.components(waiting))
    operator = curator.authority.issue(Role.OPERATOR, "alice-of-pictures")
    credentials = write_credentials(folder / "operator", operator)
    at_hub = ["page", "--curator", curator.address, "--credentials", credentials]
    window = {"viewport": {"width": 800, "height": 800}, "bypass_csp": True}
    with (
        Processes() as live,
        watched(browser, **window) as steward,
        watched(browser, **window) as hub,
    ):
        steward.page.goto(serve_page(live, OWNER, ["--site", sites[0].folder, "page"]).address)
        hub.page.goto(serve_page(live, CURATOR, at_hub).address)
        windows = {}
        for name, seen, path in (
            ("steward-studies", steward, ""),
            ("steward-study", steward, f"study/{waiting.name}"),
            ("steward-components", steward, f"study/{done.name}"),
            ("steward-ledger", steward, "ledger"),
            ("operator-study", hub, f"study/{done.name}"),
            ("operator-refusals", hub, "refusals"),
        ):
            place = seen.page.url
            windows[name] = seen.page.context.new_page()
            windows[name].goto(place + path)
        yield _Pages(windows)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("name", "width"),
    [
        *((name, 800) for name in PAGES),
        *((name, 390) for name in ("steward-studies", "operator-refusals")),
    ],
)
def test_pages_are_as_they_were(pages: _Pages, name: str, width: int, scheme: str) -> None:
    ours = pages.picture(name, scheme, width=width)
    _require_as_stored(ours, f"{name}-{width}-{scheme}.png", TEXTS)
