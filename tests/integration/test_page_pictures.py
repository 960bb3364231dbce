"""Every chart, drawn by a real browser, is the stored picture within a tolerance.

Pictures are stored at a quarter of their size, in grey. Fonts differ between machines and only
move text a little, so what is compared is the mean difference, and that of the worst tenth of the
lines. With another font they are 0.004 and 0.03; without charts, with charts upside down or with
bars left out 0.03 and 0.2 or more (the last test tries these).

``DPPCA_STORE_PICTURES=1`` writes them again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Browser

from dppca.common.pages.rendering import render_file
from dppca.owner.report.page import Cell, Panel
from tests.support.browser import SCHEMES, WIDTHS, chromium, require_accessible, watched

pytestmark = [pytest.mark.integration, pytest.mark.browser]

STORED = Path(__file__).resolve().parents[1] / "golden" / "pages"
MEAN, WORST_LINES = 0.02, 0.12  # of the range from black to white
_CHARTS = """{% extends "base.html" %}{% block title %}Charts{% endblock %}{% block main %}
{% from "charts.html" import scree, gauge, loadings, marginal, dots, bar %}
<h1>Charts</h1>
{{ scree("Variances", values, 0.05) }}{{ gauge("Budget", 3.0, 1.0, 0.5) }}
{{ loadings(components) }}{% for panel in panels %}{{ marginal(panel, "ours", "theirs") }}
{% endfor %}<table><tr><td>{{ dots(0.9, 0.8, 0.6) }}</td><td>{{ bar(0.4) }}</td></tr></table>
{% endblock %}{% block footer %}{% endblock %}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def charts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("charts")
    (folder / "gallery.html").write_text(_CHARTS)
    loadings = [
        {"attribute": name, "label": label, "loading": value}
        for name, label, value in (("age", None, 0.7), ("sex", "Male", -0.6), ("work", "x", 0.1))
    ]
    cells = tuple(Cell(f"{n}", n / 100, (14 - n) / 100) for n in range(1, 14))
    page = render_file(
        [folder],
        "gallery.html",
        who="",
        values=[0.4, 0.2, 0.1, 0.04, -0.02],
        components=[{"eigenvalue": 0.4, "above_noise": True, "loadings": loadings}],
        panels=[Panel("age", True, cells), Panel("work", False, cells[:3], 2)],
    )
    path = folder / "page.html"
    path.write_text(page)
    return path


def _small(png: bytes) -> NDArray[np.float64]:
    image = Image.open(BytesIO(png)).convert("L")
    size = (max(1, image.width // 4), max(1, image.height // 4))
    return np.asarray(image.resize(size, Image.Resampling.BOX), dtype=np.float64) / 255


def _differences(ours: NDArray[np.float64], stored: NDArray[np.float64]) -> tuple[float, float]:
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
    ours, path = _small(png), STORED / f"charts-{width}-{scheme}.png"
    if os.environ.get("DPPCA_STORE_PICTURES"):
        path.parent.mkdir(exist_ok=True)
        Image.fromarray((ours * 255).round().astype(np.uint8)).save(path, optimize=True)
    stored = np.asarray(Image.open(path), dtype=np.float64) / 255
    mean, worst = _differences(ours, stored)
    assert mean < MEAN
    assert worst < WORST_LINES


def test_charts_can_be_read_by_everybody(browser: Browser, charts: Path) -> None:
    with watched(browser) as seen:
        seen.page.goto(charts.as_uri())
        require_accessible(seen.page)


@pytest.mark.parametrize(
    "style",
    [
        "svg.chart { visibility: hidden }",
        "svg.chart { transform: scaleY(-1) }",
        "rect { display: none }",
        "body { background: black !important }",
    ],
)
def test_a_broken_chart_differs_by_more(
    browser: Browser, charts: Path, style: str, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.html"
    text = charts.read_text().replace('http-equiv="Content-Security-Policy"', "data-none")
    broken.write_text(text.replace("</head>", f"<style>{style}</style></head>"))
    with watched(browser, viewport={"width": 800, "height": 800}) as seen:
        seen.page.goto(broken.as_uri())
        ours = _small(seen.page.screenshot(full_page=True))
    stored = np.asarray(Image.open(STORED / "charts-800-light.png"), dtype=np.float64) / 255
    mean, worst = _differences(ours, stored)
    assert mean > MEAN or worst > WORST_LINES
