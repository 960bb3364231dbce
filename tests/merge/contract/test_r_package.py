"""The R package: `R CMD check` holds, and its numbers are Python's."""

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dppca.common.kernel.errors import AlteredError, ExitCode, SettingError
from dppca.common.verification.cli import cli
from tests.support.checkout import ROOT
from tests.support.commands import answer_of
from tests.support.requirements import miss

EDITION = ROOT / "tests/golden/editions/0.1.0-owner"
RESULT = EDITION / "site/studies/edition/components.npz"
CA = EDITION / "ca.pem"
DIGITS = 1e-12


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of R that holds the package, once it has passed its check."""
    if shutil.which("R") is None or _run("Rscript", "-e", "library(jsonlite)").returncode:
        miss("R with jsonlite", "apt-get install r-base-core r-cran-jsonlite")
    folder = tmp_path_factory.mktemp("r")
    built = _run("R", "CMD", "build", ROOT / "clients/r", cwd=folder)
    assert built.returncode == 0, built.stdout + built.stderr
    (archive,) = folder.glob("dppca_*.tar.gz")
    assert archive.name == f"dppca_{_version()}.tar.gz"
    checked = _run("R", "CMD", "check", "--as-cran", "--no-manual", archive.name, cwd=folder)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    status = checked.stdout[checked.stdout.index("Status:") :].splitlines()[0]
    assert "ERROR" not in status
    assert "WARNING" not in status, checked.stdout
    return folder / "dppca.Rcheck"


def _version() -> str:
    import dppca

    return dppca.__version__


def _run(*line: object, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    offline = {
        f"_R_CHECK_{name}_": "false"
        for name in ("CRAN_INCOMING", "CRAN_INCOMING_REMOTE", "FORCE_SUGGESTS")
    }
    environment = {**os.environ, **offline, **more}
    return subprocess.run(
        [*map(str, line)], cwd=cwd, env=environment, capture_output=True, text=True
    )


@cache
def _command() -> str:
    return shutil.which("dppca-verify", path=ROOT / ".venv/bin") or "dppca-verify"


def _r(library: Path, code: str, *, ca: bool = True) -> str:
    """What R prints, with `est` as the edition's result."""
    given = f", ca = '{CA}'" if ca else ""
    begin = f"library(dppca); est <- suppressWarnings(dppca_estimates('{RESULT}'{given}))\n"
    done = _run(
        *("Rscript", "--vanilla", "-e", begin + code),
        R_LIBS=str(library),
        DPPCA_COMMAND=_command(),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


ASKED = {
    "ols(est, age ~ sex + work)": ("ols", "age", "sex", "work"),
    "ols(est, `sex=Male` ~ work, variance = 'sandwich', level = 0.8)": (
        *("ols", "sex=Male", "work", "--variance", "sandwich", "--level", "0.8"),
    ),
    "logit(est, sex ~ work, log = TRUE)": ("logit", "sex", "work", "--log"),
    "marginal_effects(est, sex ~ work)": ("marginal-effects", "sex", "work"),
    "dppca_mean(est, 'age', by = 'sex', adjust = 'bonferroni')": (
        *("mean", "age", "--by", "sex", "--adjust", "bonferroni"),
    ),
    "dppca_share(est, 'work')": ("share", "work"),
    "dppca_difference(est, 'age', by = 'work', labels = c('state', 'private'))": (
        *("difference", "age", "--by", "work", "--labels", "state", "private"),
    ),
    "dppca_median(est, 'age')": ("median", "age"),
    "dppca_quantile(est, 'age', c(0.1, 0.9))": ("quantile", "age", "0.1", "0.9"),
    "dppca_iqr(est, 'age')": ("iqr", "age"),
    "dppca_sd(est, 'age')": ("sd", "age"),
    "dppca_table(est, 'sex', 'work')": ("table", "sex", "work"),
    "dppca_independence(est, 'sex', 'work')": ("independence", "sex", "work"),
    "dppca_odds_ratio(est, 'sex=Male', 'work=state')": ("odds-ratio", "sex=Male", "work=state"),
    "dppca_relative_risk(est, 'work=state', 'sex=Male', against = 'private')": (
        *("relative-risk", "work=state", "sex=Male", "--against", "private"),
    ),
    "dppca_correlation(est, 'age', 'sex')": ("correlation", "age", "sex"),
    "dppca_components(est)": ("components",),
    "dppca_summary(est, 'age', 'work', by = 'sex')": (*("summary", "age", "work", "--by", "sex"),),
}
COLUMNS = {"estimate": "estimate", "std.error": "bse", "conf.low": "low", "conf.high": "high"}


def test_every_answer_has_the_numbers_that_python_has(library: Path) -> None:
    code = "show <- function(x) cat(jsonlite::toJSON(as.data.frame(x), digits = NA, na = 'null'))\n"
    code += "\n".join(f"show({each}); cat('\\n')" for each in ASKED)
    lines = [json.loads(line) for line in _r(library, code).splitlines()]
    assert len(lines) == len(ASKED)
    for rows, (call, asked) in zip(lines, ASKED.items(), strict=True):
        _, document = answer_of("dppca-verify", cli, "estimate", RESULT, *asked, "--ca", CA)
        told = document["estimates"]
        assert len(rows) == len(told), call
        for row, each in zip(rows, told, strict=True):
            assert row["term"] == ("(Intercept)" if each["name"] == "const" else each["name"])
            assert (row.get("refused") is None) == (each["refusal"] is None)
            for theirs, ours in COLUMNS.items():
                _require_same(row.get(theirs), each[ours])


def _require_same(theirs: Any, ours: float | None) -> None:
    if ours is None:
        assert theirs in (None, "Inf", "-Inf")
    else:
        assert theirs == pytest.approx(ours, rel=DIGITS)


def test_a_regression_has_its_covariance_its_formula_and_all_attributes(library: Path) -> None:
    code = """
    fitted <- ols(est, age ~ .)
    cat(jsonlite::toJSON(unname(vcov(fitted)), digits = NA), "\\n")
    cat(paste(fitted$table$attribute[-1]), "\\n")
    cat(deparse(formula(fitted)), nobs(fitted), "\\n")
    """
    covariance, attributes, said = _r(library, code).splitlines()
    names = [name for name in ("sex", "work") if name in attributes]
    _, document = answer_of(
        "dppca-verify", cli, "estimate", RESULT, "ols", "age", *names, "--ca", CA
    )
    np.testing.assert_allclose(json.loads(covariance), document["covariance"], rtol=DIGITS)
    assert names == ["sex", "work"]
    assert said.split() == ["age", "~", ".", "720"]


def test_what_is_refused_is_missing_and_the_summary_says_why(library: Path) -> None:
    said = _r(library, "print(summary(dppca_correlation(est, 'age', 'sex')))")
    assert "not estimable, the noise hides the variance of age" in " ".join(said.split())
    assert "NOBODY VOUCHES" not in said
    assert "NOBODY VOUCHES" in _r(library, "print(summary(dppca_mean(est, 'age')))", ca=False)


def test_conditions_have_classes_and_words(library: Path, tmp_path: Path) -> None:
    content = bytearray(RESULT.read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / RESULT.name).write_bytes(content)
    envelope = next(RESULT.parent.glob("components.npz.*"))
    shutil.copy(envelope, tmp_path)
    code = f"""
    told <- function(code) cat(class(tryCatch(code, error = identity, warning = identity)), "\\n")
    told(dppca_estimates('{tmp_path / RESULT.name}', ca = '{CA}'))
    told(dppca_estimates('{RESULT}'))
    told(dppca_mean(est, 'nobody'))
    told(dppca_estimates('{tmp_path}/none.npz'))
    """
    altered, unvouched, unknown, absent = _r(library, code).splitlines()
    assert f"dppca_AlteredError dppca_exit_{AlteredError.exit_code} dppca_error" in altered
    assert unvouched.startswith("dppca_unvouched warning")
    assert f"dppca_SettingError dppca_exit_{SettingError.exit_code}" in unknown
    assert absent.startswith("dppca_no_file")
    assert ExitCode.UNVOUCHED == 52  # R's own constant
