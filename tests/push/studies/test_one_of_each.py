"""A study of one owner, one attribute and one row: what is said counts one of each rightly."""

import re
from pathlib import Path

import pyarrow as pa
import pytest

from dppca.common.verification.cli import cli as verifier
from dppca.curator.cli import cli as operator
from dppca.owner.cli import cli as owner
from tests.support.commands import run_here
from tests.support.curator import Curator
from tests.support.sites import make_enrolled_site
from tests.support.studies import categorical_of

_MANY_OF_ONE = re.compile(
    r"(?<![\d.,])1 (?:[a-z]+ )?(?:rows|people|owners|studies|entries|charges|attributes|columns"
    r"|components|contributions|files|days|cells)\b"
)


@pytest.mark.parametrize("unit", ["row", "person"])
def test_one_of_each_is_said_in_the_singular(unit: str, curator: Curator, tmp_path: Path) -> None:
    rows = pa.table({"town": ["Ulm"], "whose": ["a"]})
    site = make_enrolled_site(curator, tmp_path, rows=rows, budget='epsilon: "100", delta: "0"')
    policy = site.folder / "policy.yaml"
    policy.write_text(policy.read_text().replace("path: rows.csv", "path: rows.csv, key: whose"))
    study = curator.begin(
        site.name,
        attributes=[categorical_of("town", ["Ulm", "Bern", "Rom"])],
        unit=unit,
        max_rows_per_person=1 if unit == "row" else None,
        epsilon="100",
        components={"count": 1},
    )
    said: list[str] = []

    def told(cli: object, *line: object) -> None:
        code, out, err = run_here(cli, *line)  # type: ignore[arg-type]
        assert code in (0, 52), (line, out, err)
        said.append(f"{line}\n{out}{err}")

    at = ("--site", site.folder)
    for line in (["studies"], ["check", study.name], ["review", study.name]):
        told(owner, *at, *line)
    told(owner, *at, "contribute", study.name, "--yes")
    told(owner, *at, "components", study.name, "--wait", "60")
    made = next((site.folder / "studies" / study.name).glob("components*.npz"))
    told(owner, *at, "budget")
    told(owner, *at, "budget", "verify")
    told(owner, *at, "doctor")
    told(owner, *at, "estimate", made, "share", "town=Ulm")
    told(owner, *at, "estimate", made, "summary")
    told(verifier, "verify", made)
    for words in (["list"], ["show", study.name]):
        told(operator, "study", *words, *curator.connection)
    wrong = [each for text in said for each in _MANY_OF_ONE.findall(text)]
    assert not wrong
    counted = "1 person" if unit == "person" else "1 row"
    assert sum(f"{counted} of" in text or f"({counted})" in text for text in said) >= 4
