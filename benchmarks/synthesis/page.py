"""Means over trials, and the page that is made of them.

`docs/evidence/synthesis.json` holds the means; `docs/reference/synthesis.md` has those that decide,
and a test compares the two.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from benchmarks.experiment import (
    fill_tables,
    group_runs,
    keep_cells,
    markdown_table,
    mean_and_error,
    shown,
)
from benchmarks.performance.machine import made_here
from benchmarks.studies import ROOT
from benchmarks.synthesis.forms import BINS, BINS_TARGETED, FORMS, TREES
from benchmarks.synthesis.subjects import SUBJECTS
from benchmarks.synthesis.trials import (
    EPSILONS,
    MAKERS,
    ONE_NOISE,
    OWN_NOISE,
    REAL,
    ROUND_EPSILONS,
    ROUNDS,
    TREE_EPSILONS,
)

JSON_FILE = ROOT / "docs/evidence/synthesis.json"
PAGE = ROOT / "docs/reference/synthesis.md"
_CELL = ("subject", "form", "rows", "mechanism", "epsilon", "noise")
_MEANS = (
    "accuracy",
    "trees",
    "auc",
    "trees_auc",
    "pairs",
    "triples",
    "workload",
    "marginals",
    "forecast",
)
_RUNS = 6  # of a cell, unless its row says another number


def summarize(results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One cell per form, kind of rows, mechanism, epsilon and noise, with means over its trials."""
    return [
        {
            **dict(zip(_CELL, key, strict=True)),
            "runs": len(runs),
            **{
                name: mean_and_error([run[name] for run in runs])
                for name in _MEANS
                if runs[0].get(name) is not None
            },
            "seconds": round(fmean(run["seconds"] for run in runs), 2),
            "not_converged": sum("not converge" in run["method"] for run in runs),
        }
        for key, runs in group_runs(results, _CELL).items()
    ]


def keep(cells: list[dict[str, Any]]) -> None:
    """Put cells into the committed file in place of the same older ones; make the page again."""
    subjects = list(SUBJECTS)
    document = keep_cells(
        JSON_FILE,
        [{**cell, **made_here()} for cell in cells],
        known_by=_CELL,
        order=lambda cell: subjects.index(cell["subject"]),
    )
    PAGE.write_text(page(document))


def page(document: Mapping[str, Any]) -> str:
    """The page, with its tables made again."""
    cells = document["cells"]
    tables = {"epsilon": _by_epsilon(cells), "form": _by_form(cells), "trees": _by_trees(cells)}
    return fill_tables(PAGE, tables)


def full_tables(cells: Sequence[Mapping[str, Any]]) -> str:
    """Every figure of every data set."""
    parts = []
    for subject, own in group_runs(cells, ("subject",)).items():
        parts += [f"## {subject[0]}\n", subject_table(own)]
    return "\n".join(parts)


def _first(accuracy: Mapping[str, Sequence[float]]) -> str:
    """Mean of the first target."""
    return _three(next(iter(accuracy.values())))


def _three(measured: Sequence[float]) -> str:
    return f"{measured[0]:.3f}"


def _by_epsilon(cells: Sequence[Mapping[str, Any]]) -> str:
    """Accuracy of each data set's last form without bins and trees, by epsilon."""
    rows = []
    for (subject,), group in group_runs(cells, ("subject",)).items():
        own = [each for each in group if each["noise"] == OWN_NOISE and each["form"] not in BINS]
        last = max((each["form"] for each in own), key=FORMS.index, default=None)
        real = next((_first(each["accuracy"]) for each in group if each["rows"] == REAL), "–")
        shown_cells = [each for each in own if each["form"] == last]
        for (mechanism,), line in group_runs(shown_cells, ("mechanism",)).items():
            found = {each["epsilon"]: _first(each["accuracy"]) for each in line}
            name = f"{subject}, {next(iter(line[0]['accuracy']))}"
            rows.append([name, mechanism, *(found.get(each, "–") for each in EPSILONS), real])
    header = ["data, target", "noise", *(f"ε = {each}" for each in EPSILONS), "real"]
    return markdown_table(header, rows, words=(0, 1))


def _by_form(cells: Sequence[Mapping[str, Any]]) -> str:
    """Accuracy and tables of each form at an epsilon of 1, where there is more than one."""
    rows = []
    for (subject,), group in group_runs(cells, ("subject",)).items():
        real = [each for each in group if each["rows"] == REAL]
        own = [
            each
            for each in group
            if (each["noise"], each["mechanism"], each["epsilon"]) == (OWN_NOISE, "gaussian", "1")
            and (each["form"] not in BINS or each["form"] == BINS_TARGETED)
        ]
        for each in [*real, *own] if len(own) > 1 else []:
            worst = max(each["marginals"].values(), key=lambda found: found[0])
            form = REAL if each["rows"] == REAL else each["form"]
            rows.append([subject, form, _first(each["accuracy"]), _three(each["pairs"])])
            rows[-1].append(_three(worst))
    header = ["data", "release", "accuracy", "two-way", "worst histogram"]
    return markdown_table(header, rows, words=(0, 1))


def _by_trees(cells: Sequence[Mapping[str, Any]]) -> str:
    """What trees trained on rows reach, of data sets that are refined, with one noise."""
    rows = []
    refined = [each["subject"] for each in cells if each["form"] == TREES]
    for subject in dict.fromkeys(refined):
        own = [each for each in cells if each["subject"] == subject and "trees" in each]
        real = next((_first(each["trees"]) for each in own if each["rows"] == REAL), "–")
        rows.append([subject, REAL, *[real] * len(ROUND_EPSILONS), *["–"] * 2])
        once = [each for each in own if each["noise"] == ONE_NOISE and each["form"] not in BINS]
        for (form, made), line in group_runs(once, ("form", "rows")).items():
            found = {each["epsilon"]: each for each in line}
            row = [subject, form if made != ROUNDS else f"{form}; {ROUNDS}"]
            row += [_first(found[e]["trees"]) if e in found else "–" for e in ROUND_EPSILONS]
            row += [_three(found[e]["pairs"]) if e in found else "–" for e in TREE_EPSILONS]
            rows.append(row)
    header = ["data", "release", *(f"trees, ε = {each}" for each in ROUND_EPSILONS)]
    header += [f"two-way, ε = {each}" for each in TREE_EPSILONS]
    return markdown_table(header, rows, words=(0, 1))


_COLUMNS = {
    "pairs": "two-way",
    "forecast": "forecast",
    "triples": "three-way",
    "workload": "workload",
}


def subject_table(cells: Sequence[Mapping[str, Any]]) -> str:
    """All cells of one data set, with the figures that any of them has."""
    targets = list(cells[0]["accuracy"])
    trees = targets if any("trees" in cell for cell in cells) else []
    tables = [name for name in _COLUMNS if any(name in cell for cell in cells)]
    header = [
        "release",
        "rows",
        "noise",
        "of",
        "ε",
        *targets,
        *(f"{each}, trees" for each in trees),
    ]
    header += [_COLUMNS[name] for name in tables]
    numerics = bool(cells[0]["marginals"])
    header += ["worst histogram"] if numerics else []
    header += ["seconds"]
    rows = []
    order = [REAL, *MAKERS]
    for cell in sorted(
        cells,
        key=lambda c: (
            order.index(c["rows"]),
            FORMS.index(c["form"]),
            c["noise"] == ONE_NOISE,
            c["mechanism"],
            float(c["epsilon"] or 0),
        ),
    ):
        if cell["rows"] == REAL:
            row = ["", REAL, "none", "", ""]
        else:
            row = [cell["form"], cell["rows"], cell["mechanism"], cell["noise"], cell["epsilon"]]
            notes = [f"{cell['runs']} runs"] if cell["runs"] < _RUNS else []
            if cell["not_converged"]:
                notes.append(f"{cell['not_converged']} of {cell['runs']} not converged")
            row[1] += f" ({', '.join(notes)})" if notes else ""
        row += [shown(cell["accuracy"][name]) for name in targets]
        row += [shown(cell["trees"][name]) if "trees" in cell else "" for name in trees]
        row += [shown(cell[name]) if name in cell else "" for name in tables]
        if numerics:
            name, worst = max(cell["marginals"].items(), key=lambda item: item[1][0])
            row.append(f"{shown(worst)} {name}")
        row.append("" if cell["rows"] == REAL else f"{cell['seconds']:.1f}")
        rows.append(row)
    return markdown_table(header, rows, words=range(4))
