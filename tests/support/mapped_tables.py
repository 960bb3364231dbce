"""Random tables and mappings, and the file that each row by itself is converted to, by hand."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from dppca.common.kernel.schema import Schema
from dppca.owner.records.mapping_places import MappingPlace
from dppca.owner.records.table import Table, open_table

SCHEMA = Schema.from_document(
    {
        "missing_values": ["-7"],
        "attributes": [
            {"name": "lab", "type": "categorical", "categories": ["a", "b"], "unknown": "u"},
            {"name": "lev", "type": "ordinal", "levels": ["low", "mid", "high"]},
            {"name": "num", "type": "numeric", "lower": -50, "upper": 50, "missing": "indicator"},
            {"name": "yr", "type": "numeric", "lower": 0, "upper": 110, "integer": True},
            {"name": "day", "type": "date", "lower": "1950-01-01", "upper": "2030-12-31"},
            {"name": "yes", "type": "binary", "values": ["no", "yes"], "missing": "no"},
            {"name": "z", "type": "numeric", "lower": -80, "upper": 80},
        ],
    }
)
WORDS = ["m", "w", "Männlich", " m ", "x y", None, "NA?", "10", "10.0"]
KEYS = ["m", "w", "Männlich", "x y", "NA?", "10"]
ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "minus": lambda a, b: a - b,
    "times": lambda a, b: a * b,
    "over": lambda a, b: a / b,
    "plus": lambda a, b: a + b,
}
UNLISTED = "?none"
Row = Mapping[str, Any]


def day(random: Random) -> date | None:
    return random.choice(
        [None, date(1920, 1, 1) + timedelta(random.randrange(39_000)), date(2000, 2, 29)]
    )


def rows_of(random: Random) -> list[dict[str, Any]]:
    def number() -> float | None:
        return random.choice(
            [None, 999.0, 9.0, -7.0, random.uniform(-80, 80), random.randint(-60, 60)]
        )

    return [
        {
            "s": random.choice(WORDS),
            "k": random.choice([0, 1, 2, 9, None]),
            "x": number(),
            "z": number(),
            "b": day(random),
            "v": day(random),
        }
        for _ in range(random.choice([1, 7, 60]))
    ]


def rules_of(random: Random) -> dict[str, Any]:
    pick = random.choice

    def recode(labels: list[str]) -> dict[str, Any]:
        keys = random.sample(KEYS, random.randint(1, 6))
        rule: dict[str, Any] = {"column": "s", "recode": {key: pick(labels) for key in keys}}
        return rule | ({"otherwise": pick(labels)} if random.random() < 0.3 else {})

    def linear(column: str) -> dict[str, Any]:
        steps = {key: pick([2, 0.45359237, 32, 9, 1.8]) for key in ARITHMETIC if pick([0, 1])}
        down = {"round": "down"} if not steps or random.random() < 0.3 else {}
        own = {"missing": pick([[], [9]])} if random.random() < 0.3 else {}
        return {"column": column, **steps, **down, **own}

    cut = {"edges": sorted(random.sample(range(-70, 70), 2)), "labels": ["low", "mid", "high"]}
    groups = [
        {"if": {"s": ["m", "x y"], "k": [1, 2]}, "then": {"constant": "a"}},
        {"if": {"k": 0}, "then": recode(["b", "a"])},
        {
            "if": {"s": {"missing": True}, "z": {"at_least": -10, "below": 10.5}},
            "then": recode(["b"]),
        },
    ]
    return {
        "lab": pick([recode(["a", "b", "u"]), {"cases": groups}]),
        "lev": pick(
            [
                {"column": "z", "cut": cut},
                recode(["low", "mid", "high"]),
                {"first_of": [recode(["low", "mid"]), {"constant": "high"}]},
            ]
        ),
        "num": pick(["x", linear("x"), {"first_of": [linear("x"), linear("z")]}, {"absent": True}]),
        "yr": pick(
            [
                {"column": "b", "age_on": pick(["2024-02-29", "2023-02-28", date(2024, 12, 31)])},
                {"column": "b", "age_on": "v"},
                {"column": "b", "part": pick(["month", "year"])},
                {"column": "b", "days_to": pick(["v", "2001-03-01"])},
                {"column": "k", "recode": {0: 10, 1: 20.5, 2: 30}},
            ]
        ),
        "day": pick(["v", {"first_of": ["v", "b"]}]),
        "yes": pick(
            [recode(["no", "yes"]), {"cases": [{"if": {"s": ["m"]}, "then": {"constant": "yes"}}]}]
        ),
    }


def same(cell: Any, word: object) -> bool:
    """Whether a cell is a word, or a number in any spelling."""
    try:
        return float(str(cell)) == float(str(word))
    except ValueError:
        return str(cell).strip() == str(word)


def by_hand(rule: Any, row: Row, missing: list[Any]) -> Any:
    """What a rule makes of one row: None for missing, else a cell."""
    rule = {"column": rule} if isinstance(rule, str) else rule
    if "constant" in rule:
        return rule["constant"]
    if "absent" in rule:
        return None
    if "first_of" in rule:
        found = (by_hand(each, row, missing) for each in rule["first_of"])
        return next((each for each in found if each is not None and not same(each, -7)), None)
    if "cases" in rule:
        for case in rule["cases"]:
            if all(holds(row[c], test, missing) for c, test in case["if"].items()):
                return by_hand(case["then"], row, missing)
        return None
    codes = rule.get("missing", missing)
    cell = row[rule["column"]]
    if cell is None or any(same(cell, code) for code in codes):
        return None
    if "recode" in rule:
        found = (to for key, to in rule["recode"].items() if same(cell, key))
        return next(found, rule.get("otherwise", UNLISTED))
    if "cut" in rule:
        return rule["cut"]["labels"][sum(cell >= edge for edge in rule["cut"]["edges"])]
    if "part" in rule:
        return float(getattr(cell, rule["part"]))
    if "age_on" in rule or "days_to" in rule:
        at = rule.get("age_on") or rule["days_to"]
        at = row[at] if at in row else date.fromisoformat(str(at))
        if at is None:
            return None
        if "days_to" in rule:
            return float((at - cell).days)
        return float(at.year - cell.year - ((at.month, at.day) < (cell.month, cell.day)))
    for key, step in ARITHMETIC.items():
        cell = step(float(cell), float(rule[key])) if key in rule else cell
    return float(math.floor(cell)) if "round" in rule else cell


def holds(cell: Any, test: Any, missing: list[Any]) -> bool:
    is_gone = cell is None or any(same(cell, code) for code in missing)
    if test == {"missing": True}:
        return is_gone
    if is_gone:
        return False
    if isinstance(test, dict):
        return bool(test["at_least"] <= cell < test["below"])
    return any(same(cell, word) for word in (test if isinstance(test, list) else [test]))


def arrow(rows: list[dict[str, Any]]) -> pa.Table:
    types = {"s": pa.string(), "k": pa.int64(), "x": pa.float64(), "z": pa.float64()}
    return pa.table(
        {
            name: pa.array([row[name] for row in rows], types.get(name, pa.date32()))
            for name in rows[0]
        }
    )


def converted(rows: list[dict[str, Any]], rules: Mapping[str, Any], missing: list[Any]) -> pa.Table:
    """The rows as a file of the study's attributes; what is no number makes a column of texts."""
    columns = {}
    for name in (each.name for each in SCHEMA.attributes):
        cells = [by_hand(rules.get(name, name), row, missing) for row in rows]
        typed = name in ("num", "yr", "z") and UNLISTED not in cells
        texts = [None if cell is None else str(cell) for cell in cells]
        columns[name] = pa.array(cells, pa.float64()) if typed else pa.array(texts, pa.string())
    return pa.table(columns)


@dataclass(frozen=True)
class MappedCase:
    """Rows of a site, its mapping's rules and codes for missing, and what chose them."""

    rows: list[dict[str, Any]]
    rules: dict[str, Any]
    missing: list[Any]
    random: Random

    @classmethod
    def of(cls, seed: int) -> Self:
        random = Random(seed)
        rows, rules = rows_of(random), rules_of(random)
        return cls(rows, rules, random.choice([[], [999], [999, 9]]), random)

    def by_hand(self, folder: Path) -> Table:
        """The file that was converted by hand."""
        pq.write_table(converted(self.rows, self.rules, self.missing), folder / "hand.parquet")
        return open_table(folder / "hand.parquet", SCHEMA)

    def mapping(self, folder: Path) -> MappingPlace:
        document = {"version": 1, "missing": self.missing, "attributes": self.rules}
        file = folder / "mapping.yaml"
        file.write_text(json.dumps(document, default=str), encoding="utf-8")
        return MappingPlace(file)

    def write_files(self, folder: Path) -> Path:
        """Its rows in two files of Parquet, in parts of four rows."""
        rows, folder = arrow(self.rows), folder / "rows"
        folder.mkdir()
        middle = rows.num_rows // 2
        for n, part in enumerate((rows.slice(0, middle), rows.slice(middle))):
            if part.num_rows:
                pq.write_table(part, folder / f"{n}.parquet", row_group_size=4)
        return folder
