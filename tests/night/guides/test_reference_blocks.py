"""Every block of YAML on a page is one that the software reads, and a reference page has no other.

Blocks of Python and of a shell are run by the tests of their pages; one of a new kind has to be
given its reader here.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dppca.common.kernel.documents.yaml_text import load_yaml
from dppca.common.kernel.study import study_from_mapping
from dppca.owner.site.config import load_site
from dppca.owner.site.policy import load_policy
from tests.support.checkout import ROOT
from tests.support.studies import binary_of, study_document

REFERENCE = sorted((ROOT / "docs/reference").glob("*.md"))
PAGES = sorted((ROOT / "docs").rglob("*.md"))
RUN_ELSEWHERE = {
    "api.md": "pycon",  # test_python_examples
    "receipts.md": "python",  # test_receipts_by_hand
}
SITE = 'version: 1\nname: hospital\ncurator: "hub.example:7443"\n'


def blocks_of(page: Path, language: str = "yaml") -> list[str]:
    fence = re.compile(rf"^( *)```{language}\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
    return [
        re.sub(rf"^{indent}", "", block, flags=re.MULTILINE)
        for indent, block in fence.findall(page.read_text())
    ]


def read_policy(document: dict[str, Any], folder: Path) -> None:
    """Policy of a page; one that shows data sets alone gets the populations that they name."""
    named = {each["population"] for each in document.get("data_sets", {}).values()}
    people = {name: {"who": name, "epsilon": "3.0", "delta": "0"} for name in sorted(named)}
    (folder / "site.yaml").write_text(SITE)
    (folder / "policy.yaml").write_text(yaml.safe_dump({"populations": people, **document}))
    found = load_policy(load_site(folder))
    assert {each.name for each in found.data_sets} == set(document.get("data_sets", {}))


def read_block(text: str, folder: Path) -> str | None:
    """The kind of a block that was read; None for a part of a document that has no reader."""
    document = load_yaml(text)
    if isinstance(document, list) and all("type" in each for each in document):
        study_from_mapping(study_document([*document, binary_of("another", ["no", "yes"])]))
        return "attributes"
    if not isinstance(document, dict):
        return None
    if {"populations", "data_sets"} & document.keys():
        read_policy(document, folder)
        return "policy"
    if "curator" in document:
        (folder / "site.yaml").write_text(text)
        load_site(folder)
        return "site"
    if {"schema", "owners"} <= document.keys():
        study_from_mapping(document, text=text)
        return "study"
    if document.keys() <= {"faults", "overlap"}:
        study_from_mapping(
            {**study_document([binary_of(name, ["no", "yes"]) for name in "ab"]), **document}
        )
        return "study"
    return None


@pytest.mark.parametrize("page", REFERENCE, ids=lambda page: page.stem)
def test_every_block_of_a_reference_page_is_read_or_run(page: Path, tmp_path: Path) -> None:
    languages = set(re.findall(r"^ *```(\w+)$", page.read_text(), re.MULTILINE))
    assert languages <= {"yaml", RUN_ELSEWHERE.get(page.name, "yaml")}
    for number, block in enumerate(blocks_of(page)):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert read_block(block, folder), f"nothing reads this block: {block}"


@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page)], ids=lambda p: p.stem)
def test_every_policy_and_site_on_any_page_is_one(page: Path, tmp_path: Path) -> None:
    for number, block in enumerate(blocks_of(page)):
        folder = tmp_path / str(number)
        folder.mkdir()
        read_block(block, folder)


def test_what_is_wrong_on_a_page_is_found(tmp_path: Path) -> None:
    assert read_block("steps: [1, 2]", tmp_path) is None
    with pytest.raises(KeyError, match="population"):
        read_block('data_sets: {a: {path: a.csv, epsilon: "3.0"}}', tmp_path)
