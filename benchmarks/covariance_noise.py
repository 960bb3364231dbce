"""Error of a public table's covariance under each law: ``python -m benchmarks.covariance_noise``.

One owner holds all rows of NLTCS or Adult, and noise is simulated in floating point. Every release
is reconciled by generalised least squares, as estimates are: Laplace noise is the fair rival. The
errors of the covariance are in rows: the root mean square over all entries, the spectral norm, and
what mixes the three leading components with the rest, ``|V_rest' E V_3|_F``.

`docs/evidence/covariance-noise.json` holds means and standard errors.
"""

import json
from collections.abc import Iterator
from math import sqrt
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.releases import state_study
from benchmarks.studies import DATA_SETS, ROOT, PublicData, coded_rows, data_folder, parse_rows
from dppca.common.analysis.estimates.noise import MomentNoise
from dppca.common.analysis.estimates.release import expected_moments
from dppca.common.analysis.spectrum.noise import NoiseSource
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study
from dppca.common.shell.console import run
from dppca.curator.planning.covariance_noise import JOINT_BITS, JOINT_SUM_WEIGHT

EVIDENCE = ROOT / "docs/evidence/covariance-noise.json"
LAWS: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "laplace": ({"mechanism": "laplace"}, {"sum_weight": 1.0}),
    "matrix-laplace": (
        {"mechanism": "matrix-laplace"},
        {"sum_weight": JOINT_SUM_WEIGHT, "resolution_bits": JOINT_BITS},
    ),
    "gaussian": ({"mechanism": "gaussian", "delta": "1e-9"}, {"sum_weight": 1.0}),
}
MEASURES = ("entries", "spectral", "off_top_3")


def study_under(data: PublicData, law: str, *, epsilon: str) -> Study:
    """Return the study of a data set under a law."""
    privacy, settings = LAWS[law]
    schema = {"attributes": data.attributes, **settings}
    return state_study(data.name, schema, {**privacy, "epsilon": epsilon}, owners=1)


def errors(
    study: Study, rows: NDArray[np.float64], *, draws: int, seed: int
) -> Iterator[list[float]]:
    """Give the three errors of one release after another."""
    layout, noise, n = study.table.layout, calibrate(study), len(rows)
    mean, second = rows.mean(axis=0), rows.T @ rows / n
    exact = np.block([[np.ones((1, 1)), mean[None]], [mean[:, None], second]])
    vectors = np.linalg.eigh(second - np.outer(mean, mean))[1][:, ::-1]
    reconciler: MomentNoise = expected_moments(study, noise, [n]).noise
    source = NoiseSource(
        np.random.default_rng(seed),
        layout,
        law=noise.law,
        width=noise.law.width,
        owner_rows=[n],
        own_means=False,
    )
    for _ in range(draws):
        drawn = source.draw()
        noised = exact.copy()
        noised[1:, 1:] += drawn.second
        if drawn.mean is not None:
            noised[0, 1:] += drawn.mean
            noised[1:, 0] += drawn.mean
        found = reconciler.reconcile(noised)
        moved = found[1:, 1:] - np.outer(found[0, 1:], found[0, 1:])
        error = n * (moved - (second - np.outer(mean, mean)))
        yield [
            float(np.sqrt(np.mean(error**2))),
            float(np.abs(np.linalg.eigvalsh(error)).max()),
            float(np.linalg.norm(vectors[:, 3:].T @ error @ vectors[:, :3])),
        ]


def measure(name: str, *, epsilon: str, draws: int) -> list[dict[str, Any]]:
    """Return a cell for each law: means and standard errors of the errors."""
    data, cells = DATA_SETS[name](data_folder()), []
    for law in LAWS:
        study = study_under(data, law, epsilon=epsilon)
        rows = coded_rows(study.table, parse_rows(study.table, data.rows))
        found = np.array(list(errors(study, rows, draws=draws, seed=1)))
        spread = found.std(axis=0, ddof=1) / sqrt(draws)
        values = zip(MEASURES, found.mean(axis=0), spread, strict=True)
        cell = {each: [float(f"{mean:.4g}"), float(f"{error:.2g}")] for each, mean, error in values}
        cells.append({"data": name, "epsilon": epsilon, "law": law, "draws": draws, **cell})
    return cells


@click.command()
@click.option("--draws", default=60, show_default=True, type=click.IntRange(min=2))
def cli(draws: int) -> None:
    """Simulate the noise of NLTCS and Adult, and write the record."""
    cells = [each for name in DATA_SETS for each in measure(name, epsilon="1", draws=draws)]
    EVIDENCE.write_text(json.dumps({"cells": cells}, indent=2) + "\n", encoding="utf-8")
    for each in cells:
        click.echo(json.dumps(each))


if __name__ == "__main__":
    run(cli)
