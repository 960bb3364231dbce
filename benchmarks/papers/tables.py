"""An experiment's runs as a Markdown table: one line per cell, means over seeds.

A spread is the standard deviation over runs (n - 1), as the papers print it; two standard errors
of a mean are ``2 sd / sqrt(runs)``. Beside each published line stand the figures that put it in
place, where the grid holds them: the *control*, which is the same machine on a random subspace of
as many columns, scored on the same rows, and the *sound* form at the same epsilon, scored on rows
held out. Controls stand beside sound lines too, and have no lines of
their own. A column that is empty for every line is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from benchmarks.experiment import markdown_table
from benchmarks.papers.trials import CONTROLS, PUBLISHED, SOUND, Experiment, Run, Scored, Trial


@dataclass(frozen=True, slots=True)
class Line:
    """All runs of one cell."""

    cell: Trial
    runs: tuple[Run, ...]

    def values(self, measure: str) -> tuple[float, ...]:
        """What every run gave, those without such a figure left out."""
        values = (getattr(run.outcome, measure) for run in self.runs)
        return tuple(float(value) for value in values if value is not None)

    def mean(self, measure: str) -> float | None:
        """Mean over runs; None where there is no such figure."""
        values = self.values(measure)
        return fmean(values) if values else None

    def spread(self, measure: str) -> float:
        """Standard deviation over runs; 0 for a single one."""
        values = self.values(measure)
        return stdev(values) if len(values) > 1 else 0.0


def group_lines(runs: Sequence[Run]) -> tuple[Line, ...]:
    """Runs by cell, in the order they first come."""
    by_trial: dict[str, list[Run]] = {}
    for run in runs:
        by_trial.setdefault(run.cell.name, []).append(run)
    return tuple(Line(replace(group[0].cell, seed=0), tuple(group)) for group in by_trial.values())


def make_markdown(experiment: Experiment, runs: Sequence[Run], *, command: str) -> str:
    """The table with its title, source, command and notes."""
    lines = group_lines(runs)
    told = [line for line in lines if not line.cell.imitated]
    named = [(name, [text(line) for line in told]) for name, text in _columns(experiment, lines)]
    shown = [(name, texts) for name, texts in named if any(texts)]
    header, columns = [name for name, _ in shown], [texts for _, texts in shown]
    rows = zip(*columns, strict=True)
    table = markdown_table(header, rows, words=range(len(header)))
    notes = "\n".join(f"- {note}" for note in experiment.notes)
    return (
        f"# {experiment.title}\n\n{experiment.source}. Made by `{command}`.\n\n{table}\n{notes}\n"
    )


def _columns(
    experiment: Experiment, lines: Sequence[Line]
) -> list[tuple[str, Callable[[Line], str]]]:
    vectors = any(line.mean("support_vectors") is not None for line in lines)
    columns: list[tuple[str, Callable[[Line], str]]] = [
        ("data", lambda line: line.cell.source.name),
        ("target", lambda line: line.cell.target),
        ("method", lambda line: line.cell.method),
        ("variant", lambda line: line.cell.variant),
        ("epsilon", lambda line: line.cell.epsilon),
        ("true epsilon", _true_epsilon),
        ("delta", lambda line: _rounded(line.runs[0].outcome.delta)),
        ("m", lambda line: str(line.cell.owners) if line.cell.owners > 1 else ""),
        ("n", lambda line: str(line.runs[0].outcome.n)),
        ("d", lambda line: str(line.runs[0].outcome.d)),
        ("k asked", lambda line: str(line.cell.components or "")),
        ("k", lambda line: _range(line.values("k"))),
        ("scored on", lambda line: line.cell.scored),
        ("accuracy %", lambda line: _percent(line)),
        ("decoded rows %", lambda line: _percent(line, "decoded_accuracy")),
        ("printed", lambda line: experiment.printed(line.cell).get("accuracy", "")),
    ]
    if vectors:
        columns += [
            ("support vectors", lambda line: _count(line)),
            (
                "printed, support vectors",
                lambda line: experiment.printed(line.cell).get("support_vectors", ""),
            ),
        ]
    columns += [
        ("control: random subspace", lambda line: _beside(line, lines, CONTROLS[PUBLISHED])),
        ("sound form, held out", lambda line: _beside(line, lines, SOUND)),
        ("seconds", lambda line: f"{line.mean('seconds'):.2f}"),
        ("to predict", lambda line: _seconds(line, "predict_seconds")),
        ("runs", lambda line: str(len(line.runs))),
    ]
    return columns


def _beside(line: Line, lines: Sequence[Line], variant: str) -> str:
    """The figure of the line that differs in its variant, beside those it puts in place."""
    if variant == SOUND:
        counterpart = replace(line.cell, variant=SOUND, scored=Scored.HELD_OUT)
        belongs = line.cell.variant == PUBLISHED
    else:
        counterpart = replace(line.cell, variant=CONTROLS.get(line.cell.variant, ""))
        belongs = line.cell.variant in CONTROLS
    percentages = (_percent(other) for other in lines if other.cell.name == counterpart.name)
    return next(percentages, "") if belongs else ""


def _true_epsilon(line: Line) -> str:
    texts = [run.outcome.true_epsilon for run in line.runs]
    if all(texts):
        return _rounded(max(texts, key=float))
    return "none" if line.cell.variant in (PUBLISHED, SOUND) else ""


def _rounded(decimal: str) -> str:
    return f"{float(decimal):.4g}" if decimal else ""


def _percent(line: Line, measure: str = "accuracy") -> str:
    mean = line.mean(measure)
    if mean is None:
        return ""
    spread = f" ± {100 * line.spread(measure):.2f}" if len(line.runs) > 1 else ""
    return f"{100 * mean:.2f}{spread}"


def _count(line: Line) -> str:
    mean = line.mean("support_vectors")
    if mean is None:
        return ""
    spread = line.spread("support_vectors")
    return f"{mean:.0f} ± {spread:.0f}" if len(line.runs) > 1 else f"{mean:.0f}"


def _range(values: Sequence[float]) -> str:
    lowest, highest = int(min(values)), int(max(values))
    if highest == 0:
        return ""
    return str(lowest) if lowest == highest else f"{lowest} to {highest}"


def _seconds(line: Line, measure: str) -> str:
    mean = line.mean(measure)
    return f"{mean:.2f}" if mean else ""
