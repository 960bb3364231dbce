"""Kinds of release that a site can make, as one table from which the self-test makes its cases.

A kind is a choice of one level in each dimension: form and law of the release, coding of rows and
weights, rows of a person, width of the noise, size, and what else a study says. Every combination
of form, law, coding and rows of a person is a case, for contributions in two sizes; the other
dimensions go round, so that any two levels that can meet do so in some case.

`FIELDS` says of every field of a study, its schema and a model's terms in which dimension it is
varied, or why no noise depends on it. A new field, law, trust, kind of release or method that
releases needs a line here: ``tests/push/unit/owner/selftest/test_kinds.py``.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cache
from itertools import combinations, product
from types import MappingProxyType
from typing import Any

from dppca.common.kernel.documents.stated import Stated
from dppca.common.kernel.privacy.laws import LAWS
from dppca.common.kernel.study import Trust
from dppca.owner.ledger.entries import ReleaseKind
from dppca.owner.models.catalogue import DP_SVM

Document = dict[str, Any]
Levels = Mapping[str, Any]


class ReleaseForm(StrEnum):
    """What leaves a site; `MAKES` says which kind of release, trust and method it has."""

    CONTRIBUTION = "contribution"
    MASKED = "masked contribution"
    MODEL = "model"


MAKES: Mapping[ReleaseForm, tuple[ReleaseKind, Trust | None, str | None]] = MappingProxyType(
    {
        ReleaseForm.CONTRIBUTION: (ReleaseKind.CONTRIBUTION, Trust.OWNER, None),
        ReleaseForm.MASKED: (ReleaseKind.CONTRIBUTION, Trust.AGGREGATE, None),
        ReleaseForm.MODEL: (ReleaseKind.MODEL, None, DP_SVM),
    }
)

_AGE: Document = {"type": "numeric", "lower": 0, "upper": 1}
_SEX: Document = {"type": "binary", "values": ["f", "m"]}
_WORK: Document = {"type": "categorical", "categories": ["a", "b", "c"]}
_BALL: Document = {"type": "numeric", "centre": 0.5, "scale": 0.5}
_DAY: Document = {"type": "date", "lower": "2020-01-01", "upper": "2020-12-31"}
_GRADE: Document = {"type": "ordinal", "levels": ["low", "middle", "high"]}
_CONTINUES: Document = {
    "continues": {"study": "0" * 64, "result": "1" * 64},
    "components": None,
}
_TREE: Document = {
    "tree": [{"by": "age0", "at_most": 0.4}, {}, {"by": "sex0", "labels": ["f"]}, {}, {}],
    "target": "work0",
}


def _copies(n: int, **attributes: Document) -> list[Document]:
    """Return n attributes of each description, named ``age0``, ``age1``, ..."""
    return [{**each, "name": f"{name}{i}"} for i in range(n) for name, each in attributes.items()]


def _box(**schema: object) -> Callable[[int], Document]:
    return lambda n: {"attributes": _copies(n, age=_AGE, sex=_SEX, work=_WORK), **schema}


def _ball(**schema: object) -> Callable[[int], Document]:
    return lambda n: {"attributes": _copies(n, u=_BALL, v=_BALL), "row_norm": {}, **schema}


def _of(**attributes: Document) -> Callable[..., Callable[[int], Document]]:
    def with_(**schema: object) -> Callable[[int], Document]:
        return lambda n: {"attributes": _copies(n, **attributes), **schema}

    return with_


_COUNTED: Document = {**_AGE, "histogram": True, "bins": 4}
_PAIR: Document = {"table": ["sex0", "ill0"]}
_MIXED: list[Document] = [
    {"table": ["age0", "sex0"], "cells": {"age0": 3}},
    {"table": ["work0"]},
]
CODINGS: Mapping[str, Callable[[int], Document]] = MappingProxyType(
    {
        "products": _box(),
        "numerics": _of(age=_AGE, height=_AGE)(),
        "binaries": _of(sex=_SEX, ill=_SEX, old=_SEX)(),
        "categoricals": _of(work=_WORK, home=_WORK)(),
        "dates": _of(day=_DAY, sex=_SEX)(),
        "ordinals": _of(grade={**_GRADE, "histogram": True}, sex=_SEX)(),
        "logarithms": _of(pay={**_AGE, "score": "log"}, sex=_SEX)(),
        "labels for missing": _of(
            work={**_WORK, "unknown": "no answer"}, sex={**_SEX, "missing": "m"}
        )(missing_values={"-9": "refused"}),
        "sums of weight 2": _box(sum_weight=2.0),
        "sums of weight 0.5": _box(sum_weight=0.5),
        "sums of weight 0.25": _of(age=_AGE, height=_AGE)(sum_weight=0.25),
        "histograms": _of(age=_COUNTED, sex=_SEX)(),
        "histograms of weight 2": _of(age=_COUNTED, sex=_SEX)(histogram_weight=2.0),
        "histograms of weight 0.5": _of(
            age={**_COUNTED, "integer": True, "upper": 4, "bins": None, "spikes": [0]}, sex=_SEX
        )(histogram_weight=0.5),
        "missing numbers": _of(
            age={**_COUNTED, "missing": "indicator"},
            height={**_AGE, "missing": "indicator"},
            sex=_SEX,
        )(),
        "missing levels": _of(age={**_COUNTED, "missing": "level"}, sex=_SEX)(),
        "bins": _of(age={**_AGE, "products": "bins", "bins": 3}, sex=_SEX, work=_WORK)(),
        "targets of weight 2": _box(targets=["sex0"]),
        "targets of weight 3": _box(targets=["work0", "age0"], target_weight=3),
        "squares of weight 3": _of(
            age={**_COUNTED, "missing": "indicator"}, height=_AGE, work=_WORK
        )(square_weight=3),
        "tables": _of(sex=_SEX, ill=_SEX)(tables=[_PAIR]),
        "tables of weight 0.5": _box(tables=_MIXED, tables_weight=0.5),
        "tables of weight 3": _box(tables=_MIXED, tables_weight=3.0),
        "trees": _box(tables=[_TREE]),
        "people": _box(unit="person", max_rows_per_person=None),
        "people of up to 3 rows": _box(
            unit="person", max_rows_per_person=None, rows_counted=3, neighbours="added"
        ),
        "people of up to 3 rows, replaced": _box(
            unit="person", max_rows_per_person=None, rows_counted=3
        ),
        "people in the unit ball, halved products": _ball(
            unit="person", max_rows_per_person=None, row_norm={"halved_products": True}
        ),
        "rows in the unit ball": _ball(),
        "rows in the unit ball without sums": _ball(row_norm={"include_sums": False}),
        "rows in the unit ball, sums of weight 0.5": _ball(sum_weight=0.5),
        "rows in the unit ball, halved products": _ball(row_norm={"halved_products": True}),
        "rows added: products": _box(neighbours="added"),
        "rows added: all together": _of(
            age={**_COUNTED, "missing": "indicator"}, sex=_SEX, work=_WORK
        )(
            neighbours="added",
            count_weight=3.0,
            sum_weight=0.5,
            histogram_weight=2.0,
            targets=["sex0"],
            square_weight=4,
            tables=_MIXED,
        ),
        "rows added: in the unit ball": _ball(neighbours="added", count_weight=0.5),
        "rows added: in the unit ball, halved products": _ball(
            neighbours="added", row_norm={"halved_products": True}
        ),
        "continued: tables alone": _box(
            only_tables=True, tables=[_TREE, {"table": ["sex0", "work0"]}], changes=_CONTINUES
        ),
        "continued: tables of weight 2": _of(sex=_SEX, ill=_SEX)(
            only_tables=True, tables=[_PAIR], tables_weight=2.0, changes=_CONTINUES
        ),
        "continued: rows added, tables of weight 2": _of(sex=_SEX, ill=_SEX)(
            only_tables=True,
            tables=[_PAIR],
            tables_weight=2.0,
            neighbours="added",
            changes=_CONTINUES,
        ),
        "continued: people of up to 3 rows": _of(sex=_SEX, work=_WORK)(
            only_tables=True,
            tables=[{"table": ["sex0", "work0"]}],
            unit="person",
            max_rows_per_person=None,
            rows_counted=3,
            changes=_CONTINUES,
        ),
        "all together": _of(age={**_COUNTED, "missing": "indicator"}, sex=_SEX, work=_WORK)(
            sum_weight=2.0,
            histogram_weight=2.0,
            targets=["sex0"],
            target_weight=3,
            square_weight=4,
            tables=_MIXED,
            tables_weight=2.0,
        ),
    }
)
"""Codings of a row: the schema, with n attributes of each sort, and what the study must say."""

ROWS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"one row": (1,), "two rows": (2,), "more rows": (3, 4, 7, 50, 1000)}
)
"""Rows of a person; the numbers of a level take turns."""

WIDTHS: Levels = MappingProxyType(
    {
        "epsilon 0.001": {"epsilon": "0.001", "delta": "0.000001"},
        "epsilon 2": {"epsilon": "2", "delta": "0.01"},
        "a scale": {"scale": "5000", "delta": "0.000000001"},
        "a scale with its nominal epsilon": {
            "scale": "300", "nominal_epsilon": "1", "delta": "0.000001"
        },
    }
)  # fmt: skip
"""How a study asks for its noise; ``delta`` is for laws that need one."""

RESOLUTIONS: Levels = MappingProxyType({f"{bits} bits": bits for bits in (4, 10, 14)})
COUNTS: Levels = MappingProxyType({f"{n} rows": n for n in (1, 40, 1_000_000)})
_ENOUGH: Levels = MappingProxyType({f"{n} rows": n for n in (40, 1_000_000)})
SIZES: Levels = MappingProxyType({"small": 1, "wide": 6})
"""Attributes of each sort."""

STATED = tuple(each.name for each in fields(Stated))
_QUORUM: Document = {"quorum": 2, "deadline": "2099-01-01T00:00:00+00:00"}
SAID: Levels = MappingProxyType(
    {
        "no more": {},
        "words": {
            **dict.fromkeys(STATED, "words"),
            "sector": "Healthcare",
            "overlap": True,
        },
        "groups": {
            "overlap": [["owner-1", "owner-2"]],
            "max_rows": 2_000_000_000,
            "faults": {"refuse_if_above": 0.5},
        },
        "components by share": {
            "components": {"contribution_rate": 0.9, "trace": "signed"},
            "faults": {"refuse_if_above": 0.1},
            "questions": ["summary"],
        },
        "components above noise": {"components": {"above_noise": True}},
    }
)
"""What else a study may say, which changes no noise."""

PARTIES: Mapping[ReleaseForm, Levels] = MappingProxyType(
    {
        ReleaseForm.CONTRIBUTION: {
            "one owner": {"owners": ["owner-1"]},
            "three owners": {},
            "a quorum": _QUORUM,
            "the owners' own covariances": {"covariance": "within"},
        },
        ReleaseForm.MASKED: {
            "two shares": {"colluders": 1, "n_openers": 2},
            "three shares": {"colluders": 1, "n_openers": 2, "n_owners": 4},
            "a quorum and a spare": {
                "colluders": 1, "n_openers": 4, "n_owners": 4, "spares": 1,
                "quorum": 3, "deadline": "2099-01-01T00:00:00+00:00",
            },
        },
        ReleaseForm.MODEL: {"one owner": {"owners": ["owner-1"]}, "three owners": {}},
    }
)  # fmt: skip

TARGETS: Levels = MappingProxyType(
    {
        "a binary": _SEX,
        "three labels and one for unknown": {**_WORK, "unknown": "no answer"},
        "thirty labels": {"type": "categorical", "categories": [str(i) for i in range(30)]},
    }
)
COMPONENTS: Levels = MappingProxyType({f"{k} components": k for k in (1, 3, 40)})
EPSILONS: Levels = MappingProxyType(
    {each: {"epsilon": each, "delta": "0.000001"} for each in ("0.001", "1")}
)
PENALTIES: Levels = MappingProxyType(
    {"small C": (0.001, 0.01, 0.02, 0.03), "large C": (0.5, 1.0, 2.0, 30.0)}
)
"""Weights of the hinge loss; each is a request of its own."""

_CORE: Mapping[ReleaseForm, Mapping[str, Levels]] = MappingProxyType(
    {
        ReleaseForm.CONTRIBUTION: {"coding": CODINGS, "rows": ROWS, "size": SIZES},
        ReleaseForm.MASKED: {"coding": CODINGS, "rows": ROWS},
        ReleaseForm.MODEL: {"target": TARGETS, "rows": ROWS, "components": COMPONENTS},
    }
)
_TURNS: Mapping[str, Levels] = MappingProxyType(
    {"width": WIDTHS, "resolution": RESOLUTIONS, "count": COUNTS, "said": SAID}
)
_ROUND: Mapping[ReleaseForm, Mapping[str, Levels]] = MappingProxyType(
    {
        ReleaseForm.CONTRIBUTION: {**_TURNS, "parties": PARTIES[ReleaseForm.CONTRIBUTION]},
        ReleaseForm.MASKED: {**_TURNS, "parties": PARTIES[ReleaseForm.MASKED], "size": SIZES},
        ReleaseForm.MODEL: {
            "epsilon": EPSILONS,
            "penalty": PENALTIES,
            "count": _ENOUGH,
            "parties": PARTIES[ReleaseForm.MODEL],
        },
    }
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of release: its form, its law and the name of its level in each other dimension.

    ``rows_of_person`` is k, a number of the level ``rows``.
    """

    form: ReleaseForm
    law: str
    levels: Mapping[str, str]
    rows_of_person: int

    @property
    def title(self) -> str:
        """Levels in words, in the order of the dimensions."""
        return ", ".join(
            f"{each} of a person" if name == "rows" else each for name, each in self.levels.items()
        )

    def level(self, dimension: str) -> Any:
        """What the kind has in a dimension."""
        return dimensions(self.form)[dimension][self.levels[dimension]]


def dimensions(form: ReleaseForm) -> dict[str, Levels]:
    """Dimensions of a form beside its law, with their levels by name."""
    return {**_CORE[form], **_ROUND[form]}


@cache
def kinds(form: ReleaseForm) -> tuple[Kind, ...]:
    """Return all cases of a form; see the module."""
    found, turns = list[Kind](), Counter[str]()
    met = set[frozenset[tuple[str, str]]]()
    core = {"law": LAWS, **_CORE[form]}
    for chosen in product(*core.values()):
        case = dict(zip(core, chosen, strict=True))
        if "coding" in case and case["law"] not in (possible := laws_of(case["coding"])):
            case["law"] = possible[0]  # as many cases as of other codings, to meet as many levels
        for name, levels in _ROUND[form].items():
            news = {
                level: (*_news(met, case, name, level), -turns[level])  # then the rarest
                for level in levels
                if all(can_meet(each, (name, level)) for each in case.items())
            }
            case[name] = max(news, key=news.__getitem__)
            turns[case[name]] += 1
        met |= {frozenset(pair) for pair in combinations(case.items(), 2)}
        numbers = ROWS[case["rows"]]
        k = numbers[turns[case["rows"]] % len(numbers)]
        turns[case["rows"]] += 1
        found.append(Kind(form, case.pop("law"), MappingProxyType(case), k))
    return tuple(found)


def all_kinds() -> Iterator[Kind]:
    """Give every case."""
    for form in ReleaseForm:
        yield from kinds(form)


def laws_of(coding: str) -> tuple[str, ...]:
    """Laws that a study with this coding may have."""
    halved = coding.endswith("halved products")
    return tuple(name for name, law in LAWS.items() if law.halves_products or not halved)


def can_meet(first: tuple[str, str], second: tuple[str, str]) -> bool:
    """Tell whether a study may have these levels of two dimensions together."""
    pair = dict((first, second))
    coding, said, parties = (pair.get(name, "") for name in ("coding", "said", "parties"))
    continued, ball = coding.startswith("continued"), coding.startswith("rows in the unit ball")
    if "law" in pair and coding and pair["law"] not in laws_of(coding):
        return False
    if continued and said.startswith("components"):
        return False
    if said == "groups" and parties == "one owner":
        return False
    secret = coding.startswith(("rows added", "people of up to"))
    apart = continued or secret or (ball and "without" in coding)
    return not (parties.startswith("the owners'") and apart)


def _news(
    met: set[frozenset[tuple[str, str]]], case: Mapping[str, str], name: str, level: str
) -> tuple[int, int]:
    """Count what a level would meet for the first time: the most varied dimension counts first."""
    first = next(dimension for dimension in ("coding", "target") if dimension in case)
    unmet = [
        dimension
        for dimension, each in case.items()
        if frozenset(((dimension, each), (name, level))) not in met
    ]
    return int(first in unmet), len(unmet)


_WORDS = "words for people"
_CODED = "a row is coded by it; the largest change of a coded row is searched in every case"
_AFTER = "it is read after the release"
_SIGNS = "it says who signs at an owner, before the release"
_PARTY = "it says who takes part and until when"
FIELDS: Mapping[str, str] = MappingProxyType(
    {
        # The study.
        "Study.version": "one value",
        "Study.name": "it names",
        **{f"Study.{name}": "-said" for name in STATED},
        "Study.owners": "parties",
        "Study.quorum": "parties",
        "Study.deadline": "parties",
        "Study.overlap": "-said",
        "Study.max_rows": "-said",
        "Study.privacy": "width",
        "Study.components": "-said",
        "Study.covariance": "parties",
        "Study.faults": "-said",
        "Study.questions": "-said",
        "Study.identities": "parties",
        "Study.openers": "parties",
        "Study.spares": "parties",
        "Study.open_by": "parties",
        "Study.continues": "coding",
        "Study.signatories": _SIGNS,
        "Study.table": "coding",
        "Continued.study": _AFTER,
        "Continued.result": _AFTER,
        "Continued.grown": "it says how the tables were grown",
        "GrownTrees.rows": "it says how the tables were grown",
        "GrownTrees.target": "it says how the tables were grown",
        "GrownTrees.trees": "it says how the tables were grown",
        "GrownTrees.leaves": "it says how the tables were grown",
        "GrownTrees.seed": "it says how the tables were grown",
        "PinnedRoles.needed": _SIGNS,
        "PinnedRoles.roles": _SIGNS,
        "OpenerEntry.key": "parties",
        "OpenerEntry.signature": "parties",
        "ComponentRule.contribution_rate": "-said",
        "ComponentRule.trace": "-said",
        "ComponentRule.count": "-said",
        "ComponentRule.above_noise": "-said",
        "FaultRule.refuse_if_above": "-said",
        # The noise.
        **{
            f"{form}.{field}": dimension
            for form in ("LaplacePrivacy", "GaussianPrivacy")
            for field, dimension in (
                ("mechanism", "law"),
                ("epsilon", "width"),
                ("scale", "width"),
                ("nominal_epsilon", "width"),
                ("trust", "form"),
                ("colluders", "parties"),
            )
        },
        "GaussianPrivacy.delta": "width",
        **{
            f"MatrixLaplacePrivacy.{field}": "a law of a whole release has an audit of its own"
            for field in ("mechanism", "epsilon", "trust", "colluders")
        },
        # The schema.
        "Schema.resolution_bits": "resolution",
        "Schema.max_rows_per_person": "rows",
        "Schema.neighbours": "coding",
        "Schema.count_weight": "coding",
        "Schema.unit": "coding",
        "Schema.rows_counted": "coding",
        "Schema.sum_weight": "coding",
        "Schema.row_norm": "coding",
        "Schema.histogram_weight": "coding",
        "Schema.targets": "coding",
        "Schema.target_weight": "coding",
        "Schema.square_weight": "coding",
        "Schema.tables": "coding",
        "Schema.tables_weight": "coding",
        "Schema.only_tables": "coding",
        "Schema.missing_values": "coding",
        "Schema.attributes": "coding",
        "RowNorm.include_sums": "coding",
        "RowNorm.halved_products": "coding",
        "CountedTable.table": "coding",
        "CountedTable.cells": "coding",
        "CountedTable.tree": "coding",
        "CountedTable.target": "coding",
        "TreeNode.by": "coding",
        "TreeNode.at_most": "coding",
        "TreeNode.labels": "coding",
        **{
            f"{sort}.{field}": why
            for sort in ("Numeric", "Date", "Ordinal", "Binary", "Categorical")
            for field, why in (
                ("name", "it names"),
                ("type", "each has cases"),
                ("description", _WORDS),
                ("concept", _WORDS),
                ("why", _WORDS),
                ("missing_values", _CODED),
            )
        },
        **{
            f"{sort}.{field}": "coding" if sort == "Numeric" else _CODED
            for sort in ("Numeric", "Date", "Ordinal")
            for field in (
                *("lower", "upper", "centre", "scale", "score", "integer", "spikes", "bins"),
                *("histogram", "products", "missing"),
            )
        },
        **{f"{sort}.unit": _WORDS for sort in ("Numeric", "Date", "Ordinal")},
        "Ordinal.levels": _CODED,
        "Binary.values": _CODED,
        "Binary.missing": "coding",
        "Categorical.categories": _CODED,
        "Categorical.missing": _CODED,
        "Categorical.unknown": "coding",
        # A model.
        "WeightTerms.target": "target",
        "WeightTerms.epsilon": "epsilon",
        "WeightTerms.delta": "law",
        "WeightTerms.mechanism": "law",
        "WeightTerms.C": "penalty",
        "WeightTerms.intercept_scaling": "one value",
        "WeightTerms.solver_tolerance": "one value",
    }
)
"""Dimension in which a field is varied (with a dash: to show that no noise depends on it), or the
reason why no noise depends on it."""
