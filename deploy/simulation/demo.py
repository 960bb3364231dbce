"""Rows of the demo: the RAND Health Insurance Experiment as statsmodels ships it.

20,190 person-years of 1974-1982, 10 attributes, in the public domain. The file is read from the
folder of statsmodels without importing statsmodels, which would take longer than the rest of the
demo's preparation. Coinsurance, ``lncoins = ln(percent + 1)``, takes five values and gets their
names; all other columns are unchanged.
"""

import csv
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dppca.common.analysis.study_file import study_from_yaml
from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.study import Study

TARGET = "idp"
SEED = 1  # of the demo's rows, the same for everybody
STUDY_FILE = Path(__file__).with_name("demo.yaml")
PLANS = {
    "0": "free",
    "3.258096": "25%",
    "3.931826": "50%",
    "4.564348": "95%",
    "4.61512": "100%",
}


def demo_study() -> Study:
    """Return the study in ``demo.yaml``."""
    return study_from_yaml(STUDY_FILE.read_text(encoding="utf-8"))


def demo_table() -> Any:
    """Return the rows as a ``pyarrow.Table`` of text, with names for the plans.

    Raise `SettingError` if statsmodels is not installed, `DataError` if its file is not the known
    one.
    """
    import pyarrow as pa

    spec = find_spec("statsmodels")
    if spec is None or not spec.submodule_search_locations:
        raise SettingError("the demo's rows are part of statsmodels: pip install statsmodels")
    package = Path(next(iter(spec.submodule_search_locations)))
    with (package / "datasets" / "randhie" / "randhie.csv").open(newline="") as file:
        names, *rows = csv.reader(file)
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    labels = [PLANS.get(value) for value in columns["lncoins"]]
    if None in labels:
        raise DataError("statsmodels' randhie.csv holds a coinsurance that this demo does not know")
    return pa.table({**columns, "lncoins": labels})
