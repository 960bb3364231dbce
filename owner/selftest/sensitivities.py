"""Is the noise wide enough for the largest change that one person can make? Exact, without draws.

Neighbouring tables are searched, not computed: among all pairs of rows of a coarse grid, in each
coding of a row (`dppca.owner.selftest.kinds`). The change that is found costs what the law says,
and that must not be more than the ledger charges. What the search adds up is compared with what is
read from a file of these rows; where people are protected, of people with one row to many, whose
keys are written in two ways. For a model the machines are trained on tables that differ in the rows
of one person.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.moments.people import WHOLE
from dppca.common.kernel.privacy.laws import LAWS
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema import MISSING, Schema
from dppca.common.kernel.schema.attributes import Attribute, Date, Numeric, list_labels
from dppca.common.kernel.schema.units import Unit
from dppca.common.kernel.study import Study
from dppca.owner.records.table import moments_of_table, open_table
from dppca.owner.release.weights import plan_release, request_weights
from dppca.owner.selftest.changes import Change, Row, find_change, grid_rows, row_vectors
from dppca.owner.selftest.findings import Finding
from dppca.owner.selftest.kinds import CODINGS, laws_of
from dppca.owner.selftest.releases import make_study, no_result, privacy_of

_AGE: dict[str, object] = {"name": "a", "type": "numeric", "lower": 0, "upper": 1}
_TARGETS: list[dict[str, object]] = [
    {"name": "b", "type": "binary", "values": ["x", "y"]},
    {"name": "b", "type": "categorical", "categories": ["x", "y", "z"]},
]
_ROWS = (1, 2, 3)  # of one person
_MANY = (1, 2, 20)  # of one person, who weighs as one row
_PEOPLE = 60  # of a file: one with one row, one with two, and so on
_KEY = "whose"
_BITS = 6  # of resolution, so few that every change can be tried


def check_sensitivities(folder: Path) -> list[Finding]:
    """Search the largest changes of contributions and models; files are written to ``folder``."""
    return [_contributions(), _readings(folder), _models(folder)]


def _contributions() -> Finding:
    """Compare the largest change in each coding, times a person's rows, with the charge."""
    faults, most = list[str](), 0.0
    for name, coding in CODINGS.items():
        laws = laws_of(name)
        found = find_change(_study(coding, laws[0], 1))
        for law, k in product(laws, _ROWS):
            study = _study(coding, law, k)
            noise = calibrate(study)
            spent = _share(noise, found, study.unit.factor)
            most = max(most, spent)
            if spent > 1:
                faults.append(f"{name}, {law}, k = {k}: {spent:.3f} times what is charged")
    says = (
        f"the largest changes in {len(CODINGS)} codings, by 1 to {_ROWS[-1]} rows of a person, "
        f"cost {most:.3f} of what is charged, at most"
    )
    return Finding.of_faults("sensitivity: contributions", faults, says)


def _readings(folder: Path) -> Finding:
    """Check that a file's sums are those of its rows, each taken as often as it is there."""
    faults = []
    for name, coding in CODINGS.items():
        schema = _study(coding, laws_of(name)[0], 1).table
        rows, path = grid_rows(schema), folder / "rows-of-a-grid.csv"
        if schema.unit is Unit.PERSON:
            rows = rows[:_PEOPLE]
        path.write_text(_csv(schema, rows), encoding="utf-8")
        exact = _exact(schema, row_vectors(schema, rows))
        with open_table(path, schema).latest(_key(schema)) as table:
            if not np.array_equal(moments_of_table(table, schema).packed, exact):
                faults.append(f"{name}: the sums of a file are not those of its rows")
    says = f"the sums of a file are those of its rows in {len(CODINGS)} codings"
    return Finding.of_faults("sensitivity: sums of a file", faults, says)


def _csv(schema: Schema, rows: Sequence[Row]) -> str:
    """Return rows as text, the first one once, the second one twice, and so on.

    The equal ones are of one person, whose key is written as two texts in turns.
    """
    lines = [",".join([*(each.name for each in schema.attributes), _KEY])]
    for number, row in enumerate(rows, 1):
        cells = ",".join(map(_cell, schema.attributes, row))
        lines += [f"{cells},{number}{'.0' * (again % 2)}" for again in range(number)]
    return "\n".join([*lines, ""])


def _exact(schema: Schema, vectors: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sums of what `_csv` writes, of vectors of its rows, by numbers without an end.

    They are those of equation (1) of `dppca.common.kernel.moments.people`, where people weigh.
    """
    if schema.unit is Unit.ROW:
        total = (vectors * np.arange(1, len(vectors) + 1)[:, None]).sum(axis=0)
        return np.asarray(total, np.int64)
    missing = [np.nan if isinstance(each, Numeric) else MISSING for each in schema.attributes]
    default = row_vectors(schema, [tuple(missing)])[0].astype(object)
    people = 0 * default
    for k, vector in enumerate(vectors.astype(object), 1):
        weight = WHOLE * min(k, schema.rows_counted)
        people += weight // k * k * vector + (weight - weight // k * k) * default
    return np.array([each // WHOLE for each in people], np.int64)


def _key(schema: Schema) -> str:
    """Return the column that tells people apart; empty where rows are protected."""
    return _KEY if schema.unit is Unit.PERSON else ""


def _cell(attribute: Attribute, value: float) -> str:
    if isinstance(attribute, Date):
        return attribute.format_value(value)
    labels = list_labels(attribute)
    if labels is not None:
        return labels[int(value)]
    return "" if np.isnan(value) else repr(float(value))


def _study(coding: Callable[[int], dict[str, Any]], law: str, k: int) -> Study:
    """Return a study of a coding, whose people may have k rows unless it counts people."""
    schema = {"max_rows_per_person": k, **coding(1)}
    return make_study("sensitivity", privacy_of(law), **schema, resolution_bits=_BITS)


def _share(noise: Calibration, change: Change, k: int) -> float:
    """Return what a change by k rows costs, as a share of what is charged."""
    found = replace(noise.sensitivity, l1=change.l1, l2_squared=change.l2_squared)
    cost = noise.law.cost(found, k)
    return float(max(cost.epsilon, cost.rho) / max(noise.charge.epsilon, noise.charge.rho))


def _models(folder: Path) -> Finding:
    faults, most = list[str](), 0.0
    people: dict[str, object] = {"unit": "person", "max_rows_per_person": None}
    units = [(dict[str, object](max_rows_per_person=k), k, "k") for k in _ROWS]
    units += [(people, k, "people, k") for k in _MANY]
    for target, law, (unit, k, says) in product(_TARGETS, LAWS, units):
        schema: dict[str, Any] = {"attributes": [_AGE, target], **unit}
        study = make_study("sensitivity", privacy_of(law), **schema)
        found = _largest_change(folder, study, privacy_of(law), k)
        most = max(most, found)
        if found > 1:
            faults.append(
                f"a {target['type']} target, {law}, {says} = {k}: {found:.3f} times what is charged"
            )
    says = (
        f"the largest changes of a model's weights, by 1 to {_ROWS[-1]} rows of a person, or up to "
        f"{_MANY[-1]} that weigh as one, cost {most:.3f} of what is charged, at most"
    )
    return Finding.of_faults("sensitivity: models", faults, says)


def _largest_change(folder: Path, study: Study, privacy: Mapping[str, object], k: int) -> float:
    """Train on rows in the middle and k at an end, which change their label or their side.

    The k rows are one person's, whose key is written as two texts in turns.
    """
    asked = request_weights(
        study, data_set="d", target="b", epsilon="1", delta=privacy.get("delta"), C=0.01
    )
    plan = plan_release(asked, no_result(study, 1), n_rows=2 + k, components_sha256="0" * 64)
    key, exact = _key(study.table), []
    for number, last in enumerate(("1.0,x", "1.0,y", "0.0,x", "0.0,y")):
        path = folder / f"rows-{number}.csv"
        rows = [f"{last},3{'.0' * (again % 2)}" for again in range(k)]
        lines = [f"a,b,{_KEY}", "0.5,x,1", "0.5,y,2", *rows, ""]
        path.write_text("\n".join(lines), encoding="utf-8")
        with open_table(path, study.table).latest(key) as table:
            read, planned = plan.read(table), plan
            if table.people is not None:
                planned = plan.of_people(table.people.n_people)
            exact.append(planned.prepare(read))
    noise = planned.weights.calibration
    moved = [np.abs(a - b).astype(object) for a in exact for b in exact]
    change = Change(max(int(m.sum()) for m in moved), max(int((m**2).sum()) for m in moved))
    return _share(noise, change, 1)
