"""Rows of the demo: the RAND Health Insurance Experiment as statsmodels ships it.

20,190 person-years of 1974-1982, 10 attributes, in the public domain. The file is read from the
folder of statsmodels without importing statsmodels, which would take longer than the rest of the
demo's preparation. Coinsurance, ``lncoins = ln(percent + 1)``, takes five values and gets their
names; all other columns are unchanged.

The file names nobody. It has a person's years one after the other, and all but the visits is the
same in each of them, so neighbouring rows with the same answers are taken for one person. People
took part for three or five years: more rows than five are several people who answered alike.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

from dppca.common.analysis.study_file import study_from_yaml
from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.schema import Numeric
from dppca.common.kernel.schema.attributes import list_labels
from dppca.common.kernel.study import Study

TARGET = "idp"
KEY = "person"
VISITS = "mdvis"
MOST_YEARS = 5  # of a person in the experiment
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
    """Return the rows as a ``pyarrow.Table`` of text, with names for the plans and a `KEY`.

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
    table: dict[str, Sequence[Any]] = {**columns, "lncoins": labels}
    answers = zip(*(cells for name, cells in table.items() if name != VISITS), strict=True)
    people = [number for number, years in enumerate(_count_years(answers), 1) for _ in range(years)]
    return pa.table({**table, KEY: people})


def demo_dictionary() -> str:
    """Return what the demo's columns may hold, as a data dictionary that `study new` reads."""
    lines = ["name,type,lower,upper,labels"]
    for each in demo_study().table.attributes:
        labels = list_labels(each)
        if isinstance(each, Numeric):
            kind = "integer" if each.integer else "number"
            lines.append(f"{each.name},{kind},{each.lower:g},{each.upper:g},")
        elif labels is not None:
            lines.append(f"{each.name},label,,,{'|'.join(labels)}")
    return "\n".join([*lines, ""])


def _count_years(answers: Iterable[tuple[Any, ...]]) -> Iterator[int]:
    """Yield each person's number of years, from the answers of all rows."""
    for _, alike in groupby(answers):
        left = sum(1 for _ in alike)
        each = 3 if left > MOST_YEARS and left % 3 == 0 and left % MOST_YEARS else MOST_YEARS
        while left:
            yield min(each, left)
            left -= min(each, left)
