"""Report of a simulation: one value, its JSON, and the same in Markdown and on a page.

Numbers are of two kinds, separate in all forms. *Released*: numbers that follow from the owners'
releases, so that they are public after a real study. *Simulation only*: numbers that need real rows
of all owners, or held-out ones (`SIMULATION_ONLY`, a list in the report itself).
"""

import base64
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from dppca.common.analysis.comparison import PAIR_CELLS, PairSummary
from dppca.common.analysis.estimates.answers import AnswerDocument
from dppca.common.analysis.loadings import KeptComponent
from dppca.common.analysis.nothing_found import nothing_found
from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.documents.stated import WHOSE, Stated
from dppca.common.kernel.documents.values import DigestText, PathText
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.privacy.composition import ComposedGuarantee
from dppca.common.pages.rendering import render_file
from dppca.deploy.simulation.evaluate import TableUtility, Utility
from dppca.deploy.simulation.runner import SimulatedOwner
from dppca.deploy.simulation.synthesis import SimulatedSynthesis
from dppca.owner.records.faults import CheckReport
from dppca.owner.synthesis.visible_relations import VisibleRelations

SIMULATION_ONLY = (
    "rows",
    "alarms",
    "coded_by_rule",
    "components.captured_variance",
    "components.captured_by_chance",
    "utility",
    "owners[].dppca_svm_accuracy",
    "pairs",
    "tables",
    "repeats",
    "plots.marginals",
    "plots.pairs",
    "the line without noise in plots.scree",
)
_TEMPLATES = Path(__file__).parent / "templates"
_PICTURES = {
    "marginals": "Shares of each attribute among real training rows and synthetic rows",
    "pairs": "Total variation of every pair of attributes",
    "biplot": "Synthetic rows on the first two components",
}
"""Pictures on the page, which itself draws eigenvalues and loadings."""


@dataclass(frozen=True, slots=True)
class SimulatedRows:
    """Rows of a simulation."""

    training: Annotated[int, "rows that the owners hold together"]
    held_out: Annotated[int, "rows that no owner has"]


@dataclass(frozen=True, slots=True)
class SimulatedPrivacy:
    """Privacy guarantee of the owners' releases."""

    mechanism: Annotated[str, "noise: name of its law, such as `laplace`"]
    relation: Annotated[str, "which tables are neighbours"]
    unit: Annotated[str, "what the study counts: row or person"]
    max_rows_per_person: Annotated[
        int | None, "most rows of one person that are protected; null if any number is"
    ]
    counts: Annotated[str, "what `n` and `owners[].rows` count, such as people"]
    n: Annotated[int, "their number over all owners"]
    n_estimated: Annotated[bool, "whether `n` is an estimate, because the number is secret"]
    entries: Annotated[int, "noised sums that each owner released"]
    federation: Annotated[ComposedGuarantee, "the guarantee over all owners"]


@dataclass(frozen=True, slots=True)
class SimulatedComponents:
    """The joint components."""

    count: Annotated[int, "components that were kept"]
    kept: Annotated[tuple[KeptComponent, ...], "each that was kept, by attribute and label"]
    eigenvalues: Annotated[list[float], "all of them, descending, squared coded units"]
    noise_edge: Annotated[float, "largest eigenvalue that noise alone reaches"]
    above_noise: Annotated[int, "eigenvalues above it"]
    negative: Annotated[int, "negative eigenvalues, which only noise can be"]
    captured_variance: Annotated[float, "share of the best possible variance, in [0, 1]"]
    captured_by_chance: Annotated[float, "what random directions would be expected to capture"]


@dataclass(frozen=True, slots=True)
class SimulatedStep:
    """A step that every owner takes."""

    name: Annotated[str, "the owner's command"]
    seconds: Annotated[float, "seconds of the slowest owner"]
    bytes: Annotated[int, "bytes of all owners together"]


@dataclass(frozen=True, slots=True)
class RepeatedFigure:
    """One figure over all repeats."""

    mean: Annotated[float, "mean over the repeats"]
    standard_error: Annotated[float, "standard error of that mean"]


@dataclass(frozen=True, slots=True)
class SimulatedRepeats:
    """A study that was run several times; the rest of the report is about the first run."""

    count: Annotated[int, "how often the study was run"]
    seeds: Annotated[list[int], "seed of each run"]
    figures: Annotated[dict[str, RepeatedFigure], "figures by their name in the report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationReport:
    """The report of a simulation, which is also the file ``report.json``."""

    command: Annotated[str, "the command's name, without that of the program"]
    study: Annotated[str, "name of the study"]
    stated: Annotated[Stated, "what it is for, in its operator's words"]
    digest: Annotated[DigestText, "digest of the study, with the owners of the simulation"]
    target: Annotated[str | None, "attribute that classifiers predict"]
    seed: Annotated[int, "what decides who holds which rows"]
    split: Annotated[str, "how rows were divided"]
    test: Annotated[
        PathText | None, "file of rows on which models were tried; null where a fifth was held out"
    ]
    rows: Annotated[SimulatedRows, "number of rows"]
    alarms: Annotated[
        list[str], "what each owner would be told of its file as a whole, and of a test table"
    ]
    coded_by_rule: Annotated[CheckReport, "values of all owners that coding replaced"]
    privacy: Annotated[SimulatedPrivacy, "what the releases promise"]
    owners: Annotated[tuple[SimulatedOwner, ...], "one entry for each owner"]
    components: Annotated[SimulatedComponents, "the joint components"]
    relations: Annotated[
        VisibleRelations | None,
        "what the release shows of relations; null where no field can be fitted",
    ]
    synthesis: Annotated[SimulatedSynthesis, "how the synthetic rows were made"]
    refined: Annotated[
        str | None, "what a second study counted, in words; null where there was none"
    ] = None
    utility: Annotated[
        Utility | None, "what the synthetic rows are good for; null without a target"
    ]
    pairs: Annotated[PairSummary, "decoded synthetic rows against the training rows"]
    tables: Annotated[TableUtility, "tables of up to three attributes"]
    repeats: Annotated[
        SimulatedRepeats | None, "figures over all repeats; null where there is one"
    ] = None
    steps: Annotated[list[SimulatedStep], "steps in their order"]
    seconds: Annotated[float, "time of the whole run, evaluation and plots included"]
    simulation_only: Annotated[tuple[str, ...], "keys that only a simulation can know"] = (
        SIMULATION_ONLY
    )
    questions: Annotated[
        tuple[AnswerDocument, ...],
        "answers to the study's own questions, with intervals for all of them together",
    ] = ()
    answers: Annotated[
        tuple[str, ...], "commands that ask the result, with the certificate of this run"
    ] = ()
    files: Annotated[dict[str, str], "paths of the files that were written"]
    plots: Annotated[
        dict[str, str],
        "paths of the plots: SVG; biplot and pairs PNG, each beside an SVG",
    ]


def make_markdown(report: SimulationReport) -> str:
    """Return the report as Markdown: the answer first, then how it came about, then conditions."""
    return _rendered("simulation.md", report, answer=_answer(report))


def _answer(report: SimulationReport) -> list[str]:
    """Return in sentences what was found, what it is good for, how sure it is, and its price."""
    return _rendered("answer.txt", report).splitlines()


def _rendered(template: str, report: SimulationReport, **values: object) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=False,  # noqa: S701 - Markdown; filters keep names from being more than text
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["whose_words"] = WHOSE
    environment.filters |= {
        "code": _code,
        "line": one_line,
        "said": _said,
        "short": lambda value: "" if value is None else f"{value:.4g}",
        "share": lambda value: "" if value is None else f"{value:.4f}",
        "prose": lambda text: one_line(text).replace("<", "&lt;"),
    }
    environment.globals["nothing_found"] = nothing_found
    return environment.get_template(template).render(report=report, pair_cells=PAIR_CELLS, **values)


def _said(stated: Stated | Mapping[str, Any]) -> dict[str, str]:
    """Return what a study says it is for, of a report or of its document."""
    return stated.said if isinstance(stated, Stated) else Stated(**stated).said


def _code(name: str) -> str:
    return f"`{one_line(name).replace('|', chr(92) + '|')}`"


def make_page(report: SimulationReport) -> str:
    """Return the report as one HTML file with its pictures: no script, no link, no network."""
    privacy = report.privacy
    promise = f"epsilon {privacy.federation.epsilon}, delta {privacy.federation.delta}"
    face = [
        ("Study", report.study),
        ("One person, all owners together", promise),
        ("Owners", ", ".join(owner.name for owner in report.owners)),
        ("Noise", f"{privacy.mechanism}, {privacy.entries:,} numbers of each owner"),
        ("Target", report.target or "none"),
        ("Seed and split", f"{report.seed}, {report.split}"),
        ("Digest", report.digest),
    ]
    pictures = [
        (text, base64.b64encode(Path(report.plots[name]).with_suffix(".svg").read_bytes()).decode())
        for name, text in _PICTURES.items()
        if name in report.plots
    ]
    return render_file(
        [_TEMPLATES],
        "simulation.html",
        who="simulation",
        now=utc_now(),
        report=report,
        answer=_answer(report),
        questions=[asdict(each) for each in report.questions],
        face=face,
        pictures=pictures,
    )


def list_steps(owners: Sequence[SimulatedOwner]) -> list[SimulatedStep]:
    """List each step once, in the order of the owner with the most steps: only openers open."""
    return [
        SimulatedStep(
            step,
            max(owner.seconds.get(step, 0.0) for owner in owners),
            sum(owner.bytes.get(step, 0) for owner in owners),
        )
        for step in max((owner.seconds for owner in owners), key=len)
    ]


def summarise_repeats(reports: Sequence[SimulationReport]) -> SimulatedRepeats:
    """Means and standard errors over at least two reports of one request."""
    found = [_repeated_figures(report) for report in reports]
    return SimulatedRepeats(
        count=len(reports),
        seeds=[report.seed for report in reports],
        figures={name: _mean_and_error([each[name] for each in found]) for name in found[0]},
    )


def _mean_and_error(values: Sequence[float]) -> RepeatedFigure:
    return RepeatedFigure(statistics.fmean(values), statistics.stdev(values) / len(values) ** 0.5)


def _repeated_figures(report: SimulationReport) -> dict[str, float]:
    utility = {} if report.utility is None else asdict(report.utility)
    judged = utility.pop("judged", None) or {}
    for words in ("sampled", "verdict"):
        utility.pop(words, None)
    figures = {
        "components.count": report.components.count,
        "components.above_noise": report.components.above_noise,
        "components.captured_variance": report.components.captured_variance,
        "synthesis.not_converged": len(report.synthesis.not_converged),
        "pairs.mean": report.pairs.mean,
        "tables.three_way": report.tables.synthetic.three_way,
        "tables.workload": report.tables.synthetic.workload,
        **{f"utility.{name}": value for name, value in utility.items()},
        **{f"utility.judged.{name}.auc": each["auc"] for name, each in judged.items()},
        **{f"{each.name}.dppca_svm_accuracy": each.dppca_svm_accuracy for each in report.owners},
    }
    return {name: value for name, value in figures.items() if value is not None}
