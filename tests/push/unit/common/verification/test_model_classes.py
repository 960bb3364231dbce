"""A command trusts the classes that our models hold; other programs keep the list of skops."""

import subprocess
import sys
from pathlib import Path

import pytest
import skops.io
from sklearn.linear_model import LogisticRegression

from dppca.common.kernel.errors import ArtefactError
from dppca.common.verification.model_classes import CLASSES

FOREIGN = "sklearn.linear_model._logistic.LogisticRegression"
_UNTRUSTED = """
import sys
from pathlib import Path
from dppca.common.shell.packages import hide_packages
{before}
from sklearn.utils import all_estimators
from dppca.common.verification.model_classes import archives
import sklearn.utils
assert sklearn.utils.all_estimators is all_estimators
for name in sys.argv[1:]:
    print(archives.get_untrusted_types(data=Path(name).read_bytes()))
print("sklearn.gaussian_process" in sys.modules)
"""


@pytest.mark.parametrize(
    ("before", "refused", "all_loaded"),
    [("hide_packages()", [FOREIGN], "False"), ("", [], "True")],
    ids=["in a command", "elsewhere"],
)
def test_only_a_command_has_the_short_list(
    before: str, refused: list[str], all_loaded: str, tmp_path: Path
) -> None:
    ours, other = tmp_path / "ours.skops", tmp_path / "other.skops"
    ours.write_bytes(skops.io.dumps([kind.__new__(kind) for kind in CLASSES]))
    other.write_bytes(skops.io.dumps(LogisticRegression()))
    line = [sys.executable, "-c", _UNTRUSTED.format(before=before), str(ours), str(other)]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", str(refused), all_loaded]


def test_a_command_refuses_a_file_with_another_class(tmp_path: Path) -> None:
    model, rows = tmp_path / "model.skops", tmp_path / "rows.csv"
    members = {"metadata": "{}", "state": {"machine_": LogisticRegression()}, "space": {}}
    model.write_bytes(skops.io.dumps(members))
    rows.write_text("a\n1\n")
    asked = ("predict", "--model", str(model), "--data", str(rows))
    line = [sys.executable, "-m", "dppca.owner.cli", *asked, "--output", str(tmp_path / "out.csv")]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == ArtefactError.exit_code
    assert f"the model holds {FOREIGN}, which no model of ours does" in done.stderr
