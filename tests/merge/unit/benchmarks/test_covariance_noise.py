"""The committed record of the covariance's noise, and what the page says of it."""

import json

import pytest

from benchmarks.covariance_noise import EVIDENCE, MEASURES, errors, study_under
from benchmarks.studies import NLTCS_COLUMNS, ROOT, PublicData, coded_rows, parse_rows

FALSE_ALARMS = 0.0  # all noise has a seed
CELLS = {(each["data"], each["law"]): each for each in json.loads(EVIDENCE.read_text())["cells"]}
MOST = {"nltcs": (0.52, 0.58, 0.54), "adult": (0.74, 0.86, 0.75)}


@pytest.mark.parametrize("data", MOST)
def test_noise_of_the_whole_release_leaves_less_than_laplace_noise_after_least_squares(
    data: str,
) -> None:
    for name, most in zip(MEASURES, MOST[data], strict=True):
        joint, usual = (CELLS[data, law][name][0] for law in ("matrix-laplace", "laplace"))
        assert joint / usual <= most, name


def test_the_page_has_the_records_figures() -> None:
    page = (ROOT / "docs/explanation/privacy.md").read_text()
    shares = [
        CELLS[data, "matrix-laplace"]["entries"][0] / CELLS[data, "laplace"]["entries"][0]
        for data in MOST
    ]
    assert f"{shares[0]:.2f} of the noise that Laplace leaves" in page
    assert f"on Adult {shares[1]:.2f}" in page


def test_errors_are_those_of_a_small_table() -> None:
    columns = NLTCS_COLUMNS[:4]
    attributes = [{"name": name, "type": "binary", "values": [0, 1]} for name in columns]
    rows = [[str(i >> place & 1) for place in range(4)] for i in range(16)] * 20
    data = PublicData("small", attributes, rows, 0.9, columns[0])
    study = study_under(data, "matrix-laplace", epsilon="1")

    found = list(
        errors(study, coded_rows(study.table, parse_rows(study.table, rows)), draws=3, seed=1)
    )

    assert len(found) == 3
    assert all(0 < entries < spectral for entries, spectral, _ in found)
