"""Pages are what they are made from, decisions are in the index, and links lead somewhere."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import dppca
from dppca.common.kernel.schema import Schema
from tools.decisions import read_decisions
from tools.markdown import ROOT, find_anchors, find_links
from tools.pages import PAGES

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSION = PROJECT["project"]["version"]
FOLDERS = ("benchmarks", "deploy", "docs", "tests")
ROOMS = ("common", "curator", "owner", "deploy", "tools", "benchmarks")


def _markdown_files(root: Path) -> list[Path]:
    below = (path for folder in FOLDERS for path in (root / folder).rglob("*.md"))
    return sorted([*root.glob("*.md"), *below])


def _broken_links(root: Path) -> Iterator[str]:
    for page in _markdown_files(root):
        for link in find_links(page.read_text()):
            if "://" in link or link.startswith("mailto:"):
                continue
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            lost = not target.exists() or root not in (target.resolve(), *target.resolve().parents)
            if lost or (anchor and anchor not in find_anchors(target.read_text())):
                yield f"{page.relative_to(root)}: {link}"


@pytest.mark.parametrize("path", sorted(PAGES))
def test_a_page_is_what_it_is_made_from(path: str) -> None:
    assert (ROOT / path).read_text() == PAGES[path](), "run python -m tools.pages"


def test_every_link_between_documents_leads_to_a_file_and_a_heading() -> None:
    assert list(_broken_links(ROOT)) == []


def test_every_page_and_decision_that_the_source_names_is_there() -> None:
    numbers = {str(number) for each in read_decisions() for number in each.numbers}
    source = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    named, cited = set[str](), set[str]()
    for path in source:
        named |= set(re.findall(r"\bdocs/[\w./-]*\w", text := path.read_text()))
        cited |= set(re.findall(r"\bdecisions? (\d+)", text))
    assert len(named) > 5
    assert cited
    lost = [each for each in named if not (ROOT / each).exists() and not [*ROOT.glob(f"{each}*")]]
    assert (lost, cited - numbers) == ([], set())


def test_every_schema_on_a_page_is_one() -> None:
    blocks = [
        yaml.safe_load(block)
        for page in _markdown_files(ROOT)
        for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    ]
    schemas = [block["schema"] for block in blocks if "schema" in block]
    assert len(schemas) >= 4
    for schema in schemas:
        Schema.from_document(schema)


def test_the_paths_that_the_architecture_sends_to_are_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text[text.index("## Where do I put ...") :].split("\n## ")[0]
    paths = re.findall(r"`([\w/.]+(?:/|\.py|\.proto))`", section)
    assert len(paths) > 15
    assert [path for path in paths if "/" in path and not (ROOT / path).exists()] == []


def test_the_page_of_the_python_interface_names_every_public_name() -> None:
    page = (ROOT / "docs/reference/api.md").read_text()
    assert sorted(re.findall(r"^::: dppca\.(\w+)$", page, re.MULTILINE)) == sorted(dppca.__all__)


def test_the_citation_is_of_this_version_and_says_what_the_format_requires() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == VERSION
    assert citation["cff-version"] == "1.2.0"
    assert all(citation[field] for field in ("authors", "message", "title"))


@pytest.mark.parametrize(
    ("place", "pattern"),
    [
        ("CHANGELOG.md", r"^## (\S+), "),
        ("deploy/Dockerfile", r"^ARG VERSION=(\S+)"),
        ("deploy/kubernetes", r"dppca:([\d.]+)"),
        ("docs/how-to/install.md", r"dppca\w*-([\d.]+)-py3"),
        ("wheels", r'(?:version = "|==)([\d.]+)"'),
        ("docs/how-to/check-what-you-were-given.md", r"dppca_verify-([\d.]+)-py3"),
        ("tests/golden/editions", r"^(\S+)-owner$"),
    ],
)
def test_one_version_stands_everywhere(place: str, pattern: str) -> None:
    """Older versions may stand beside it in the changes and the editions."""
    path = ROOT / place
    if place.endswith("editions"):
        texts = [each.name for each in path.iterdir()]
    else:
        files = [path, *path.rglob("*.yaml"), *path.rglob("*.md"), *path.rglob("*.toml")]
        texts = [each.read_text() for each in files if each.is_file()]
    found = [each for text in texts for each in re.findall(pattern, text, re.MULTILINE)]
    assert VERSION in found
    if place.startswith(("deploy", "docs", "wheels")):
        assert {*found} == {VERSION}


def test_a_status_names_decisions_that_exist_and_later_ones() -> None:
    found = read_decisions()
    assert len(found) > 50
    numbers = {number for each in found for number in each.numbers}
    for each in found:
        named = {int(word.strip(",")) for word in each.status.split() if word.strip(",").isdigit()}
        assert named <= numbers
        assert all(number > max(each.numbers) for number in named), each
        assert each.status.startswith(("accepted", "superseded by"))
