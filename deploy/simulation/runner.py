"""A whole federation on this machine: real processes, real mutual TLS, real noise.

::

    authority ── signs ──▶ curator (serve, loopback)  ◀── operator: study create
                    │
                    └────▶ owner-1 … owner-M, each in a folder of its own with its own rows:
                           init ▸ contribute            (noise from the operating system)
                           … when all have contributed …
                           components ▸ synthesize --publish ▸ train
                    operator: the components and the published synthetic rows

Everything lies in a temporary folder that the caller makes and removes. The parties get what they
would get in the field, a study's name, an address, their certificate, and nothing from each other.
One thing has no counterpart in the field: each owner's `site-only` classifier is tried on held-out
rows, in this process, because they must not come to a site.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml

from dppca.common.amounts import decimal_text
from dppca.common.errors import DataError
from dppca.common.privacy.release import calibrate
from dppca.common.study import Study
from dppca.common.testbed import Answer, LocalFederation, Processes
from dppca.curator.certificates.local import make_authority

DATA_SET = "rows"
WAIT_S = 300


@dataclass(frozen=True, slots=True)
class SimulationStep:
    """One command of one owner: its process's time, and the bytes it sent or received."""

    name: str
    seconds: float
    n_bytes: int


@dataclass(frozen=True, slots=True)
class OwnerRun:
    """What one owner did and was charged; privacy figures are decimals as text.

    Attributes
    ----------
    epsilon, delta
        The guarantee of its release.
    charged_epsilon, charged_rho
        What its ledger charged.
    dppca_svm_accuracy
        Of its own DPPCA-SVM on held-out rows; only a simulation knows it.
    """

    name: str
    n_rows: int
    epsilon: str
    delta: str
    charged_epsilon: str
    charged_rho: str
    dppca_svm_accuracy: float
    steps: tuple[SimulationStep, ...]


@dataclass(frozen=True, slots=True)
class FederationRun:
    """What a run left behind; the files hold released results only."""

    owners: tuple[OwnerRun, ...]
    components: Path
    coded: Path
    decoded: Path


class FederationDriver(Protocol):
    """A way to run a study: `run_federation` says what each argument is."""

    def __call__(
        self,
        study: Study,
        *,
        rows: Mapping[str, Path],
        held_out: Path,
        target: str,
        folder: Path,
        output: Path,
        on_step: Callable[[], None],
    ) -> FederationRun:
        """Run a study from keys to synthetic rows."""


def n_steps(n_owners: int) -> int:
    """How many commands a run takes, for progress."""
    return 5 + 5 * n_owners


def run_federation(
    study: Study,
    *,
    rows: Mapping[str, Path],
    held_out: Path,
    target: str,
    folder: Path,
    output: Path,
    on_step: Callable[[], None],
) -> FederationRun:
    """Run a study from keys to synthetic rows.

    Parameters
    ----------
    rows
        Each owner's data file; it becomes the only data file of the owner's site.
    held_out
        Real rows that no owner gets.
    folder
        Temporary: keys, sites, ledgers, the curator's state.
    output
        Existing folder for what the operator downloads.
    on_step
        Called after each command.

    Raises
    ------
    DppcaError
        Of the class that a party failed with; every process has ended by then.
    """
    with Processes() as live:
        authority = make_authority(folder / "authority")
        federation = LocalFederation(live, folder, authority, on_command=on_step)
        federation.start()
        study_file = folder / "study.yaml"
        study_file.write_bytes(study.canonical_bytes())
        federation.operate("study", "create", study_file)
        sites = [SiteDriver(federation, name, study) for name in study.owners]
        given = live.each(sites, lambda site: site.contribute(rows[site.name]))
        made = live.each(sites, lambda site: site.use_result(target))
        owners = tuple(
            owner_run(
                site.name,
                {**contribution, **results},
                judge(site.model, held_out, folder / f"judged-{site.name}.csv"),
            )
            for site, contribution, results in zip(sites, given, made, strict=True)
        )
        components, coded, decoded = live.each(
            (None, "coded", "decoded"),
            lambda form: download(federation, study, output, form=form),
        )
        return FederationRun(owners, components=components, coded=coded, decoded=decoded)


def download(federation: LocalFederation, study: Study, output: Path, *, form: str | None) -> Path:
    """Fetch the synthetic rows of one form, or the components; what was there is replaced."""
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

    def __init__(self, federation: LocalFederation, name: str, study: Study) -> None:
        self.name = name
        self.model = federation.site(name) / "model.skops"
        self._federation = federation
        self._study = study

    def contribute(self, rows: Path) -> dict[str, Answer]:
        """Set the site up, have its request signed, and send the one release."""
        folder = self._federation.site(self.name)
        answers = {"init": self._federation.join(self.name)}
        shutil.move(rows, folder / rows.name)
        (folder / "policy.yaml").write_text(policy_text(self._study, rows.name))
        answers["contribute"] = self._own("contribute", self._study.name, "--yes")
        return answers

    def use_result(self, target: str) -> dict[str, Answer]:
        """Fetch the components, publish synthetic rows, train at home."""
        name = self._study.name
        training = ("--target", target, "--method", "dppca-svm", "--kernel", "linear")
        return {
            "components": self._own("components", name, "--wait", WAIT_S),
            "synthesize": self._own("synthesize", name, "--publish"),
            "train": self._own("train", name, *training, "--output", self.model),
        }

    def _own(self, *arguments: object) -> Answer:
        return self._federation.own(self.name, *arguments)


def policy_text(study: Study, rows: str) -> str:
    """A site's policy file: its lifetime budget is what this one study costs, and no more.

    Parameters
    ----------
    rows
        Path of the data file, as the site sees it.
    """
    cost = calibrate(study)
    budget = {
        "path": rows,
        "epsilon": decimal_text(cost.epsilon),
        "delta": decimal_text(cost.delta),
    }
    return yaml.safe_dump({"data_sets": {DATA_SET: budget}})


def judge(model: Path, held_out: Path, output: Path) -> float:
    """Accuracy on held-out rows, which stay outside every site: the site's model comes to them."""
    from dppca.owner.models.loader import load_model
    from dppca.owner.models.training import predict_file

    accuracy = predict_file(load_model(model), held_out, output).accuracy
    if accuracy is None:
        raise DataError("no held-out row has a known label of the target: check the data")
    return accuracy


def owner_run(name: str, answers: Mapping[str, Answer], accuracy: float) -> OwnerRun:
    """What an owner's commands answered, and how good its model is, as one value."""
    charge: Mapping[str, Any] = answers["contribute"].document
    return OwnerRun(
        name=name,
        n_rows=int(charge["rows"]),
        epsilon=str(charge["epsilon"]),
        delta=str(charge["delta"]),
        charged_epsilon=str(charge["charged_epsilon"]),
        charged_rho=str(charge["charged_rho"]),
        dppca_svm_accuracy=accuracy,
        steps=tuple(
            SimulationStep(step, answer.seconds, int(answer.document.get("bytes", 0)))
            for step, answer in answers.items()
        ),
    )
