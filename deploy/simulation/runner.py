"""A whole federation on this machine: real processes, real mutual TLS, real noise.

::

    authority ── signs ──▶ curator (serve, loopback)  ◀── operator: study create
                    │
                    └────▶ owner-1 … owner-M, each in a folder of its own with its own rows:
                           init ▸ contribute            (noise from the operating system)
                           … when all have contributed; with trust: aggregate, openers ▸ open …
                           components ▸ synthesize --publish ▸ train
                    operator: the components and the published synthetic rows

All files lie in a temporary folder that the caller creates and removes. The parties get the same as
in the field, a study's name, an address, their certificate, and nothing from each other. One thing
has no counterpart in the field: this process tries each owner's `site-only` classifier on held-out
rows, because they must not come to a site.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import yaml

from dppca.common.analysis.field.missed import Missed
from dppca.common.analysis.rows.synthesis import DecodingMethod
from dppca.common.analysis.study_file import study_from_yaml
from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.durable.files import CredentialFolder
from dppca.common.kernel.errors import DataError
from dppca.common.kernel.privacy.accounting import PrivacyCost
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study, Trust, load_study_file
from dppca.common.transport.preloaded import load, unload
from dppca.common.transport.testbed import (
    CURATOR,
    OWNER,
    CommandAnswer,
    LocalFederation,
    Processes,
    environment,
)
from dppca.curator.certificates.local import make_authority
from dppca.deploy.simulation.aggregation import OPEN_BY, Aggregation, Refinement, write_draft
from dppca.deploy.simulation.synthesis import (
    OwnerSynthesis,
    SimulatedSynthesis,
    summarise_synthesis,
)

DATA_SET = "rows"
WAIT_S = 300  # for a result, before a simulation fails: for hangs alone
AUTHORITY = "ca.pem"
"""The certificate by which the results are verified; its key is gone with the run."""
_VALID_DAYS = 3650  # of its certificates: results of a trial are asked for years
PRELOADED = (
    "dppca.deploy.simulation.forked",
    *("dppca.owner.cli", "dppca.owner.client.calls", "dppca.owner.site.enrolment"),
    *("dppca.owner.records.delimited", "dppca.owner.records.text_cells"),
    *(f"dppca.owner.commands.{name}" for name in ("setup", "contribute", "contribute_command")),
    *(f"dppca.owner.commands.{name}" for name in ("components_command", "synthesize_command")),
    *(f"dppca.owner.commands.{name}" for name in ("components", "synthesize")),
    *("dppca.curator.cli", "dppca.curator.daemon", "dppca.curator.operator.downloads"),
    *("scipy.special", "scipy.optimize", "scipy.interpolate"),
)
"""Modules that the parties' commands import, loaded once."""
OF_MODELS = (
    *("dppca.owner.commands.train", "dppca.owner.commands.predict", "dppca.owner.models.loader"),
    *("dppca.owner.models.training", "dppca.owner.render.models"),
    "dppca.common.verification.model_classes",
)
"""Those that train a model or judge one: as much again as all others."""


@contextmanager
def preloading(target: str | None) -> Iterator[None]:
    """Let runs within fork their parties' commands from what this process loads now.

    Only before it has read any rows. ``target`` as in `FederationTask`.
    """
    loaded = load(_imported(target), environment(), alone=True)
    try:
        yield
    finally:
        if loaded:
            unload()


def _imported(target: str | None) -> tuple[str, ...]:
    return PRELOADED if target is None else (*PRELOADED, *OF_MODELS)


@dataclass(frozen=True, slots=True)
class SimulatedOwner:
    """One owner of a simulation."""

    name: Annotated[str, "name of the owner"]
    rows: Annotated[int | None, "rows or people that its receipt states; null where secret"]
    epsilon: Annotated[float, "epsilon of its release"]
    delta: Annotated[float, "delta of its release"]
    charged: Annotated[PrivacyCost, "what its ledger was charged"]
    dppca_svm_accuracy: Annotated[
        float | None, "accuracy of its own classifier on held-out rows; null without a target"
    ]
    seconds: Annotated[dict[str, float], "seconds of each of its commands"]
    bytes: Annotated[dict[str, int], "bytes that each sent or received"]

    @property
    def told(self) -> str:
        """Number of its rows, in words."""
        return "a secret number of" if self.rows is None else f"{self.rows:,}"


@dataclass(frozen=True, slots=True)
class FederationRun:
    """Results of a run, released only; ``study`` has its owners' keys if they have any.

    ``refined`` is a second study that continues it: decoded rows are made of both results.
    """

    study: Study
    owners: tuple[SimulatedOwner, ...]
    synthesis: SimulatedSynthesis
    components: Path
    coded: Path
    decoded: Path
    refined: Study | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FederationTask:
    """Study to run from keys to synthetic rows, and then a second one that continues it.

    Attributes
    ----------
    study, aggregation, refinement
        A study with ``trust: owner``; settings that give it ``trust: aggregate`` once the owners
        have keys; those of a second study, if there is to be one.
    rows
        Each owner's data file; it becomes the only data file of the owner's site.
    keys
        The column of each file that tells people apart, by owner; no entry for none.
    held_out
        Real rows that no owner gets.
    target
        Attribute for which each owner trains a classifier; None trains none.
    n_rows
        Synthetic rows that each owner draws; None for as many as it contributed.
    folder, output
        Folder for keys, sites, ledgers and the curator's state, empty except for these files;
        existing folder for the operator's downloads.
    on_step
        Called after each command.
    """

    study: Study
    aggregation: Aggregation | None
    refinement: Refinement | None
    rows: Mapping[str, Path]
    keys: Mapping[str, str]
    held_out: Path
    target: str | None
    n_rows: Mapping[str, int] | None
    folder: Path
    output: Path
    on_step: Callable[[], None]


def n_steps(
    n_owners: int, aggregation: Aggregation | None, *, target: bool = True, refined: bool = False
) -> int:
    """Number of commands in a run, for progress."""
    masked = 0 if aggregation is None else n_owners + aggregation.openers
    second = (3 + 3 * n_owners + masked) * refined
    return 5 + (4 + target) * n_owners + masked + second


def run_federation(task: FederationTask) -> FederationRun:
    """Run a task as processes of this machine, which have all ended on return.

    Raise the `DppcaError` class with which a party failed.
    """
    study, aggregation, rows = task.study, task.aggregation, task.rows
    keys = task.keys
    folder, output, n_rows = task.folder, task.output, task.n_rows
    with Processes(_imported(task.target)) as live:
        authority = make_authority(folder / "authority", days=_VALID_DAYS)
        federation = LocalFederation(live, folder, authority, on_command=task.on_step)
        federation.start()
        sites = [SiteDriver(federation, name) for name in study.owners]

        def drawn(site: SiteDriver) -> int | None:
            return None if n_rows is None else n_rows[site.name]

        joined = live.each(sites, SiteDriver.join)
        study_file = folder / "study.yaml"
        if aggregation is None:
            study_file.write_bytes(study.canonical_bytes())
        else:
            study_file.write_text(write_draft(study, aggregation), encoding="utf-8")
        study, given = _gather(federation, sites, study_file, aggregation, rows, keys)
        outcomes = live.each(
            sites, lambda site: site.use_result(study, task.target, n_rows=drawn(site))
        )

        def judged(site: SiteDriver) -> float | None:
            if task.target is None:
                return None
            return judge(live, site.model, task.held_out, folder / f"judged-{site.name}.csv")

        owners = tuple(
            owner_run(site.name, {**answers, **contribution, **results}, accuracy)
            for site, answers, contribution, results, accuracy in zip(
                sites, joined, given, outcomes, live.each(sites, judged), strict=True
            )
        )
        components, coded = live.each(
            (None, "coded"), lambda form: download(federation, study, output, form=form)
        )
        last, refined = study, None
        if task.refinement is not None:
            draft = folder / "second.yaml"
            _refine(federation, study, components, task.refinement, draft)
            last, _ = _gather(federation, sites, draft, aggregation, rows, keys, first=study)
            refined = last
            outcomes = live.each(
                sites, lambda site: site.use_result(last, None, n_rows=drawn(site))
            )
        decoded = download(federation, last, output, form="decoded")
        shutil.copyfile(CredentialFolder(authority.folder).ca, output / AUTHORITY)
        synthesis = read_synthesis(
            {site.name: outcome for site, outcome in zip(sites, outcomes, strict=True)}
        )
        return FederationRun(study, owners, synthesis, components, coded, decoded, refined)


def _gather(
    federation: LocalFederation,
    sites: Sequence[SiteDriver],
    draft: Path,
    aggregation: Aggregation | None,
    rows: Mapping[str, Path],
    keys: Mapping[str, str],
    *,
    first: Study | None = None,
) -> tuple[Study, list[dict[str, CommandAnswer]]]:
    """Create a study, let every owner contribute and every opener open; return their answers.

    ``first`` is the study that it continues.
    """
    live = federation.processes
    if aggregation is not None:
        name = str(load_study_file(draft)[0]["name"])
        draft = _assemble(live, draft, sites, aggregation, name)
    study = study_from_yaml(draft)
    federation.operate("study", "create", draft, "--yes")
    studies = [study] if first is None else [first, study]
    given = live.each(
        sites,
        lambda site: site.contribute(studies, rows[site.name], key=keys.get(site.name, "")),
    )
    # All at once: with spares, openers wait for each other's votes.
    opened = live.each(sites, lambda site: site.open_sum(study), at_once=len(sites))
    return study, [{**one, **other} for one, other in zip(given, opened, strict=True)]


def _refine(
    federation: LocalFederation,
    first: Study,
    components: Path,
    refinement: Refinement,
    draft: Path,
) -> None:
    """Draft the second study, as an operator does."""
    delta = first.privacy.delta
    arguments = {
        "--target": refinement.target,
        "--name": refinement.name(first),
        "--epsilon": decimal_text(refinement.epsilon),
        **({} if delta is None else {"--delta": decimal_text(delta)}),
        **({} if first.openers is None else {"--open-by": OPEN_BY}),
        "--output": draft,
    }
    line = [each for pair in arguments.items() for each in pair]
    federation.processes.call("operator", CURATOR, "study", "refine", components, *line)


def download(federation: LocalFederation, study: Study, output: Path, *, form: str | None) -> Path:
    """Download the synthetic rows of one form, or the components, and replace older files."""
    if form is None:
        path, what = output / "components.npz", ["components", study.name]
    else:
        path = output / f"synthetic-{form}.parquet"
        what = ["synthetic", study.name, "--form", form]
    path.unlink(missing_ok=True)
    federation.operate("study", *what, "--output", path)
    return path


class SiteDriver:
    """One owner: a folder, a key that stays there, and its own rows."""

    def __init__(self, federation: LocalFederation, name: str) -> None:
        self.name = name
        self.model = federation.site(name) / "model.skops"
        self._federation = federation

    def join(self) -> dict[str, CommandAnswer]:
        """Set the site up and have its request signed."""
        return {"init": self._federation.join(self.name)}

    def identify(self, study: str, *, opener: bool) -> CommandAnswer:
        """Print the site's keys for a study with ``trust: aggregate``."""
        return self._own("identity", study, *(["--opener"] if opener else []))

    def contribute(
        self, studies: Sequence[Study], rows: Path, *, key: str = ""
    ) -> dict[str, CommandAnswer]:
        """Send the release to the last of the studies, whose costs are the lifetime budget.

        ``key`` is the column of the rows that tells people apart, empty for none.

        In the field, another steward supplies a masked study's digest.
        """
        folder, study = self._federation.site(self.name), studies[-1]
        if rows.exists():
            shutil.move(rows, folder / rows.name)
        (folder / "policy.yaml").write_text(
            policy_text(studies, rows.name, key=key, colluders=study.privacy.colluders)
        )
        compared = ("--digest", study.digest) if study.trust is Trust.AGGREGATE else ()
        return {"contribute": self._own("contribute", study.name, "--yes", *compared)}

    def open_sum(self, study: Study) -> dict[str, CommandAnswer]:
        """Remove this site's part of the masks, if it is an opener."""
        if self.name not in (study.openers or {}):
            return {}
        return {"open": self._own("open", study.name, "--wait", WAIT_S)}

    def use_result(
        self, study: Study, target: str | None, *, n_rows: int | None = None
    ) -> dict[str, CommandAnswer]:
        """Fetch the components, publish synthetic rows, and train a model if there is a target."""
        name = study.name
        rows = () if n_rows is None else ("--rows", n_rows)
        answers = {
            "components": self._own("components", name, "--wait", WAIT_S),
            "synthesize": self._own("synthesize", name, "--publish", *rows),
        }
        if target is not None:
            training = ("--target", target, "--method", "dppca-svm", "--kernel", "linear")
            answers["train"] = self._own("train", name, *training, "--output", self.model)
        return answers

    def _own(self, *arguments: object) -> CommandAnswer:
        return self._federation.own(self.name, *arguments)


def policy_text(
    studies: Sequence[Study],
    rows: str,
    *,
    colluders: int | None,
    key: str = "",
    models: Decimal = Decimal(0),
) -> str:
    """Return a site's policy file, whose lifetime budget is exactly what the studies cost.

    The budget promises what the first of the studies does. ``rows`` is the data file's path at the
    site; ``colluders``, with ``trust: aggregate``, is the fewest that the site accepts; ``key``
    is the column that tells people apart, empty for none; ``models`` is the epsilon of models that
    are released too.
    """
    costs, table = [calibrate(study) for study in studies], studies[0].table
    people: dict[str, object] = {
        "who": "Everyone in these rows",
        "epsilon": decimal_text(sum((each.epsilon for each in costs), models)),
        "delta": decimal_text(max(each.delta for each in costs)),
        "unit": table.unit.value,
        "neighbours": table.neighbours.value,
    }
    data_set: dict[str, object] = {"population": "people", "path": rows}
    if key:
        data_set["key"] = key
    if colluders is not None:
        data_set["aggregate"] = {"colluders": colluders}
    return yaml.safe_dump({"populations": {"people": people}, "data_sets": {DATA_SET: data_set}})


def _assemble(
    live: Processes, draft: Path, sites: Sequence[SiteDriver], aggregation: Aggregation, name: str
) -> Path:
    """Assemble the study file with the sites' keys; the first sites are openers."""
    keys = live.each(
        list(enumerate(sites)),
        lambda each: each[1].identify(name, opener=each[0] < aggregation.openers),
    )
    files = [draft.with_name(f"identity-{site.name}.json") for site in sites]
    for file, answer in zip(files, keys, strict=True):
        file.write_text(json.dumps(answer.document), encoding="utf-8")
    output = draft.with_name(f"assembled-{draft.name}")
    live.call("operator", CURATOR, "study", "assemble", draft, *files, "--output", output)
    return output


def judge(live: Processes, model: Path, held_out: Path, output: Path) -> float:
    """Accuracy on held-out rows, which stay outside every site: the site's model comes to them."""
    line = ("--model", model, "--data", held_out, "--output", output)
    accuracy = live.call("judge", OWNER, "predict", *line).document["accuracy"]
    if accuracy is None:
        raise DataError("no held-out row has a known label of the target: check the data")
    return float(accuracy)


def read_synthesis(answers: Mapping[str, Mapping[str, CommandAnswer]]) -> SimulatedSynthesis:
    """Summarise the answers of each owner's ``synthesize``, among those of its other commands."""
    documents = {name: given["synthesize"].document for name, given in answers.items()}
    return summarise_synthesis(
        {
            name: OwnerSynthesis(
                int(each["rows"]),
                DecodingMethod(each["decoded_by"]),
                each["misfit"],
                tuple(Missed(**one) for one in each.get("missed", ())),
            )
            for name, each in documents.items()
        }
    )


def owner_run(
    name: str, answers: Mapping[str, CommandAnswer], accuracy: float | None
) -> SimulatedOwner:
    """Combine the answers of an owner's commands and its model's accuracy into one value."""
    charge: Mapping[str, Any] = answers["contribute"].document
    return SimulatedOwner(
        name=name,
        rows=int(charge["rows"]) or None,
        epsilon=float(charge["epsilon"]),
        delta=float(charge["delta"]),
        charged=PrivacyCost.read(charge),
        dppca_svm_accuracy=accuracy,
        seconds={step: round(answer.seconds, 3) for step, answer in answers.items()},
        bytes={step: int(answer.document.get("bytes", 0)) for step, answer in answers.items()},
    )
