"""What an experiment is made of: cells, outcomes, and the experiment itself.

A cell says everything that a run depends on, so one function of one cell (and its table) is the
whole of a run, in whatever process and order. Its name, and nothing else, seeds the noise; the seed
alone decides which rows are held out, so that methods are compared on the same ones.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from itertools import product

from benchmarks.papers.rows import PaperSource
from dppca.common.analysis.estimators.base.projection import MAGNITUDE, SIGNED
from dppca.common.kernel.privacy.noise.entropy import EntropySource, SeededEntropy

PUBLISHED = "published"
SOUND = "sound"
CONTROLS = {PUBLISHED: "control, k as published", SOUND: "control, k as sound"}
"""Variants with a random subspace of as many columns as another variant keeps."""
CEILING = ""
"""Variant of what runs without noise."""


BY_MAGNITUDE = ", by magnitude"
"""Part of a published method's name, where the contribution rate is of sorted magnitudes."""
HINGE = ", hinge loss"
"""Part of a name, where a linear machine has hinge loss, and not its square."""


class Scored(StrEnum):
    """On which rows an accuracy was measured."""

    TRAINING = "training rows"
    HELD_OUT = "held-out rows"
    NOTHING = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run.

    Attributes
    ----------
    method, variant
        As the papers call it; `PUBLISHED`, `SOUND`, `CEILING` or one of `CONTROLS`.
    epsilon, delta
        Decimals as text, empty where there is no noise; ``1/n^2`` is a delta too.
    owners
        Among how many the training rows are divided.
    rows, columns, components
        The most training rows, the number of first columns, the number of components; 0
        where the table or the method's rule decides.
    target
        What is predicted, where a table has several targets.
    """

    source: PaperSource
    method: str
    variant: str = CEILING
    epsilon: str = ""
    delta: str = ""
    owners: int = 1
    rows: int = 0
    columns: int = 0
    components: int = 0
    target: str = ""
    scored: Scored = Scored.HELD_OUT
    seed: int = 1

    @property
    def name(self) -> str:
        """All but the seed, in a form that people read and files keep."""
        settings = {
            "target": self.target,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "m": "" if self.owners == 1 else str(self.owners),
            "n": str(self.rows or ""),
            "d": str(self.columns or ""),
            "k": str(self.components or ""),
        }
        said = " ".join(f"{name}={value}" for name, value in settings.items() if value)
        form = f"{self.method} {self.variant}".strip()
        rows = f" on {self.scored}" if self.scored else ""
        return f"{self.source.name}: {form} {said}{rows}".replace("  ", " ").strip()

    @property
    def rate_of(self) -> str:
        """The reading of the contribution rate, as the methods call it."""
        return MAGNITUDE if BY_MAGNITUDE in self.method else SIGNED

    @property
    def machine(self) -> str:
        """The method without its readings."""
        return self.method.replace(BY_MAGNITUDE, "").replace(HINGE, "")

    @property
    def key(self) -> str:
        """What a run is known by."""
        return f"{self.name}, seed {self.seed}"

    @property
    def imitated(self) -> str:
        """The variant whose number of components a control has; empty for all but controls."""
        return next(
            (variant for variant, control in CONTROLS.items() if control == self.variant), ""
        )

    @property
    def noise_seed(self) -> int:
        """Seed of this run's noise, 32 bits."""
        named = f"{self.name} seed={self.seed}".encode()
        return int.from_bytes(hashlib.sha256(named).digest()[:4], "big")

    @property
    def entropy(self) -> Callable[[], EntropySource]:
        """Maker of a sound form's noise; repeatable, so it protects nobody."""
        return partial(SeededEntropy, self.noise_seed)


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """What a run gave.

    Attributes
    ----------
    n, d, k
        Training rows of all owners together, columns, components kept (0: none are computed).
    delta, true_epsilon
        As text: what was used, and what the noise really costs for whatever it protects; empty
        where no finite figure is known or there is no noise.
    accuracy, decoded_accuracy
        In [0, 1]; of a machine trained on decoded synthetic rows where there are such; None where
        no machine is trained.
    rate
        Contribution rate of the components kept; above 1 where signed eigenvalues are summed.
    entry, norm
        Mean magnitude of an entry of the noise, and its largest singular value.
    support_vectors
        None for machines that do not have them.
    seconds, predict_seconds
        Wall time of training, everything included, and of prediction.
    """

    n: int
    d: int
    k: int
    accuracy: float | None
    seconds: float
    predict_seconds: float = 0.0
    delta: str = ""
    true_epsilon: str = ""
    support_vectors: int | None = None
    decoded_accuracy: float | None = None
    rate: float | None = None
    entry: float | None = None
    norm: float | None = None


@dataclass(frozen=True, slots=True)
class GridForm:
    """One line of a figure: a method in one of its variants."""

    method: str
    variant: str = CEILING
    delta: str = ""


def crossed(
    source: PaperSource,
    forms: Iterable[GridForm],
    *,
    seeds: Iterable[int],
    epsilons: Sequence[str],
    owners: Sequence[int] = (1,),
    rows: Sequence[int] = (0,),
    columns: Sequence[int] = (0,),
    components: Sequence[int] = (0,),
    target: str = "",
) -> list[Trial]:
    """Every cell of the lines on one table, for every combination of what varies.

    A line without noise does not depend on epsilon, owners or components, so it has one cell where
    the others have many. What comes first among the arguments varies slowest, the seed fastest;
    tables keep that order.
    """
    cells: list[Trial] = []
    for form in forms:
        kind = Trial(source, form.method, form.variant, delta=form.delta, target=target)
        noisy = form.variant != CEILING
        varied = product(
            epsilons if noisy else ("",),
            owners if noisy else (1,),
            rows,
            columns,
            components if noisy else (0,),
            seeds,
        )
        cells += [
            replace(kind, epsilon=epsilon, owners=m, rows=n, columns=d, components=k, seed=seed)
            for epsilon, m, n, d, k, seed in varied
        ]
    return cells


@dataclass(frozen=True, slots=True)
class Scope:
    """How much of an experiment is run.

    Attributes
    ----------
    source
        The only table to run on; None for the experiment's own.
    quick
        Fewer rows, runs and points: two minutes.
    runs, rows
        Overrides, None where the experiment decides.
    without
        Methods that are left out.
    """

    source: PaperSource | None = None
    quick: bool = False
    runs: int | None = None
    rows: int | None = None
    without: tuple[str, ...] = ()

    @property
    def options(self) -> list[str]:
        """The options of the command that has this scope."""
        source = self.source
        given = {
            "--data": source and (source.path or source.name),
            "--label": source and source.label,
            "--runs": self.runs,
            "--rows": self.rows,
        }
        said = [str(part) for pair in given.items() if pair[1] is not None for part in pair]
        said += [part for name in self.without for part in ("--without", name)]
        return said + (["--quick"] if self.quick else [])

    def seeds(self, printed: int) -> range:
        """Seeds 1, 2, ...: as many as asked for, else 2 when quick, else as the paper has."""
        runs = self.runs if self.runs is not None else (2 if self.quick else printed)
        return range(1, runs + 1)

    def limit(self, full: int, quick: int) -> int:
        """Most training rows: as asked for, else the quick or the full number (0: all)."""
        return self.rows if self.rows is not None else (quick if self.quick else full)

    def sources(self, *own: str) -> tuple[PaperSource, ...]:
        """The experiment's own tables by name, or the one given."""
        return (
            (self.source,) if self.source is not None else tuple(PaperSource(name) for name in own)
        )


Grid = Callable[[Scope], tuple[Trial, ...]]


@dataclass(frozen=True, slots=True)
class Experiment:
    """A published experiment.

    Attributes
    ----------
    name, title, source
        Name of the command; what is shown; paper and figure.
    x
        What varies: ``epsilon``, ``k``, ``m``, ``n``, ``d`` or ``method``.
    measures
        Fields of `TrialOutcome` that are plotted, one row of panels each.
    grid
        The cells of a scope, in the order of the table.
    compute
        A module's function, so that processes can be handed it.
    printed
        Names of measures and what the paper prints for a cell; empty where it prints nothing.
    notes, table_notes
        What a reader must know, below the table: always, and of the experiment's own tables.
    kept
        What is run for the committed evidence.
    missing
        What the paper shows there and is not compared, and why.
    """

    name: str
    title: str
    source: str
    x: str
    grid: Grid
    compute: Callable[[Trial], TrialOutcome]
    measures: tuple[str, ...] = ("accuracy",)
    printed: Callable[[Trial], Mapping[str, str]] = field(default=lambda _: {})
    notes: tuple[str, ...] = ()
    table_notes: tuple[str, ...] = ()
    kept: Scope = field(default_factory=lambda: Scope(runs=2))
    missing: str = ""
