"""The committed figures of the papers' experiments, `docs/evidence/published-results.json`.

Tables that are written by hand choose among the lines of an experiment; `keep` adds one with every
line, in place of an older one, so that each experiment that was run has its figures there.
"""

import json
from collections.abc import Sequence
from typing import Any

from benchmarks.papers.tables import Line
from benchmarks.papers.trials import Experiment
from benchmarks.studies import ROOT

FILE = ROOT / "docs/evidence/published-results.json"
_COLUMNS = {
    "line": "table, method, form and settings",
    "runs": "seeds, from 1",
    "accuracy": "[mean, standard error], per cent of rows",
    "accuracy, printed": "per cent of rows, or words; null where the paper prints none",
    "components": "[fewest, most]",
    "true epsilon": "largest over runs; null where none is true",
    "training": "mean s",
    "prediction": "mean s",
}


def keep(experiment: Experiment, lines: Sequence[Line], *, command: str, date: str) -> None:
    """Write every line of an experiment into the file."""
    found = json.loads(FILE.read_text())
    first = experiment.source.split(maxsplit=1)[0].strip(",")
    paper = next(each for each in found["papers"] if each["paper"].startswith(first))
    name = f"{experiment.name}, every line"
    table = {
        "name": name,
        "how": " ".join([experiment.title, *experiment.notes]),
        "command": command,
        "date": date,
        "columns": [{"name": name, "unit": unit} for name, unit in _COLUMNS.items()],
        "rows": [_row(experiment, line) for line in lines],
    }
    paper["tables"] = [each for each in paper["tables"] if each["name"] != name] + [table]
    FILE.write_text(_text(found) + "\n")


def _row(experiment: Experiment, line: Line) -> list[Any]:
    accuracies, ks = line.values("accuracy"), line.values("k")
    error = line.spread("accuracy") / len(accuracies) ** 0.5
    true = [outcome.true_epsilon for outcome in line.outcomes]
    return [
        line.cell.name,
        len(line.outcomes),
        [round(100 * sum(accuracies) / len(accuracies), 2), round(100 * error, 2)],
        experiment.printed(line.cell).get("accuracy"),
        [int(min(ks)), int(max(ks))],
        float(f"{max(map(float, true)):.4g}") if all(true) else None,
        round(line.mean("seconds") or 0.0, 3),
        round(line.mean("predict_seconds") or 0.0, 3),
    ]


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
