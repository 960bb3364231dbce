"""An experiment's runs as a Markdown table: one line per cell, means over seeds.

A spread is the standard deviation over runs (n - 1), as the papers print it; two standard errors
of a mean are ``2 sd / sqrt(runs)``. Beside each published line stand the figures that put it in
place, where the grid holds them: the *control*, which is the same machine on a random subspace of
as many columns, scored on the same rows, and the *sound* form at the same epsilon, scored on rows
held out. Controls stand beside sound lines too, and have no lines of
their own. A column that is empty for every line is left out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from benchmarks.experiment import markdown_table
from benchmarks.papers.trials import (
    CONTROLS,
    PUBLISHED,
    SOUND,
    Experiment,
    Scored,
    Trial,
    TrialOutcome,
)


@dataclass(frozen=True, slots=True)
class Line:
    """All runs of one cell."""

    cell: Trial
    outcomes: tuple[TrialOutcome, ...]

    def values(self, measure: str) -> tuple[float, ...]:
        """What every run gave, those without such a figure left out."""
        values = (getattr(outcome, measure) for outcome in self.outcomes)
        return tuple(float(value) for value in values if value is not None)

    def mean(self, measure: str) -> float | None:
        """Mean over runs; None where there is no such figure."""
        values = self.values(measure)
        return fmean(values) if values else None

    def spread(self, measure: str) -> float:
        """Standard deviation over runs; 0 for a single one."""
        values = self.values(measure)
        return stdev(values) if len(values) > 1 else 0.0

    def text(self, measure: str, digits: int, *, unit: float = 1.0) -> str:
        """Mean, and the spread of several runs; empty where there is no such figure."""
        mean = self.mean(measure)
        if mean is None:
            return ""
        spread = f" ± {unit * self.spread(measure):.{digits}f}" if len(self.outcomes) > 1 else ""
        return f"{unit * mean:.{digits}f}{spread}"


def group_lines(cells: Sequence[Trial], outcomes: Sequence[TrialOutcome]) -> tuple[Line, ...]:
    """Runs by cell, in the order they first come."""
    groups: dict[Trial, list[TrialOutcome]] = {}
    for cell, outcome in zip(cells, outcomes, strict=True):
        groups.setdefault(replace(cell, seed=0), []).append(outcome)
    return tuple(Line(cell, tuple(group)) for cell, group in groups.items())


def make_markdown(experiment: Experiment, lines: Sequence[Line], *, command: str) -> str:
    """The table with its title, source, command and notes."""
    told = [line for line in lines if not line.cell.imitated]
    texts = {
        name: [text(line) for line in told] for name, text in _columns(experiment, lines).items()
    }
    shown = {name: column for name, column in texts.items() if any(column)}
    rows = zip(*shown.values(), strict=True)
    table = markdown_table(list(shown), rows, words=range(len(shown)))
    notes = "\n".join(f"- {note}" for note in experiment.notes)
    return (
        f"# {experiment.title}\n\n{experiment.source}. Made by `{command}`.\n\n{table}\n{notes}\n"
    )


def _columns(experiment: Experiment, lines: Sequence[Line]) -> Mapping[str, Callable[[Line], str]]:
    by_name = {line.cell.name: line for line in lines}

    def printed(measure: str) -> Callable[[Line], str]:
        return lambda line: experiment.printed(line.cell).get(measure, "")

    def control(line: Line) -> str:
        variant = CONTROLS.get(line.cell.variant)
        return beside(replace(line.cell, variant=variant)) if variant else ""

    def sound(line: Line) -> str:
        held_out = replace(line.cell, variant=SOUND, scored=Scored.HELD_OUT)
        return beside(held_out) if line.cell.variant == PUBLISHED else ""

    def beside(cell: Trial) -> str:
        return by_name[cell.name].text("accuracy", 2, unit=100) if cell.name in by_name else ""

    return {
        "data": lambda line: line.cell.source.name,
        "target": lambda line: line.cell.target,
        "method": lambda line: line.cell.method,
        "variant": lambda line: line.cell.variant,
        "epsilon": lambda line: line.cell.epsilon,
        "true epsilon": _true_epsilon,
        "delta": lambda line: _rounded(line.outcomes[0].delta),
        "m": lambda line: str(line.cell.owners) if line.cell.owners > 1 else "",
        "n": lambda line: str(line.outcomes[0].n),
        "d": lambda line: str(line.outcomes[0].d),
        "k asked": lambda line: str(line.cell.components or ""),
        "k": _components,
        "scored on": lambda line: line.cell.scored,
        "accuracy %": lambda line: line.text("accuracy", 2, unit=100),
        "decoded rows %": lambda line: line.text("decoded_accuracy", 2, unit=100),
        "printed": printed("accuracy"),
        "contribution rate %": lambda line: line.text("rate", 2, unit=100),
        "printed, rate": printed("rate"),
        "printed, k": printed("k"),
        "mean size of an entry": lambda line: _digits(line, "entry"),
        "printed, entry": printed("entry"),
        "largest singular value": lambda line: _digits(line, "norm"),
        "support vectors": lambda line: line.text("support_vectors", 0),
        "printed, support vectors": printed("support_vectors"),
        "control: random subspace": control,
        "sound form, held out": sound,
        "seconds": lambda line: f"{line.mean('seconds'):.2f}",
        "printed, seconds": printed("seconds"),
        "to predict": lambda line: _positive(line, "predict_seconds"),
        "printed, to predict": printed("predict_seconds"),
        "runs": lambda line: str(len(line.outcomes)),
    }


def _digits(line: Line, measure: str) -> str:
    mean = line.mean(measure)
    return "" if mean is None else f"{mean:.4g}"


def _true_epsilon(line: Line) -> str:
    texts = [outcome.true_epsilon for outcome in line.outcomes]
    if all(texts):
        return _rounded(max(texts, key=float))
    return "none" if line.cell.variant in (PUBLISHED, SOUND) else ""


def _rounded(decimal: str) -> str:
    return f"{float(decimal):.4g}" if decimal else ""


def _components(line: Line) -> str:
    lowest, highest = (int(end(line.values("k"))) for end in (min, max))
    if highest == 0:
        return ""
    return str(lowest) if lowest == highest else f"{lowest} to {highest}"


def _positive(line: Line, measure: str) -> str:
    mean = line.mean(measure)
    return f"{mean:.2f}" if mean else ""
