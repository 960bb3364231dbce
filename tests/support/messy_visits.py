"""Visits of one made-up survey in three files, as three sites have them: no two are coded alike.

A CSV of a German Excel, a workbook with titles above its header, and a file of SPSS with value
labels and declared missing values; `write_visits` also returns the rows as they are meant.
"""

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyreadstat

from tests.support.workbooks import write_workbook

REGIONS = ("Sachsen-Anhalt", "Thüringen", "Île-de-France")
DICTIONARY = """\
name,type,lower,upper,labels,unknown,unit,description
age,number,18,100,,,years,age at the visit
sex,binary,,,male|female,,,
region,categorical,,,Sachsen-Anhalt|Thüringen|Île-de-France,other,,
smoking,categorical,,,never|former|current,unknown,,
bmi,number,12,60,,,kg/m2,body mass index
sbp,number,70,230,,,mmHg,systolic blood pressure
diabetes,binary,,,no|yes,,,
visit_date,date,2022-01-01,2025-12-31,,,,
"""
_GERMAN = {"male": "männlich", "female": "weiblich", "no": "nein", "yes": "ja"}
_NAMES = ("patient_id", "age", "sex", "region", "smoking", "bmi", "sbp", "diabetes", "visit_date")
Visit = dict[str, Any]


def draw_visits(random: np.random.Generator, prefix: str, n_rows: int) -> list[Visit]:
    """Rows as they are meant: None is missing."""
    rows = []
    for number in range(n_rows):
        age = int(np.clip(random.normal(52, 16), 18, 98))
        smoking = str(random.choice(["never", "former", "current"]))
        gone = random.random(3) < 0.05
        rows.append(
            {
                "patient_id": f"{prefix}-{number // 2:05d}",
                "age": age,
                "sex": str(random.choice(["male", "female"])),
                "region": str(random.choice(REGIONS)),
                "smoking": None if gone[0] else smoking,
                "bmi": None if gone[1] else round(float(random.normal(26, 4)), 1),
                "sbp": None if gone[2] else int(112 + 0.45 * (age - 40) + random.normal(0, 12)),
                "diabetes": str(random.choice(["no", "yes"], p=[0.8, 0.2])),
                "visit_date": dt.date(2022, 1, 3) + dt.timedelta(int(random.integers(0, 900))),
            }
        )
    return rows


def write_visits(folder: Path, *, seed: int, n_rows: int) -> dict[str, list[Visit]]:
    """Write ``hospital.csv``, ``clinic.xlsx`` and ``agency.sav``; return what their rows mean."""
    random = np.random.default_rng(seed)
    rows = {name: draw_visits(random, name[0].upper(), n_rows) for name in ("hospital", "clinic")}
    rows["agency"] = draw_visits(random, "A", n_rows)
    _write_german(folder / "hospital.csv", rows["hospital"])
    _write_titled(folder / "clinic.xlsx", rows["clinic"])
    _write_spss(folder / "agency.sav", rows["agency"])
    return rows


def _number(value: float | None) -> str:
    return "999" if value is None else str(value).replace(".", ",")


def _write_german(path: Path, rows: list[Visit]) -> None:
    lines = [";".join((*_NAMES, "comment"))]
    for row in rows:
        cells = {**row, "sex": _GERMAN[row["sex"]], "diabetes": _GERMAN[row["diabetes"]]}
        cells |= {name: _number(row[name]) for name in ("bmi", "sbp")}
        cells |= {"smoking": row["smoking"] or "", "visit_date": f"{row['visit_date']:%d.%m.%Y}"}
        lines.append(";".join([*(str(cells[name]) for name in _NAMES), "n. erschienen"]))
    path.write_bytes("\r\n".join([*lines, ""]).encode("windows-1252"))


def _write_titled(path: Path, rows: list[Visit]) -> None:
    shown = [name.title() if len(name) > 3 else name.upper() for name in _NAMES]
    cells: list[list[Any]] = [["Visits of the clinic"], [], shown]
    for row in rows:
        coded = {**row, "sex": {"male": "m", "female": "w"}[row["sex"]]}
        coded |= {"diabetes": int(row["diabetes"] == "yes")}
        coded |= {name: 999 if row[name] is None else row[name] for name in ("bmi", "sbp")}
        cells.append([coded[name] for name in _NAMES])
    write_workbook(path, {"Export 2024": cells})


def _write_spss(path: Path, rows: list[Visit]) -> None:
    smoking = {"never": 0.0, "former": 1.0, "current": 2.0, None: 9.0}
    columns: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in _NAMES}
    columns["sex"] = [1.0 if row["sex"] == "male" else 2.0 for row in rows]
    columns["diabetes"] = [float(row["diabetes"] == "yes") for row in rows]
    columns["smoking"] = [smoking[row["smoking"]] for row in rows]
    columns["region"] = [float(REGIONS.index(row["region"]) + 1) for row in rows]
    for name in ("bmi", "sbp"):
        columns[name] = [999.0 if row[name] is None else float(row[name]) for row in rows]
    pyreadstat.write_sav(
        pl.DataFrame(columns),
        str(path),
        variable_value_labels={
            "sex": {1.0: "männlich", 2.0: "weiblich"},
            "diabetes": {0.0: "nein", 1.0: "ja"},
            "smoking": {0.0: "never", 1.0: "former", 2.0: "current", 9.0: "keine Angabe"},
            "region": {float(place + 1): name for place, name in enumerate(REGIONS)},
        },
        missing_ranges={"bmi": [999], "sbp": [999], "smoking": [9]},
    )
