"""Data sets that synthetic rows are judged on, with public schemas.

NLTCS and Adult are `benchmarks.studies`'s, the demo is `dppca-simulate demo`'s. More are in no text
that the method was designed with:

fair
    A magazine's survey of marriages (R. Fair, 1978), 6,366 women, as statsmodels ships it. Each
    number in it stands for an answer that could be ticked; bounds are the first and last answer.
    Target: whether any time was spent in an affair.
diamonds
    53,940 round diamonds, as plotnine ships them (version `_PLOTNINE`, from the default index).
    Price in dollars, weight in carats, length, width and depth in millimetres (a round stone of 5
    carats is 11 mm wide and 7 mm deep), proportions in percent. Target: whether the cut is ideal,
    predicted without the cut.
rule
    20,000 people that this module makes from a seed, with numbers and labels that depend on each
    other, and one label that is a rule of three others: members are granted a loan below 45 years,
    others from 60 on in the north and the east, and below 60 elsewhere. Target: that label.

No bound and no bin is computed from rows.
"""

import csv
import io
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.releases import label_attribute, numeric_attribute, plain_attributes
from benchmarks.studies import ROOT, adult, data_folder, nltcs, parse_rows
from dppca.common.kernel.errors import DataError
from dppca.common.kernel.schema import Column, Schema
from dppca.common.kernel.schema.columns import parse_column
from dppca.common.kernel.study import Study, study_from_mapping
from dppca.deploy.simulation.demo import TARGET, demo_study, demo_table
from tools.install import run_pip

_PLOTNINE = "0.15.9"
_DIAMONDS = ROOT / "build/tools/diamonds.csv"
_POST_SECONDARY = frozenset(
    (
        *("Bachelors", "Some-college", "Assoc-acdm", "Assoc-voc", "Masters", "Prof-school"),
        "Doctorate",
    )
)


@dataclass(frozen=True, slots=True)
class Target:
    """What is predicted: the rows whose label of an attribute is one of some.

    Attributes
    ----------
    labels
        Labels of ``attribute`` that are the class which is asked for.
    hidden
        Attributes that the features leave out, the target's own among them.
    """

    name: str
    attribute: str
    labels: frozenset[str]
    hidden: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """A data set: what its values are judged as, whatever a release codes them as.

    Attributes
    ----------
    schema
        Plain: bounds and labels only.
    columns
        One array of shape (n,) per attribute.
    edges
        For the tables: inner edges of a numeric's cells, in its own unit; twenty equal
        cells where nothing is said.
    """

    name: str
    schema: Schema
    columns: tuple[Column, ...]
    targets: tuple[Target, ...]
    edges: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Rows of training and test parts together."""
        return len(self.columns[0])


@lru_cache(8)
def load_subject(name: str) -> Subject:
    """The data set called ``name``, one of `SUBJECTS` or `MADE`; the last one is kept."""
    from benchmarks.synthesis.made import MADE

    return (SUBJECTS.get(name) or MADE[name])()


def _nltcs() -> Subject:
    data = nltcs(data_folder())
    targets = [_binary_target(name, "1") for name in ("outside", "money")]
    return _subject("nltcs", data.attributes, data.rows, targets)


def _adult() -> Subject:
    data = adult(data_folder())
    post = Target(
        "post-secondary", "education", _POST_SECONDARY, hidden=("education", "education_num")
    )
    # The cells of the published comparisons with AIM.
    equal = {
        "age": np.linspace(17, 90, 33),
        "fnlwgt": np.linspace(0, 1_500_000, 33),
        "hours_per_week": np.linspace(1, 99, 33),
        "education_num": np.arange(0.5, 17),
    }
    edges = {name: each[1:-1] for name, each in equal.items()}
    for name, top in (("capital_gain", 99_999), ("capital_loss", 4_356)):
        edges[name] = np.r_[50, np.geomspace(100, top, 16)[1:-1]]
    targets = [_binary_target("income", ">50K"), post]
    return _subject("adult", data.attributes, data.rows, targets, edges=edges)


def demo_by_row() -> Study:
    """Return the demo's study where a row is somebody, as these benchmarks take all tables."""
    document = demo_study().model_dump(mode="json", by_alias=True, exclude_none=True)
    document["schema"] = {**document["schema"], "max_rows_per_person": 1}
    del document["schema"]["unit"]
    return study_from_mapping({**document, "privacy": {"mechanism": "laplace", "epsilon": "1.0"}})


def _demo() -> Subject:
    table, schema = demo_table(), demo_by_row().table
    columns = tuple(parse_column(a, table[a.name].combine_chunks()) for a in schema.attributes)
    plain = Schema.from_document({"attributes": plain_attributes(schema)})
    return Subject("demo", plain, columns, (_binary_target(TARGET, "1"),))


def _fair() -> Subject:
    spec = find_spec("statsmodels")
    if spec is None or not spec.submodule_search_locations:
        raise DataError("the survey ships inside statsmodels: pip install statsmodels")
    package = Path(next(iter(spec.submodule_search_locations)))
    names, rows = _read_csv((package / "datasets/fair/fair.csv").read_text())
    time = names.index("affairs")
    rows = [[*row[:time], "yes" if float(row[time]) > 0 else "no"] for row in rows]
    bounds = {
        "rate_marriage": (1, 5),
        "age": (17.5, 42),
        "yrs_married": (0.5, 23),
        "children": (0, 5.5),
        "religious": (1, 4),
        "educ": (9, 20),
    }
    jobs = ("occupation", "occupation_husb")
    attributes = [
        *(numeric_attribute(name, *each) for name, each in bounds.items()),
        *({"name": n, "type": "categorical", "categories": list(range(1, 7))} for n in jobs),
        {"name": "affair", "type": "binary", "values": ["no", "yes"]},
    ]
    assert [each["name"] for each in attributes[:-1]] == list(names[:time])
    return _subject("fair", attributes, rows, [_binary_target("affair", "yes")])


def _diamonds() -> Subject:
    names, rows = _read_csv(_diamonds_text())
    labels = {
        "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
        "color": list("DEFGHIJ"),
        "clarity": ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"],
    }
    bounds = {
        "carat": (0, 5),
        "depth": (40, 80),
        "table": (40, 100),
        "price": (0, 20_000),
        "x": (0, 12),
        "y": (0, 12),
        "z": (0, 8),
    }
    attributes = [
        label_attribute(name, labels[name])
        if name in labels
        else numeric_attribute(name, *bounds[name])
        for name in names
    ]
    ideal = Target("ideal cut", "cut", frozenset({"Ideal"}), hidden=("cut",))
    return _subject("diamonds", attributes, rows, [ideal])


def _diamonds_text() -> str:
    """The table, from a wheel that is fetched once."""
    if not _DIAMONDS.exists():
        with tempfile.TemporaryDirectory() as folder:
            asked = ("download", "--quiet", "--no-deps", "--only-binary", ":all:")
            done = run_pip(*asked, "--dest", folder, f"plotnine=={_PLOTNINE}", capture=True)
            if done.returncode:
                raise DataError(f"plotnine {_PLOTNINE} cannot be fetched: {done.stderr[-300:]}")
            with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
                content = wheel.read("plotnine/data/diamonds.csv")
        _DIAMONDS.parent.mkdir(parents=True, exist_ok=True)
        _DIAMONDS.write_bytes(content)
    return _DIAMONDS.read_text()


def _rule() -> Subject:
    rng, n = np.random.default_rng(24), 20_000

    def choose(score: NDArray[Any], cuts: Sequence[float]) -> NDArray[np.int32]:
        return np.digitize(score + rng.standard_normal(n), cuts).astype(np.int32)

    wealth = rng.standard_normal(n)
    age = np.clip(np.rint(48 + 16 * rng.standard_normal(n) - 3 * wealth), 18, 90)
    region, education = choose(wealth / 2, (-1, 0, 0.8)), choose(wealth, (-1, 0.2, 1.2))
    income = np.clip(np.exp(3 + 0.4 * wealth + 0.3 * education + rng.normal(0, 0.3, n)), 0, 250)
    debts = np.clip(income * rng.gamma(1.5, 0.4, n) * (age < 70), 0, 250)
    children = np.clip(rng.poisson(1 + 0.8 * (age > 30)), 0, 6).astype(float)
    member, urban = choose(wealth + (age - 50) / 20, (0.3,)), choose(0.5 * region, (1,))
    work = choose((age - 50) / 15 + education / 4, (-1, 0.5, 1.5))
    near = (region == 0) | (region == 2)
    granted = np.where(member == 1, age < 45, near == (age >= 60)).astype(np.int32)
    labels = {
        "region": ["north", "south", "east", "west"],
        "education": ["none", "school", "college", "university"],
        "work": ["trainee", "employed", "own business", "retired"],
        **{name: ["no", "yes"] for name in ("member", "urban", "granted")},
    }
    bounds = {"age": (18, 90), "income": (0, 250), "debts": (0, 250), "children": (0, 6)}
    names = (*bounds, "region", "education", "work", "member", "urban", "granted")
    columns = (age, income, debts, children, region, education, work, member, urban, granted)
    attributes = [
        numeric_attribute(name, *bounds[name])
        if name in bounds
        else label_attribute(name, labels[name])
        for name in names
    ]
    edges = {"age": np.arange(19.5, 90, 5), "children": np.arange(0.5, 6)}
    schema = Schema.from_document({"attributes": attributes})
    target = _binary_target("granted", "yes")
    return Subject("rule", schema, columns, (target,), edges)


def _read_csv(text: str) -> tuple[list[str], list[list[str]]]:
    names, *rows = csv.reader(io.StringIO(text))
    return names, rows


def _binary_target(name: str, label: str) -> Target:
    return Target(name, name, frozenset({label}), hidden=(name,))


def _subject(
    name: str,
    attributes: Sequence[Mapping[str, Any]],
    rows: Sequence[Sequence[str]],
    targets: Sequence[Target],
    **others: Any,
) -> Subject:
    schema = Schema.from_document({"attributes": list(attributes)})
    return Subject(name, schema, tuple(parse_rows(schema, rows)), tuple(targets), **others)


SUBJECTS: dict[str, Callable[[], Subject]] = {
    "nltcs": _nltcs,
    "demo": _demo,
    "fair": _fair,
    "rule": _rule,
    "adult": _adult,
    "diamonds": _diamonds,
}
"""Those that take the least time first."""
