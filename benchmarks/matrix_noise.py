"""Coverage, shares and time of matrix-Laplace noise: ``python -m benchmarks.matrix_noise``.

Coverage: the shares of 95 % intervals that hold the truth about a made population, of 400 releases
of 15,000 people by three owners, or ten in two cells, whose noise is drawn as a release draws it.
Shares: the deviation of a product's noise that h owners make together at epsilon 1, over that of
their columns without rounding and blanket. Time: seconds of the processor for the noise of a whole
release, the least of three, beside independent Laplace noise.

`docs/evidence/matrix-noise.json` holds all. A cell takes minutes.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import ceil, hypot, sqrt
from typing import Any

import click
import numpy as np

from benchmarks.studies import DATA_SETS, ROOT, data_folder
from dppca.common.kernel.privacy.matrix_noise import matrix_scales, matrix_space
from dppca.common.kernel.privacy.mechanisms import add_noise
from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema import Schema
from dppca.common.shell.console import run
from dppca.curator.planning.covariance_noise import JOINT_BITS, JOINT_SUM_WEIGHT
from tests.support.coverage import PEOPLE, QUESTIONS, Cell, Releases, coded_people, tally
from tests.support.studies import binary_of, make_study

EVIDENCE = ROOT / "docs/evidence/matrix-noise.json"
RELEASES = 400
SIDES = (17, 105, 500)
HONEST = (1, 3, 10, 30)
_ADDED = {"neighbours": "added", "sum_weight": 1.0, "max_rows": 10**9}
_TARGETS = {"targets": ["ill", "score"], "target_weight": 2}
CELLS: list[tuple[str, str, Mapping[str, Any], int]] = [
    *(
        (trust, epsilon, {}, seed)
        for seed, (trust, epsilon) in enumerate(product(("owner", "aggregate"), ("0.5", "1", "3")))
    ),
    *(
        ("owner", epsilon, changes, first + number)
        for number, epsilon in enumerate(("1", "3"))
        for first, changes in ((100, _ADDED), (200, _TARGETS))
    ),
    *((trust, "3", {"owners": 10}, 300) for trust in ("owner", "aggregate")),
]
"""Trust, epsilon, what a study has more or how many owners, and the seed of each cell."""


def measure_cell(
    trust: str, epsilon: str, changes: Mapping[str, Any], seed: int, *, releases: int
) -> dict[str, Any]:
    """Return a cell: intervals that held the truth, and that were given, by question."""
    asked = dict(changes)
    study = Cell("matrix-laplace", trust, asked.pop("owners", 3), epsilon).study(PEOPLE, **asked)
    drawn = Releases(study, coded_people(study), seed=seed)
    found = tally(drawn, QUESTIONS, count=releases, these_rows=False)
    held = {name: [each.held, each.given] for name, each in found.items()}
    return {"trust": trust, "epsilon": epsilon, **changes, "releases": releases, "held": held}


def measure_shares(data: str, attributes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the columns and the deviation of shares of owners who trust the sum alone."""
    schema = {"max_rows_per_person": 1, "attributes": list(attributes)}
    schema |= {"sum_weight": JOINT_SUM_WEIGHT, "resolution_bits": JOINT_BITS}
    space, cells = matrix_space(Schema.from_document(schema).layout), []
    without = float(space.nuclear) * 4**JOINT_BITS / 2
    for honest in HONEST:
        facts = {"rows": 1, "honest": honest, "resolution_bits": JOINT_BITS}
        scales = matrix_scales(space, epsilon=Fraction(1), **facts)
        columns = honest * ceil(space.columns / honest)
        over = hypot(scales.scale, scales.blanket / sqrt(columns)) / without
        found = {"columns": columns, "least": space.columns, "deviation": round(over, 5)}
        cells.append({"data": data, "honest": honest, **found})
    return cells


def measure_time(side: int) -> dict[str, float]:
    """Return seconds of the processor for a release of ``side - 1`` yes/no columns."""
    attributes = [binary_of(f"b{i}", ["no", "yes"]) for i in range(side - 1)]
    seconds: dict[str, float] = {"side": side}
    for law in ("matrix-laplace", "laplace"):
        study = make_study(attributes, mechanism=law, resolution_bits=14, max_rows=10**6)
        seconds[law] = float(f"{min(_seconds(_drawing(study)) for _ in range(3)):.2g}")
    return seconds


def _drawing(study: Any) -> Callable[[], object]:
    noise, layout, entropy = calibrate(study), study.table.layout, OperatingSystemEntropy()
    if noise.law.is_joint:
        return lambda: noise.law.draw_release(layout, None, entropy=entropy)
    zeros = np.zeros(layout.n_entries, np.int64)
    return lambda: add_noise(zeros, noise, entropy=entropy)


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


@click.command()
@click.option("--releases", default=RELEASES, show_default=True, type=click.IntRange(min=2))
def cli(releases: int) -> None:
    """Measure all cells and times, and write the record."""
    cells = [measure_cell(*each, releases=releases) for each in CELLS]
    shares = [
        cell
        for name, read in DATA_SETS.items()
        for cell in measure_shares(name, read(data_folder()).attributes)
    ]
    times = [measure_time(side) for side in SIDES]
    record = {"coverage": cells, "shares": shares, "seconds": times}
    EVIDENCE.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(cli)
