"""Six regressions beside rivals at tiny size: ours under each relation and law, and R's guest."""

import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.rivals.estimates import NONE, OURS, PURE
from benchmarks.rivals.regressions import ADDED, DPRIVSTATS, KINDS, REPLACED, SlopeMaker, run_maker
from tests.support.requirements import miss

SEEDS = [(7, 0)]
STAND_IN = """
dp_lm <- function(formula, data, epsilon, delta, bounds, assume_public_design) {
  stopifnot(abs(data) <= 1, epsilon == 1 / 6, !assume_public_design)
  structure(lm(formula, data), class = c("dp_lm", "lm"))
}
confint.dp_lm <- function(object, ...) cbind(coef(object), coef(object) - .125, coef(object) + .125)
dp_glm <- function(formula, data, family, ...) glm(formula, family, data)
"""


OF_OURS = [SlopeMaker(OURS, REPLACED), SlopeMaker(OURS, ADDED), SlopeMaker(PURE, REPLACED)]


@pytest.mark.parametrize("who", OF_OURS)
def test_hardly_any_noise_gives_the_fits_of_the_rows(who: SlopeMaker) -> None:
    plain = run_maker(SlopeMaker(NONE, ""), "", SEEDS)
    found = run_maker(who, "1000", SEEDS)
    for kind in KINDS:
        assert found["made"][kind] == found["given"][kind] == 1
        assert found["error"][kind] < 0.01
        assert found["width"][kind] == pytest.approx(plain["width"][kind], rel=0.15)


def test_an_exact_package_of_r_gives_the_fits_of_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("Rscript") is None:
        miss("Rscript", "apt-get install r-base-core")
    package, library = tmp_path / DPRIVSTATS, tmp_path / "library"
    (package / "R").mkdir(parents=True)
    library.mkdir()
    (package / "R/fits.R").write_text(STAND_IN)
    (package / "DESCRIPTION").write_text(f"Package: {DPRIVSTATS}\nVersion: 0.1.0\n")
    names = "export(dp_lm, dp_glm)\nS3method(confint, dp_lm)\nimport(stats)\n"
    (package / "NAMESPACE").write_text(names)
    install = ["R", "CMD", "INSTALL", f"--library={library}", str(package)]
    subprocess.run(install, check=True, capture_output=True)
    monkeypatch.setenv("R_LIBS", str(library))
    found = run_maker(SlopeMaker(DPRIVSTATS, REPLACED), "1", SEEDS)
    assert found["error"] == pytest.approx(dict.fromkeys(KINDS, 0), abs=1e-6)
    assert found["given"] == {"linear": 1, "logistic": 0}
    assert found["covers"]["linear"] == 1
