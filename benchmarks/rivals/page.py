"""The page of comparisons, made from the committed means.

`docs/evidence/comparison.json` holds one section per command: its cells and the machine.
`docs/explanation/comparison.md` has those that decide, and a test compares the two.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.experiment import cells_text, fill_tables, markdown_table
from benchmarks.rivals import estimates, laws, parties, pca, regressions, synthetic
from benchmarks.rivals.cells import RivalRun
from benchmarks.rivals.component_tables import SMALL_ROWS
from benchmarks.rivals.neighbours import Neighbours
from benchmarks.studies import ROOT
from benchmarks.synthesis.trials import REAL
from dppca.common.kernel.errors import SettingError

JSON_FILE, PAGE = ROOT / "docs/evidence/comparison.json", ROOT / "docs/explanation/comparison.md"
_MODULES = {
    "pca": pca,
    "laws": laws,
    "parties": parties,
    "estimates": estimates,
    "regressions": regressions,
}
NAMES = (*synthetic.SUBJECTS, *_MODULES)
_TABLES = {
    "singles": "one-way",
    "pairs": "two-way",
    "triples": "three-way",
    "workload": "workload",
}
Sections = dict[str, dict[str, Any]]


def list_cells(name: str, *, splits: int, only: str) -> tuple[list[RivalRun], tuple[str, ...]]:
    """Cells of a command, and the facts by which their means are known."""
    if name in synthetic.SUBJECTS:
        return list(synthetic.list_cells(name, splits=splits, only=only)), synthetic.BY
    module = _MODULES[name]
    return list(module.list_cells(splits=splits, only=only)), module.BY


def keep(name: str, section: Mapping[str, Any]) -> None:
    """Put a section into the committed file in place of an older one, and make the page again.

    What the file says of how the section was measured stays.
    """
    known = _read_sections()
    known[name] = {**known.get(name, {}), **section}
    ordered = {each: known[each] for each in NAMES if each in known}
    parts = [f'"{each}": {cells_text(found)}' for each, found in ordered.items()]
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
    """The page, with its tables made again."""
    found = {name: _known(section["cells"]) for name, section in sections.items()}
    tables = {
        "added": _added_table(found),
        "replaced": _replaced_table(found),
        "laws": _laws_table(found["laws"]),
        "parties": _parties_table(found["parties"]),
        "estimates": _interval_table(sections["estimates"]["cells"], whole=False),
        "regressions": _slope_table(sections["regressions"]["cells"], ("1",)),
    }
    return fill_tables(PAGE, tables)


_Cells = Mapping[tuple[Any, ...], Mapping[str, Any]]
_FACTS = ("subject", "contestant", "owners", "components", "neighbours", "epsilon")


def _known(cells: Sequence[Mapping[str, Any]]) -> _Cells:
    """Cells by those of the `_FACTS` that they have."""
    return {tuple(cell[fact] for fact in _FACTS if fact in cell): cell for cell in cells}


def _three(cell: Mapping[str, Any] | None, *names: str) -> str:
    """Mean of a figure of a cell, or of one of its targets; a dash where it was not measured."""
    measured: Any = cell
    for name in names:
        measured = (measured or {}).get(name)
    return "–" if measured is None else f"{measured[0]:.3f}"


def _added_table(found: Mapping[str, _Cells]) -> str:
    """Rows of one owner under the relation of the others, with real rows and SDV's beside them."""
    lines = [(REAL, "", ""), ("SDV GaussianCopula", "", "")]
    others = [who.name for who in synthetic.CONTESTANTS if who.environment == synthetic.PGM]
    added = str(Neighbours.ADDED)
    lines += [(who, added, each) for who in (synthetic.OURS, *others) for each in ("0.2", "1")]
    rows = []
    for who, neighbours, epsilon in lines:
        cells = {
            name: found[name].get((name, who, 1, neighbours, epsilon))
            for name in synthetic.SUBJECTS
        }
        row = [who, epsilon or "none", *(_three(cell, "workload") for cell in cells.values())]
        adult = cells["adult"] or {}
        row += [_three(adult, "trees", "income"), _mean(adult.get("seconds"), 1)]
        rows.append(row)
    header = ["rows of", "ε", *(f"error, {name}" for name in synthetic.SUBJECTS)]
    return markdown_table([*header, "income, trees", "seconds"], rows)


def _replaced_table(found: Mapping[str, _Cells]) -> str:
    """Two-way tables of one owner's and several owners' rows under our relation."""
    columns = [("nltcs", "0.1"), *(("adult", each) for each in ("0.1", "0.2", "1"))]
    replaced = str(Neighbours.REPLACED)
    rows = []
    for who in synthetic.CONTESTANTS:
        if who.neighbours == replaced:
            keys = [(name, who.name, who.owners, replaced, each) for name, each in columns]
            means = [_three(found[key[0]].get(key), "pairs") for key in keys]
            rows.append([who.name, str(who.owners), *means])
    header = ["rows of", "owners", *(f"{name}, ε = {each}" for name, each in columns)]
    return markdown_table(header, rows)


def _laws_table(cells: _Cells) -> str:
    """What three components capture and the covariance's error, by law and library."""
    small = laws.SMALL.format("8", SMALL_ROWS)
    columns = [(small, "0.1"), ("104 columns", "0.2")]
    rows = []
    for who in (pca.EXACT, pca.RANDOM, *laws.OURS, *pca.GUESTS):
        row = [who]
        for subject, epsilon in columns:
            cell = cells.get((subject, who, epsilon)) or cells.get((subject, who, "")) or {}
            error = _mean(cell.get("spectral"), 0)
            row.append(f"{_three(cell, 'captured')}; {error}" if "captured" in cell else "–")
        rows.append(row)
    header = ["release", *(f"{subject.split(',')[0]}, ε = {each}" for subject, each in columns)]
    return markdown_table(header, rows)


def _parties_table(cells: _Cells) -> str:
    """Ten parties' components."""
    columns = [("nltcs", "0.2"), ("adult", "0.2")]
    return _captured_table(cells, parties.CONTESTANTS, columns, 10)


def _interval_table(cells: Sequence[Mapping[str, Any]], *, whole: bool) -> str:
    """Coverage and median width by question; of what gives none, the width that it would need.

    The ``whole`` table has every epsilon and the seconds, too; the page has those that decide.
    """
    rows = []
    shown = {name: text for name, text in estimates.SHOWN.items() if whole or name != "age"}
    for cell in cells:
        if not whole and (
            cell["contestant"] not in estimates.ON_PAGE or cell["epsilon"] not in ("", "1")
        ):
            continue
        added = " (added)" if cell["neighbours"] == estimates.ADDED else ""
        row = [cell["contestant"] + added, *(_interval(cell, each) for each in shown)]
        rows.append([*row, cell["epsilon"], _mean(cell.get("seconds"), 2)] if whole else row)
    header = ["interval of", *shown.values(), *(("ε", "seconds") if whole else ())]
    return markdown_table(header, rows)


def _interval(cell: Mapping[str, Any], question: str) -> str:
    covers = "covers_rows" if cell["contestant"] in estimates.FOR_ROWS else "covers"
    if question in cell.get(covers, {}):
        return f"{cell[covers][question][0]:.2f}, {cell['width'][question][0]:.2f}"
    if question in cell.get("needed", {}):
        return f"none, {cell['needed'][question][0]:.2f}"
    return "–"


def _slope_table(cells: Sequence[Mapping[str, Any]], epsilons: Sequence[str]) -> str:
    """Error, coverage and median width of slopes by kind and epsilon; a line for each maker."""
    makers: dict[str, dict[str, Mapping[str, Any]]] = {}
    for cell in cells:
        added = " (added)" if cell["neighbours"] == regressions.ADDED else ""
        makers.setdefault(cell["contestant"] + added, {})[cell["epsilon"]] = cell
    rows = []
    for who, known in makers.items():
        found = [known.get(epsilon, known.get("", {})) for epsilon in epsilons]
        row = [_slopes(each, kind) for each in found for kind in regressions.KINDS]
        rows.append([who, *row, _mean(found[0].get("seconds"), 1)])
    columns = (f"{kind}, ε = {each}" for each in epsilons for kind in regressions.KINDS)
    return markdown_table(["slopes of", *columns, "seconds"], rows)


def _slopes(cell: Mapping[str, Any], kind: str) -> str:
    if kind not in cell.get("error", {}):
        return "–"
    error = f"{cell['error'][kind][0]:.3f}"
    if kind not in cell["covers"]:
        return f"{error}; none"
    return f"{error}; {cell['covers'][kind][0]:.2f}, {cell['width'][kind][0]:.2f}"


def _captured_table(
    cells: _Cells, contestants: Sequence[str], columns: Sequence[tuple[str, str]], count: int
) -> str:
    rows = []
    for who in contestants:
        row = [who]
        for subject, epsilon in columns:
            cell = cells.get((subject, who, count, epsilon)) or cells.get((subject, who, count, ""))
            row.append(_three(cell, "captured"))
        rows.append(row)
    header = ["components of", *(f"{subject}, ε = {each}" for subject, each in columns)]
    return markdown_table(header, rows)


def section_text(name: str, section: Mapping[str, Any]) -> str:
    """The tables of one command, what could not be run, and how it was measured."""
    cells = section["cells"]
    if name in synthetic.SUBJECTS:
        tables = _synthetic_table(cells)
    elif name == "estimates":
        tables = _interval_table(cells, whole=True)
    elif name == "regressions":
        tables = _slope_table(cells, regressions.EPSILONS)
    elif name == "laws":
        tables = _every_law(cells)
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


def _every_law(cells: Sequence[Mapping[str, Any]]) -> str:
    """Return every cell of the comparison of laws."""
    rows = [
        [
            *(each[name] for name in laws.BY),
            _shown(each.get("captured")),
            _shown(each.get("spectral"), 0),
        ]
        for each in cells
    ]
    return markdown_table(["subject", "release", "ε", "captured", "spectral"], rows, words=(0, 1))


def _synthetic_table(cells: Sequence[Mapping[str, Any]]) -> str:
    done = [cell for cell in cells if cell["runs"]]
    targets = list(done[0]["linear"]) if done else []
    judges = {"linear": "linear", "rbf": "RBF", "trees": "trees"}
    header = ["rows of", "owners", "ε"]
    header += [f"{name}, {judge}" for judge in judges.values() for name in targets]
    header += [*_TABLES.values(), "seconds", "MiB", "runs"]
    parts = []
    groups = dict.fromkeys(cell["neighbours"] for cell in done)
    for neighbours in groups:
        title = f"Neighbours: {neighbours}." if neighbours else "Without privacy."
        rows = []
        for cell in done:
            if cell["neighbours"] != neighbours:
                continue
            row = [cell["contestant"], str(cell["owners"]) if neighbours else "", cell["epsilon"]]
            row += [_shown(cell.get(judge, {}).get(name)) for judge in judges for name in targets]
            row += [_shown(cell.get(name)) for name in _TABLES]
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
