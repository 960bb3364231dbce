"""Means over trials, what was asked of them, and the page that is made from both.

`docs/reference/synthesis.json` holds the means; `docs/reference/synthesis.md` is that file in
words, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.experiment import (
    group_runs,
    keep_cells,
    markdown_table,
    mean_and_error,
    shown,
)
from benchmarks.synthesis.asked import ASKED, GAIN, HISTOGRAMS, PAIRS, Asked
from benchmarks.synthesis.forms import BINS, FORMS, PLAIN
from benchmarks.synthesis.subjects import SUBJECTS
from benchmarks.synthesis.trials import BEFORE, FIELD, ONE_NOISE, REAL

FOLDER = Path(__file__).resolve().parents[2] / "docs/reference"
JSON_FILE = FOLDER / "synthesis.json"
PAGE = FOLDER / "synthesis.md"
_CELL = ("subject", "form", "decoder", "mechanism", "epsilon", "noise")
_RUN = ("split", "draw")
_RUNS = 6  # of a cell, unless its row says another number

_HEAD = """# What synthetic rows are worth

Made by `python -m benchmarks.synthesis --write` from [synthesis.json](synthesis.json)
([why so](../explanation/synthetic-rows.md)).

Three splits of each data set: a fifth of the rows is held out, the rest dealt to three owners; two
draws of the noise for each split. Moments, the noise's width, pooling and rows are the product's;
the noise itself is NumPy's of that width, which is drawn faster. Gaussian noise has δ = 1e-9.
*Once* is one noise for the three owners together, as secure aggregation would give. Accuracy is a
linear SVM's (`C = 0.1`) that was trained on decoded synthetic rows, on the real rows held out.
*Pairs* is the mean total variation of the two-way tables of all pairs of attributes, *worst
histogram* that of a numeric's 20 equal cells, of the numeric where its mean is largest; both
against the training rows. Behind ± is the standard error of a mean, most of it the splits'.

*Plain* is a release without histograms, scores or targets, *shaped* has what is known of each
numeric, with sums of half weight, *targets* weights what is predicted twice. *8 bins* and *16 bins*
are plain but for a few numerics, which have `products: bins`
([130](../explanation/synthetic-rows.md)). *Thresholds* are the rows of the decoder before
[122](../explanation/synthetic-rows.md), made of the plain release; a gain
is over them, split by split and draw by draw. The data sets, their public bounds and where they are
from are in `benchmarks/synthesis/subjects.py`, the forms of a release in `forms.py`, what was asked
in `asked.py`.

*40 bins* are shaped, with targets, and `products: bins` for the same few numerics, whose bins are
those of their shape, or 40. A row that says a number of runs has fewer than six: so many splits and
draws were made. Seconds are of a machine that was more or less busy: `make bench` has timings.

The field's rows are of [130](../explanation/synthetic-rows.md)'s commit, which changed where
couplings begin; those of the demo, and of Adult with targets and Laplace noise from ε = 0.2 on (0.1
where the noise is drawn once), are of adacb48. NLTCS and the rows of the decoder before are of
3640648 and after, and the code that makes them has not changed since. All are from before
[151](../explanation/synthetic-rows.md), after which one split of every form was
judged again: accuracies changed by +0.001 (nltcs), -0.003 (demo), -0.004 (fair), +0.005 (adult) and
+0.004 (diamonds) in the mean over cells. Since
[155](../decisions/0155-relations-are-reported-above-the-noise.md) shares of labels are others, too.
The [comparison](../explanation/comparison.md) was made again after both, with the noise and the
splits it had before: accuracies changed by +0.001 (nltcs), +0.001 (demo) and -0.002 (adult, one
split) in the mean over its 36 cells of each, two-way tables by -0.0004, +0.0002 and -0.006.
"""


def summarize(results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One cell per form, decoder, mechanism, epsilon and noise, with means over its trials."""
    cells = group_runs(results, _CELL)
    summaries = []
    for key, runs in cells.items():
        cell = dict(zip(_CELL, key, strict=True))
        before = cells.get(tuple(({**cell, "decoder": BEFORE, "form": PLAIN}).values()), [])
        summaries.append(cell | _means(runs, before))
    return summaries


def _means(
    runs: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    earlier = {tuple(run[name] for name in _RUN): run for run in before}
    gains = [
        fmean(run["accuracy"].values()) - fmean(earlier[at]["accuracy"].values())
        for run in runs
        if (at := tuple(run[name] for name in _RUN)) in earlier
    ]
    return {
        "runs": len(runs),
        "accuracy": mean_and_error([run["accuracy"] for run in runs]),
        "gain": mean_and_error(gains) if gains else None,
        "pairs": mean_and_error([run["pairs"] for run in runs]),
        "marginals": mean_and_error([run["marginals"] for run in runs]),
        "seconds": round(fmean(run["seconds"] for run in runs), 2),
        "not_converged": sum("not converge" in run["method"] for run in runs),
    }


def keep(cells: list[dict[str, Any]]) -> None:
    """Put cells into the committed file in place of older ones, and make the page again."""
    subjects = list(SUBJECTS)
    together = keep_cells(
        JSON_FILE, cells, known_by=("subject",), order=lambda cell: subjects.index(cell["subject"])
    )
    PAGE.write_text(page(together))


def page(cells: Sequence[Mapping[str, Any]]) -> str:
    """The whole page."""
    parts = [_HEAD, "## What was asked\n", _asked_table(cells)]
    for subject in SUBJECTS:
        own = [cell for cell in cells if cell["subject"] == subject]
        if own:
            parts += [f"## {subject}\n", subject_table(own)]
    return "\n".join(parts)


def judged(asked: Asked, cells: Sequence[Mapping[str, Any]]) -> list[float] | None:
    """What was measured of a figure, mean and standard error; None where nothing was.

    Of several forms of the data set the last in the list of forms counts, of those without bins
    of numerics in products.
    """
    by_form = {
        cell["form"]: cell
        for cell in cells
        if cell["decoder"] == FIELD
        and all(getattr(asked, n) == cell[n] for n in ("subject", "mechanism", "epsilon", "noise"))
        and cell["form"] not in BINS
    }
    if not by_form:
        return None
    cell = by_form[max(by_form, key=FORMS.index)]
    measured: list[float] | None
    if asked.measure == HISTOGRAMS:
        measured = max(cell["marginals"].values())
    elif asked.measure == PAIRS:
        measured = cell["pairs"]
    elif asked.measure == GAIN:
        measured = cell["gain"]
    else:
        measured = cell["accuracy"][asked.measure]
    return measured


def is_reached(asked: Asked, mean: float) -> bool:
    """Whether the mean meets the figure, to the three decimals that are asked for."""
    shown = round(mean, 3)
    return shown >= asked.bound if asked.at_least else shown <= asked.bound


def _asked_table(cells: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for asked in ASKED:
        measured = judged(asked, cells)
        if measured is None:
            continue
        sign = "≥" if asked.at_least else "≤"
        reached = is_reached(asked, measured[0])
        verdict = "reached" if reached else f"**missed** by {_off(asked, measured[0])}"
        rows.append(
            (
                *(asked.subject, asked.mechanism, asked.epsilon, asked.noise, asked.measure),
                *(f"{sign} {asked.bound:.3f}", shown(measured), verdict),
            )
        )
    header = ("data", "noise", "ε", "of", "what", "asked", "measured", "")
    return markdown_table(header, rows, words=(0, 1, 3, 4, 7))


def _off(asked: Asked, mean: float) -> str:
    return f"{abs(mean - asked.bound):.3f}"


def subject_table(cells: Sequence[Mapping[str, Any]]) -> str:
    """All cells of one data set."""
    targets = list(cells[0]["accuracy"])
    header = ["release", "rows", "noise", "of", "ε", *targets, "pairs"]
    numerics = bool(cells[0]["marginals"])
    header += ["worst histogram"] if numerics else []
    header += ["seconds"]
    rows = []
    order = [REAL, BEFORE, FIELD]
    for cell in sorted(
        cells,
        key=lambda c: (
            order.index(c["decoder"]),
            FORMS.index(c["form"]),
            c["noise"] == ONE_NOISE,
            c["mechanism"],
            float(c["epsilon"] or 0),
        ),
    ):
        if cell["decoder"] == REAL:
            row = ["", REAL, "none", "", ""]
        else:
            row = [cell["form"], cell["decoder"], cell["mechanism"], cell["noise"], cell["epsilon"]]
            notes = [f"{cell['runs']} runs"] if cell["runs"] < _RUNS else []
            if cell["not_converged"]:
                notes.append(f"{cell['not_converged']} of {cell['runs']} not converged")
            row[1] += f" ({', '.join(notes)})" if notes else ""
        row += [shown(cell["accuracy"][name]) for name in targets]
        row.append("" if cell["decoder"] == REAL else shown(cell["pairs"]))
        if numerics:
            name, worst = max(cell["marginals"].items(), key=lambda item: item[1][0])
            row.append("" if cell["decoder"] == REAL else f"{shown(worst)} {name}")
        row.append("" if cell["decoder"] == REAL else f"{cell['seconds']:.1f}")
        rows.append(row)
    return markdown_table(header, rows, words=range(4))
