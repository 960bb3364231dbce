"""A study file to begin with is valid, and proposes what keeps unknown values apart."""

import gzip
import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from dppca.common.analysis.study_file import study_from_yaml
from dppca.common.kernel.schema import Categorical, Numeric
from dppca.common.kernel.study import Study
from dppca.common.shell.console import run
from dppca.curator.cli import cli
from dppca.curator.commands.study_template import TEMPLATE
from dppca.owner.records.check import check_table
from dppca.owner.records.table import open_table
from tests.support.checkout import ROOT

README = ROOT / "README.md"


def _said(*arguments: str) -> tuple[int, str]:
    out = io.StringIO()
    with redirect_stdout(out), pytest.raises(SystemExit) as left:
        run(cli, ["study", "template", *arguments])
    assert isinstance(left.value.code, int)
    return left.value.code, out.getvalue()


def _of_the_readme() -> Study:
    block = re.search(r"```yaml\n(name: survey-2026\n.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert block is not None
    return study_from_yaml(block[1])


def test_the_template_is_a_study_whether_printed_or_written(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    printed, written = _said(), _said("--output", str(path))
    assert (printed[0], written[0]) == (0, 0)
    assert printed[1] == path.read_text("utf-8") == TEMPLATE
    study = study_from_yaml(path.read_text("utf-8"))
    assert study.digest == study_from_yaml(TEMPLATE).digest
    assert json.loads(_said("--json")[1])["template"] == TEMPLATE


def test_what_is_commented_out_is_valid_too() -> None:
    more = TEMPLATE.replace("# quorum:", "quorum:").replace("# deadline:", "deadline:")
    assert (study_from_yaml(more).quorum, study_from_yaml(more).deadline is None) == (2, False)


def test_for_trees_the_template_recommends_products_of_bins_for_every_numeric() -> None:
    assert "say\n  # `products: bins` in place of `histogram: true`" in TEMPLATE
    more = re.sub(r"^      histogram: true.*\n", "", TEMPLATE, flags=re.MULTILINE)
    more = more.replace("# bins:", "bins:").replace("# products: bins", "products: bins")
    table = study_from_yaml(more).table
    numerics = [each.name for each in table.attributes if isinstance(each, Numeric)]
    assert list(table.products_of_bins) == numerics == ["age", "savings"]


@pytest.mark.parametrize(
    "study", [study_from_yaml(TEMPLATE), _of_the_readme()], ids=lambda s: s.name
)
def test_every_categorical_has_a_label_of_its_own_and_reviews_may_refuse(study: Study) -> None:
    categorical = [a for a in study.table.attributes if isinstance(a, Categorical)]
    assert categorical
    assert all(attribute.unknown for attribute in categorical)
    assert study.faults is not None


def test_the_readmes_study_silently_turns_no_value_of_adult_into_another(
    data_folder: Path, tmp_path: Path
) -> None:
    study = _of_the_readme()
    text = gzip.decompress((data_folder / "adult" / "adult.data.gz").read_bytes()).decode()
    fields = [line.split(",") for line in text.splitlines() if line.strip()]
    rows = [f"{each[0]},{each[9]},{each[1]}" for each in fields]
    path = tmp_path / "adult.csv"
    path.write_text("\n".join(["age,sex,workclass", *rows]) + "\n")
    report = check_table(open_table(path, study.table), study.table, limit=0)
    assert report.rows == 32_561
    assert report.under(study.faults).above == {}
    by_rule = {name: each.by_rule for name, each in report.attributes.items()}
    assert by_rule == {"age": 0, "sex": 0, "workclass": 1836}
    assert report.attributes["workclass"].coded_as == "Unknown, a label of its own"
