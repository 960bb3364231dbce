"""The committed figures of the papers' experiments, and what the page says of all of them.

`keep` writes every line of an experiment into `docs/evidence/published-results.json`. Tables that
were chosen by hand, of more runs, stand beside them. `write_page` says for each experiment how many
of the figures that its paper prints come out, and names the others.

A printed figure is met where ours is within two deviations of the difference, both being means: of
our runs, and of the paper's five, which are taken to vary as ours; half a unit of the last printed
digit is added. A line that is there in several readings, which stand behind a comma in its method,
is met where one of them is.
"""

import json
import re
from collections.abc import Mapping, Sequence
from math import sqrt
from textwrap import fill
from typing import Any

from benchmarks.experiment import fill_tables
from benchmarks.papers.tables import Line
from benchmarks.papers.trials import Experiment
from benchmarks.studies import ROOT

FILE = ROOT / "docs/evidence/published-results.json"
PAGE = ROOT / "docs/explanation/published-results.md"
MARK = "experiments"
_ENDING = ", every line"
_MEASURES = {
    "accuracy": (100, "per cent of rows"),
    "decoded_accuracy": (100, "per cent of rows, machine trained on decoded rows"),
    "support_vectors": (1, "count"),
    "rate": (100, "contribution rate of the components, per cent"),
    "k": (1, "components"),
    "entry": (1, "mean magnitude of an entry"),
    "norm": (1, "largest singular value"),
    "seconds": (1, "s to train"),
    "predict_seconds": (1, "s to predict"),
}
_COLUMNS = {
    "line": "table, method, form and settings",
    "runs": "seeds, from 1",
    **{name: f"[mean, standard error], {unit}" for name, (_, unit) in _MEASURES.items()},
    "true epsilon": "largest over runs; null where none is true",
    "printed": "what the paper prints, by measure; null where it prints nothing",
}
_PAPER_RUNS = 5
_WIDE = 119  # characters of a line of the page
_NUMBER = re.compile(r"(above|more than|about|nearly)? ?([0-9.]+)(e[+-][0-9]+)?")
_READING = re.compile(r",[^=]*?(?= published| sound| \w+=| on |$)")
_TIMES = ("seconds", "predict_seconds")


def keep(experiment: Experiment, lines: Sequence[Line], *, command: str, date: str) -> None:
    """Write every line of an experiment into the file."""
    found = json.loads(FILE.read_text())
    first = experiment.source.split(maxsplit=1)[0].strip(",")
    paper = next(each for each in found["papers"] if each["paper"].startswith(first))
    name = f"{experiment.name}{_ENDING}"
    rows = [_row(experiment, line) for line in lines]
    used = [place for place in range(len(_COLUMNS)) if any(row[place] is not None for row in rows)]
    units = list(_COLUMNS.items())
    table = {
        "name": name,
        "how": " ".join([experiment.title, *experiment.notes]),
        "command": command,
        "date": date,
        "missing": experiment.missing,
        "columns": [{"name": units[place][0], "unit": units[place][1]} for place in used],
        "rows": [[row[place] for place in used] for row in rows],
    }
    paper["tables"] = [each for each in paper["tables"] if each["name"] != name] + [table]
    FILE.write_text(_text(found) + "\n")


def write_page() -> int:
    """Write the page's sentence on all experiments from the file; return their number."""
    tables = [
        each
        for paper in json.loads(FILE.read_text())["papers"]
        for each in paper["tables"]
        if each["name"].endswith(_ENDING)
    ]
    PAGE.write_text(fill_tables(PAGE, {MARK: experiments_text(tables)}))
    return len(tables)


def experiments_text(tables: Sequence[Mapping[str, Any]]) -> str:
    """How many printed figures of each experiment are met, and of which lines the others are."""
    said = []
    for table in sorted(tables, key=lambda each: str(each["name"])):
        n_printed, apart = _judged(table)
        if n_printed:
            n_met, others = n_printed - sum(apart.values()), ", ".join(apart)
            name = str(table["name"]).removesuffix(_ENDING)
            said.append(f"`{name}` {n_met} of {n_printed}" + (f" (not {others})" if others else ""))
    text = "; ".join(said) + ".\n"
    return fill(text, _WIDE, break_on_hyphens=False, break_long_words=False) + "\n"


def _judged(table: Mapping[str, Any]) -> tuple[int, dict[str, int]]:
    """How many figures are printed, and of which methods how many are not met."""
    names = [column["name"] for column in table["columns"]]
    met: dict[tuple[str, str], bool] = {}
    for values in table["rows"]:
        row = dict(zip(names, values, strict=True))
        line = _READING.sub("", row["line"])
        for measure, text in (row.get("printed") or {}).items():
            if measure in _TIMES:
                continue
            key = (line, measure)
            met[key] = met.get(key, False) or _is_met(row[measure], int(row["runs"]), text)
    apart: dict[str, int] = {}
    for (line, _), is_met in met.items():
        if not is_met:
            name = line.partition(" on ")[0].replace(" published", "")
            name = re.sub(r" (target|epsilon|delta|m|n|d)=\S+", "", name)
            apart[name] = apart.get(name, 0) + 1
    return len(met), apart


def _is_met(ours: Sequence[float], runs: int, printed: str) -> bool:
    match = _NUMBER.search(printed)
    if match is None:
        raise ValueError(f"no number is printed: {printed}")
    words, digits, power = match.groups()
    target = float(digits + (power or ""))
    mean, error = ours
    if words in ("above", "more than"):
        return mean > target
    last = 10.0 ** -len(digits.partition(".")[2]) * float(f"1{power or ''}")
    deviation = sqrt(error**2 * (1 + runs / _PAPER_RUNS))
    return abs(mean - target) <= 2 * deviation + last / 2


def _row(experiment: Experiment, line: Line) -> list[Any]:
    measured = [
        _mean_and_error(line, name, unit, whole=name in ("k",))
        for name, (unit, _) in _MEASURES.items()
    ]
    true = [outcome.true_epsilon for outcome in line.outcomes]
    printed = {name: text for name, text in experiment.printed(line.cell).items() if text}
    return [
        line.cell.name,
        len(line.outcomes),
        *measured,
        float(f"{max(map(float, true)):.4g}") if all(true) else None,
        printed or None,
    ]


def _mean_and_error(line: Line, measure: str, unit: int, *, whole: bool) -> list[float] | None:
    values = line.values(measure)
    if not values or (whole and not any(values)):
        return None
    error = unit * line.spread(measure) / sqrt(len(values))
    return [float(f"{number:.5g}") for number in (unit * sum(values) / len(values), error)]


def _text(value: Any, indent: str = "") -> str:
    """JSON with a line for each key, and for each row of a table."""
    inner, compact = indent + " ", json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict) and len(compact) > _WIDTH:
        parts = [f"{json.dumps(key)}: {_text(each, inner)}" for key, each in value.items()]
        return "{\n" + ",\n".join(inner + part for part in parts) + f"\n{indent}}}"
    if isinstance(value, list) and len(compact) > _WIDTH and isinstance(value[0], dict | list):
        parts = [_text(each, inner) for each in value]
        return "[\n" + ",\n".join(inner + part for part in parts) + f"\n{indent}]"
    return compact


_WIDTH = 200
