"""Is the noise wide enough for the largest change that one person can make? Exact, without draws.

Neighbouring tables are searched, not computed: among all pairs of rows of a coarse grid, for one
schema of each kind. The change that is found costs what the law says, and that must not be more
than the ledger charges. For a model the machines are trained on tables that differ in one row.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.privacy.laws import LAWS
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study
from dppca.owner.records.table import open_table
from dppca.owner.release.weights import plan_release, request_weights
from dppca.owner.selftest.draws import find_neighbours
from dppca.owner.selftest.findings import Finding
from dppca.owner.selftest.releases import make_study, no_result, privacy_of

_AGE: dict[str, object] = {"name": "age", "type": "numeric", "lower": 0, "upper": 1}
_SEX: dict[str, object] = {"name": "sex", "type": "binary", "values": ["f", "m"]}
_ILL: dict[str, object] = {"name": "ill", "type": "binary", "values": ["no", "yes"]}
_WORK: dict[str, object] = {"name": "work", "type": "categorical", "categories": ["a", "b", "c"]}
_BALL: dict[str, object] = {"type": "numeric", "centre": 0.5, "scale": 0.5}
_TREE: dict[str, object] = {
    "tree": [{"by": "age", "at_most": 0.4}, {}, {"by": "sex", "labels": ["f"]}, {}, {}],
    "target": "work",
}
_TARGETS: list[dict[str, object]] = [
    {"name": "b", "type": "binary", "values": ["x", "y"]},
    {"name": "b", "type": "categorical", "categories": ["x", "y", "z"]},
]
_BOX = [_AGE, _SEX, _WORK]
SCHEMAS: dict[str, dict[str, Any]] = {
    "products": {"attributes": _BOX},
    "numerics": {"attributes": [_AGE, {**_AGE, "name": "height"}]},
    "sums of another weight": {"attributes": _BOX, "sum_weight": 2.0},
    "histograms": {
        "attributes": [{**_AGE, "histogram": True, "bins": 4}, _SEX],
        "histogram_weight": 2.0,
    },
    "missing numbers": {
        "attributes": [
            {**_AGE, "missing": "indicator", "histogram": True, "bins": 4},
            {**_AGE, "name": "height", "missing": "indicator"},
            _SEX,
        ],
    },
    "bins": {"attributes": [{**_AGE, "products": "bins", "bins": 3}, _SEX, _WORK]},
    "targets": {"attributes": _BOX, "targets": ["sex"], "target_weight": 3},
    "tables": {"attributes": [_SEX, _ILL], "tables": [{"table": ["sex", "ill"]}]},
    "heavy tables": {
        "attributes": _BOX,
        "tables": [{"table": ["age", "sex"], "cells": {"age": 3}}, {"table": ["work"]}],
        "tables_weight": 3.0,
    },
    "trees": {"attributes": _BOX, "tables": [_TREE]},
    "rows in the unit ball": {
        "attributes": [{**_BALL, "name": "u"}, {**_BALL, "name": "v"}],
        "row_norm": {},
    },
    "rows in the unit ball without sums": {
        "attributes": [{**_BALL, "name": "u"}, {**_BALL, "name": "v"}],
        "row_norm": {"include_sums": False},
    },
    "tables alone": {
        "attributes": _BOX,
        "only_tables": True,
        "tables": [_TREE, {"table": ["sex", "work"]}],
        "changes": {"continues": {"study": "0" * 64, "result": "1" * 64}, "components": None},
    },
    "three rows a person": {"attributes": [_AGE, _SEX], "max_rows_per_person": 3},
}
"""Schemas in which every kind of entry that a contribution has occurs."""


def check_sensitivities(folder: Path) -> list[Finding]:
    """Search the largest changes of contributions and models; files are written to ``folder``."""
    faults, most = list[str](), 0.0
    for name, schema in SCHEMAS.items():
        for law in LAWS:
            study = make_study("sensitivity", privacy_of(law), **{"resolution_bits": 6, **schema})
            noise = calibrate(study)
            a, b = find_neighbours(study, noise)
            spent = _share(noise, a.packed - b.packed)
            most = max(most, spent)
            if spent > 1:
                faults.append(f"{name}, {law}: {spent:.3f} times what is charged")
    says = (
        f"the largest changes of {len(SCHEMAS)} kinds of schemas cost {most:.3f} of what is "
        "charged, at most"
    )
    return [
        Finding.of_faults("sensitivity: contributions", faults, says),
        _models(folder),
    ]


def _share(noise: Calibration, change: NDArray[np.int64]) -> float:
    """Return what a change of the sums costs, as a share of what is charged."""
    moved = np.abs(change).astype(object)
    found = replace(noise.sensitivity, l1=int(moved.sum()), l2_squared=int((moved**2).sum()))
    cost = noise.law.cost(found, 1)
    return float(max(cost.epsilon, cost.rho) / max(noise.charge.epsilon, noise.charge.rho))


def _models(folder: Path) -> Finding:
    faults, most = list[str](), 0.0
    for target, law in product(_TARGETS, LAWS):
        study = make_study("sensitivity", privacy_of(law), [_AGE | {"name": "a"}, target])
        found = _largest_change(folder, study, privacy_of(law))
        most = max(most, found)
        if found > 1:
            faults.append(f"a {target['type']} target, {law}: {found:.3f} times what is charged")
    says = f"the largest changes of a model's weights cost {most:.3f} of what is charged, at most"
    return Finding.of_faults("sensitivity: models", faults, says)


def _largest_change(folder: Path, study: Study, privacy: Mapping[str, object]) -> float:
    """Train on rows in the middle and one at an end, which changes its label or its side."""
    asked = request_weights(
        study, data_set="d", target="b", epsilon="1", delta=privacy.get("delta"), C=0.01
    )
    plan = plan_release(asked, no_result(study, 1), n_rows=3, components_sha256="0" * 64)
    exact = []
    for number, last in enumerate(("1.0,x", "1.0,y", "0.0,x", "0.0,y")):
        path = folder / f"rows-{number}.csv"
        path.write_text(f"a,b\n0.5,x\n0.5,y\n{last}\n", encoding="utf-8")
        exact.append(plan.prepare(plan.read(open_table(path, study.table))))
    return max(_share(plan.weights.calibration, a - b) for a in exact for b in exact)
