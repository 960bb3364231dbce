"""The page of comparisons, made from the committed means.

`docs/explanation/comparison.json` holds one section per command: its cells and the
machine. `docs/explanation/comparison.md` is that file in words, and a test compares the two.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.experiment import markdown_table
from benchmarks.rivals import parties, pca, synthetic
from benchmarks.rivals.cells import RivalRun
from benchmarks.rivals.prose import ABOUT, HEAD
from dppca.common.kernel.errors import SettingError

FOLDER = Path(__file__).resolve().parents[2] / "docs/explanation"
JSON_FILE, PAGE = FOLDER / "comparison.json", FOLDER / "comparison.md"
NAMES = (*synthetic.SUBJECTS, "pca", "parties")
PRINTED = ("", "0.2", "1")
"""Of each epsilon that was measured, those of rows that the page has; the file has all."""
_TABLES = ("one-way", "two-way", "three-way", "workload")
_FIGURES = ("singles", "pairs", "triples", "workload")
Sections = dict[str, dict[str, Any]]


def list_cells(name: str, *, splits: int, only: str) -> tuple[list[RivalRun], tuple[str, ...]]:
    """Cells of a command, and the facts by which their means are known."""
    if name in synthetic.SUBJECTS:
        return list(synthetic.list_cells(name, splits=splits, only=only)), synthetic.BY
    module = pca if name == "pca" else parties
    return list(module.list_cells(splits=splits, only=only)), module.BY


def keep(name: str, section: Mapping[str, Any]) -> None:
    """Put a section into the committed file in place of an older one, and make the page again."""
    known = _read_sections()
    known[name] = dict(section)
    ordered = {each: known[each] for each in NAMES if each in known}
    parts = []
    for each, found in ordered.items():
        cells = ",\n".join(json.dumps(cell, ensure_ascii=False) for cell in found["cells"])
        others = {key: value for key, value in found.items() if key != "cells"}
        head = json.dumps(others, ensure_ascii=False)[:-1]
        parts.append(f'"{each}": {head}, "cells": [\n{cells}\n]}}')
    JSON_FILE.write_text("{\n" + ",\n".join(parts) + "\n}\n")
    PAGE.write_text(page(ordered))


def merge(name: str, section: Mapping[str, Any], by: Sequence[str]) -> dict[str, Any]:
    """A section of some contestants, with the committed cells of the others.

    Parameters
    ----------
    by
        Facts by which a cell is known.

    Raises
    ------
    SettingError
        Committed cells are another machine's, whose seconds are not to be compared with these.
    """
    committed = _read_sections().get(name, {"machine": section["machine"], "cells": []})
    fresh = {tuple(cell[fact] for fact in by): cell for cell in section["cells"]}
    cells = [fresh.pop(tuple(cell[fact] for fact in by), cell) for cell in committed["cells"]]
    theirs, ours = committed["machine"]["processor"], section["machine"]["processor"]
    if theirs != ours:
        raise SettingError(f"the others of {name} ran on {theirs}: run all here, without --only")
    return {**section, "cells": [*cells, *fresh.values()]}


def _read_sections() -> Sections:
    sections: Sections = json.loads(JSON_FILE.read_text()) if JSON_FILE.exists() else {}
    return sections


def page(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """The whole page."""
    parts = [HEAD]
    for name in NAMES:
        if name in sections:
            parts += [ABOUT[name], section_text(name, sections[name])]
    return "\n".join(parts)


def section_text(name: str, section: Mapping[str, Any]) -> str:
    """The tables of one command, what could not be run, and how it was measured."""
    cells = section["cells"]
    if name in synthetic.SUBJECTS:
        cells = [cell for cell in cells if cell["epsilon"] in PRINTED]
        tables = _synthetic_table(cells)
    else:
        by = "owners" if name == "parties" else "components"
        contestants = parties.CONTESTANTS if name == "parties" else pca.CONTESTANTS
        tables = _captured_tables(cells, by, contestants)
    facts = section["machine"]
    made = (
        f"`{section['command']} --write`: {facts['processor']}, cores {facts['cores']}, memory "
        f"{facts['memory']}, Python {facts['Python']}, numpy {facts['numpy']}."
    )
    return "\n".join([tables, *_not_run(cells), made, ""])


def _synthetic_table(cells: Sequence[Mapping[str, Any]]) -> str:
    done = [cell for cell in cells if cell["runs"]]
    targets = list(done[0]["linear"]) if done else []
    header = ["rows of", "owners", "ε", *(f"{name}, linear" for name in targets)]
    header += [f"{name}, RBF" for name in targets]
    new = all("trees" in cell for cell in done)
    trees, tables = (targets, _TABLES) if new else ([], _TABLES[:2])
    header += [f"{name}, trees" for name in trees]
    header += [*tables, "seconds", "MiB", "runs"]
    parts = []
    groups = dict.fromkeys(cell["neighbours"] for cell in done)
    for neighbours in groups:
        title = f"Neighbours: {neighbours}." if neighbours else "Without privacy."
        rows = []
        for cell in done:
            if cell["neighbours"] != neighbours:
                continue
            row = [cell["contestant"], str(cell["owners"]) if neighbours else "", cell["epsilon"]]
            row += [_shown(cell["linear"][name]) for name in targets]
            row += [_shown(cell["rbf"][name]) for name in targets]
            row += [_shown(cell["trees"][name]) for name in trees]
            row += [_shown(cell[name]) for name in _FIGURES[: len(tables)]]
            row += [_shown(cell.get("seconds"), 1), _mean(cell.get("mib"), 0), str(cell["runs"])]
            rows.append(row)
        parts.append(f"{title}\n\n{markdown_table(header, rows)}")
    return "\n".join(parts)


def _captured_tables(
    cells: Sequence[Mapping[str, Any]], by: str, contestants: Sequence[str]
) -> str:
    """One table per data set and number of owners or components; a column per epsilon."""
    parts = []
    for subject, count in dict.fromkeys((cell["subject"], cell[by]) for cell in cells):
        by_contestant = {
            (cell["contestant"], cell["epsilon"]): cell
            for cell in cells
            if (cell["subject"], cell[by]) == (subject, count)
        }
        header = [f"{subject}, {count} {by}", *(f"ε = {each}" for each in synthetic.EPSILONS)]
        rows = []
        for who in contestants:
            if not any(name == who for name, _ in by_contestant):
                continue
            row = [who]
            for epsilon in synthetic.EPSILONS:
                cell = by_contestant.get((who, epsilon)) or by_contestant.get((who, ""))
                row.append(_shown(cell.get("captured")) if cell else "–")
            rows.append(row)
        parts.append(markdown_table(header, rows))
    return "\n".join(parts)


def _not_run(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each reason, with the number of runs of each contestant that it kept away."""
    reasons: dict[str, dict[str, int]] = {}
    for cell in cells:
        for reason, runs in cell["faults"].items():
            where = cell["contestant"]
            if "components" in cell:
                where += f", {cell['subject']}"
            counts = reasons.setdefault(reason, {})
            counts[where] = counts.get(where, 0) + runs
    if not reasons:
        return []
    lines = [
        f"- {reason}: {'; '.join(f'{who} ({runs})' for who, runs in counts.items())}."
        for reason, counts in reasons.items()
    ]
    return ["Not run, with the number of runs:\n", *lines, ""]


def _shown(measured: Sequence[float] | None, digits: int = 3) -> str:
    """Mean and standard error; a dash where nothing was measured."""
    if measured is None:
        return "–"
    mean, error = measured
    return f"{mean:.{digits}f}" + (f" ± {error:.{digits}f}" if error else "")


def _mean(measured: Sequence[float] | None, digits: int) -> str:
    return "–" if measured is None else f"{measured[0]:,.{digits}f}"
