"""Files that earlier versions wrote, and this one: all of them are read as they were."""

import json
from pathlib import Path

import pytest

from tests.golden.make_edition import EDITIONS, read_edition


@pytest.mark.parametrize("edition", sorted(EDITIONS.iterdir()), ids=lambda each: each.name)
def test_this_version_reads_what_an_edition_holds(edition: Path, tmp_path: Path) -> None:
    assert read_edition(edition, tmp_path) == json.loads((edition / "facts.json").read_text())


def test_an_edition_holds_no_private_key() -> None:
    for path in EDITIONS.rglob("*"):
        assert path.is_dir() or b"PRIVATE KEY" not in path.read_bytes(), path
