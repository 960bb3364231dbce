"""The demo in plain words, from its report and further draws of its noise."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from dppca.common.analysis.estimates.answers import EstimateAnswer
from dppca.common.analysis.estimates.face import estimates
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.documents.tables import text_table
from dppca.common.verification.estimation import read_published
from dppca.deploy.simulation.evaluate import Utility
from dppca.deploy.simulation.redraws import Draw
from dppca.deploy.simulation.run_report import SimulatedPrivacy, SimulationReport
from dppca.deploy.simulation.runner import SimulatedOwner

_WIDTH = 88  # characters of a line
VISITS, DEDUCTIBLE = "mdvis", "idp"


def ask_demo(components: Path) -> EstimateAnswer:
    """Answer one question from the demo's result file, which is verified first."""
    return estimates(read_published(components, KnownParties(None), first=None)).difference(
        VISITS, DEDUCTIBLE
    )


def _tell(answer: EstimateAnswer) -> str:
    """Tell the difference between the two kinds of plans in a sentence."""
    (found,), ((low, high),) = answer.estimates, answer.conf_int()
    if found.refused is not None or found.noise_share is None:
        return f"Visits to a physician with a deductible, less those without: {answer.summary()}"
    return (
        "Visits to a physician in a year with a deductible, less those without: "
        f"{found.estimate:.2f}, and {low:.2f} to {high:.2f} at 95 %, if years are independent; "
        f"{found.noise_share:.0%} of the variance is noise."
    )


def make_story(
    report: SimulationReport,
    draws: Sequence[Draw],
    answer: EstimateAnswer,
    *,
    width: int | None = None,
) -> str:
    """Tell the result to a first-time reader.

    ``report`` is about the demo's study; ``draws``, at least one, are from
    `dppca.deploy.simulation.redraws.draw_again`; ``answer`` is `ask_demo`'s; ``width`` is the
    terminal's, None without one.
    """
    owners, components = report.owners, report.components
    utility = report.utility
    assert utility is not None  # noqa: S101 - the demo has a target
    privacy, first = report.privacy, report.owners[0]
    holdings = ", ".join(f"{owner.name} {owner.told}" for owner in owners)
    sent = next(step.bytes for step in report.steps if step.name == "contribute")
    worst = max(owner.epsilon for owner in owners)
    found = [
        f"{len(owners)} owners, one question, no row shown",
        f"WHAT WAS FOUND. {components.count} joint components of "
        f"{len(components.eigenvalues)} columns. They capture "
        f"{100 * components.captured_variance:.1f} % of the variance that the best possible ones "
        "would; only a simulation can know that. Noise alone would reach an eigenvalue of "
        f"{components.noise_edge:.4g}, the noise edge: "
        f"{_counted(components.above_noise, 'eigenvalue')} above it, and "
        f"{_counted(components.negative, 'eigenvalue')} negative, which only noise can be.",
        "WHAT IT IS GOOD FOR. Each owner drew synthetic rows from the components and published "
        "them. Each also trained a classifier at home, on its own rows in the joint components. "
        "That one is site-only: it was made from raw rows and never left. Classifiers of "
        f"{report.target}, linear ones and boosted trees, tried on the held-out real rows:",
    ]
    how = [
        f"IN ONE SENTENCE. {utility.verdict}",
        f"WHAT TABLES OF THE ROWS ARE WORTH. {report.tables.summary}",
        f"HOW SURE THAT IS. The same study was repeated {len(draws)} times in one process, on the "
        "same rows with fresh noise. The last column has the smallest and the largest accuracy of "
        f"all {len(draws) + 1} draws. Within a line they differ by noise alone. A real study is "
        "run once; its accuracies may lie outside of what was drawn here.",
        f"HOW IT WAS DONE. The rows of the RAND Health Insurance Experiment, one per person and "
        f"year, were divided: {holdings}. Nobody got another {report.rows.held_out:,}. Each owner "
        "was a process with a folder of its own, and the curator another; they talked over mutual "
        f"TLS. Each owner sent one message: {privacy.entries} sums of {first.told} rows, each "
        f"with {privacy.mechanism} noise from the operating system ({sent:,} bytes from all owners "
        "together), and the number of its rows. No row left, and no model.",
        f"WHAT IT COST, AND WHAT THAT MEANS. Each owner's ledger was charged epsilon {worst:g}, "
        f"delta {first.delta:g}: {_promise(privacy)}",
        f"ONE QUESTION MORE, AT NO FURTHER COST. {_tell(answer)} `dppca-owner estimate "
        f"components.npz difference {VISITS} --by {DEDUCTIBLE}` says it again.",
    ]
    table = _accuracies(report.owners, utility, draws, width=width)
    paths = {**report.plots, **report.files}
    listed = "\n".join(text_table(("what", "file"), list(paths.items()), width=width))
    columns = min(_WIDTH, width or _WIDTH)
    told = [*(fill(part, columns) for part in found), table, *(fill(part, columns) for part in how)]
    return "\n\n".join(
        [*told, f"SEE FOR YOURSELF (this run took {report.seconds:.0f} s)\n{listed}"]
    )


def _accuracies(
    owners: Sequence[SimulatedOwner],
    utility: Utility,
    draws: Sequence[Draw],
    *,
    width: int | None,
) -> str:
    """Table of accuracies: this run's, and the smallest and largest over all draws."""
    noised = [
        (
            "trained on synthetic rows, coded coordinates",
            utility.tstr_accuracy,
            [draw.utility.tstr_accuracy for draw in draws],
        ),
        (
            "trained on synthetic rows, decoded to real values",
            utility.tstr_accuracy_decoded,
            [draw.utility.tstr_accuracy_decoded for draw in draws],
        ),
        (
            "trees trained on synthetic rows, decoded",
            utility.tstr_trees,
            [draw.utility.tstr_trees for draw in draws],
        ),
        *(
            (
                f"trained at home by {owner.name}",
                owner.dppca_svm_accuracy or 0.0,
                [draw.at_home[owner.name] for draw in draws],
            )
            for owner in owners
        ),
    ]
    without = [
        ("trained on real rows of all owners, without privacy", utility.trtr_accuracy),
        ("trees trained on real rows of all owners", utility.trtr_trees),
        ("always answering the commonest class", utility.majority),
    ]
    real, trees, majority = [(name, f"{found:.3f}", "no noise") for name, found in without]
    rows = [
        real,
        trees,
        *(
            (name, f"{here:.3f}", f"{min(here, *others):.3f} to {max(here, *others):.3f}")
            for name, here, others in noised
        ),
        majority,
    ]
    names = ("classifier", "this run", f"{len(draws) + 1} draws")
    return "\n".join(text_table(names, rows, width=width, right=(1, 2)))


def _counted(count: int, noun: str) -> str:
    """Text such as "1 eigenvalue is" and "2 eigenvalues are"."""
    return f"{count} {noun} is" if count == 1 else f"{count} {noun}s are"


def _promise(privacy: SimulatedPrivacy) -> str:
    k = privacy.max_rows_per_person
    if k == 1:
        return (
            "if any one row had been different, no result would have been more than e^epsilon "
            "times as likely. A row here is one year of one person, and a person has up to five: "
            "the promise is about the year. To protect whole persons, write max_rows_per_person: "
            "5, and keep each person's rows at one owner; the noise grows five times."
        )
    rows = "all" if k is None else f"all {k}"
    return (
        f"if {rows} rows of any one person had been different, no result would have been more "
        "than e^epsilon times as likely."
    )
