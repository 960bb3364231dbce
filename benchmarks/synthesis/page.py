"""Means over trials, and the page that is made of them.

`docs/reference/synthesis.json` holds the means; `docs/reference/synthesis.md` is that file in
words, and a test compares the two.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.experiment import group_runs, keep_cells, markdown_table, mean_and_error, shown
from benchmarks.synthesis.forms import FORMS
from benchmarks.synthesis.subjects import SUBJECTS
from benchmarks.synthesis.trials import MAKERS, ONE_NOISE, REAL

FOLDER = Path(__file__).resolve().parents[2] / "docs/reference"
JSON_FILE = FOLDER / "synthesis.json"
PAGE = FOLDER / "synthesis.md"
_CELL = ("subject", "form", "rows", "mechanism", "epsilon", "noise")
_MEANS = ("accuracy", "trees", "pairs", "triples", "workload", "marginals", "forecast")
_RUNS = 6  # of a cell, unless its row says another number

_HEAD = """# What synthetic rows are worth

Made by `python -m benchmarks.synthesis --write` from [synthesis.json](synthesis.json)
([why so](../explanation/synthetic-rows.md)).

Three splits of each data set: a fifth of the rows is held out, the rest dealt to three owners; two
draws of the noise for each split. Moments, the noise's width, pooling and rows are the product's;
the noise itself is NumPy's of that width, which is drawn faster. Gaussian noise has δ = 1e-9.
*Once* is one noise for the three owners together, as secure aggregation would give. Accuracy is a
linear SVM's (`C = 0.1`) that was trained on decoded synthetic rows, on the real rows held out;
*trees* is that of boosted trees (scikit-learn's HistGradientBoosting as it comes). *Two-way* and
*three-way* are mean total variations of the tables of all pairs and all triples of attributes,
*workload* is FLAIM's error (the mean L1 distance over 64 random triples and what is in them),
*worst histogram* the total variation of a numeric's 20 equal cells, of the numeric where its mean
is largest; all against the training rows. In the line of real rows they are those of the rows held
out, which are a quarter as many. *Forecast* is what `dppca-curator plan` says of two-way tables
beforehand, from noise alone. Behind ± is the standard error of a mean, most of it the splits'.

*Plain* is a release without histograms, scores or targets, *shaped* has what is known of each
numeric, with sums of half weight, *targets* weights what is predicted twice, *random trees* counts
the leaves of 20 trees of the public schema. *Two rounds* are a release with half of the budget (of
ρ) and one of the counts of trees that are grown on its rows. *8 bins* and *16 bins* are plain but
for a few numerics, which have `products: bins` ([130](../explanation/synthetic-rows.md)). *40 bins*
are shaped, with targets, and `products: bins` for the same few numerics, whose bins are those of
their shape, or 40. The data sets, their public bounds and where they are from are in
`benchmarks/synthesis/subjects.py`, the forms of a release in `forms.py`. A row that says a number
of runs has fewer than six: so many splits and draws were made. Seconds are of a machine that was
more or less busy: `make bench` has timings.
"""
_OLDER = """
Figures without trees beside them are of at most 18,000 rows, and of
[130](../explanation/synthetic-rows.md)'s commit, which changed where couplings begin; those of the
demo, and of Adult with targets and Laplace noise from ε = 0.2 on (0.1 where the noise is drawn
once), are of adacb48, those of NLTCS of 3640648 and after. All are from before
[151](../explanation/synthetic-rows.md), after which one split of every form was judged again:
accuracies changed by +0.001 (nltcs), -0.003 (demo), -0.004 (fair), +0.005 (adult) and +0.004
(diamonds) in the mean over cells.
"""


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
    together = keep_cells(
        JSON_FILE, cells, known_by=_CELL, order=lambda cell: subjects.index(cell["subject"])
    )
    PAGE.write_text(page(together))


def page(cells: Sequence[Mapping[str, Any]]) -> str:
    """The whole page."""
    parts = [_HEAD + ("" if all("trees" in cell for cell in cells) else _OLDER)]
    for subject in SUBJECTS:
        own = [cell for cell in cells if cell["subject"] == subject]
        if own:
            parts += [f"## {subject}\n", subject_table(own)]
    return "\n".join(parts)


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
