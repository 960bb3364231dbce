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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import yaml

from common.errors import DataError
from common.privacy.release import calibrate
from common.study import Study, decimal_text
from common.transport.tls import Identity, Role
from curator import pki
from deploy.simulation.parties import Answer, Parties, parties

CURATOR, OWNER = "curator.cli", "owner.cli"
DATA_SET = "rows"
WAIT_S = 300
DAYS = 1


@dataclass(frozen=True, slots=True)
class Step:
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
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class FederationRun:
    """What a run left behind; the files hold released results only."""

    owners: tuple[OwnerRun, ...]
    components: Path
    coded: Path
    decoded: Path


class Federation(Protocol):
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
    with parties() as live:
        hub = Hub(live, folder, on_step)
        hub.start()
        study_file = folder / "study.yaml"
        study_file.write_bytes(study.canonical_bytes())
        hub.operate("study", "create", str(study_file))
        sites = [Site(hub, name, study, folder / "sites" / name) for name in study.owners]
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
            (None, "coded", "decoded"), lambda form: hub.download(study, output, form=form)
        )
        return FederationRun(owners, components=components, coded=coded, decoded=decoded)


class Hub:
    """The authority, the curator's daemon and its operator."""

    def __init__(self, live: Parties, folder: Path, on_step: Callable[[], None]) -> None:
        self.live = live
        self.on_step = on_step
        self.address = ""
        self._authority = folder / "authority"
        self._folder = folder

    def start(self) -> None:
        """Make the keys of the hub and bring the curator up on a free port of this machine."""
        now = datetime.now(UTC)
        pki.init_authority(self._authority, name="simulation", days=DAYS, now=now)
        curator = self._folder / "curator"
        for identity, hosts, output in (
            (Identity("curator", Role.CURATOR), ("127.0.0.1", "localhost"), curator),
            (Identity("operator", Role.OPERATOR), (), self._folder / "operator"),
        ):
            pki.issue(
                self._authority, identity=identity, hosts=hosts, output=output, days=DAYS, now=now
            )
        port_file = self._folder / "port"
        arguments = ["serve", "--state", str(self._folder / "state"), "--listen", "127.0.0.1:0"]
        arguments += ["--credentials", str(curator), "--port-file", str(port_file)]
        log = self._folder / "curator.log"
        self.live.serve("curator", CURATOR, *arguments, log=log, port_file=port_file)
        self.address = port_file.read_text().strip()
        self.on_step()

    def sign(self, name: str, site: Path) -> None:
        """Certify an owner from its request: what ``dppca-curator pki sign`` does."""
        pki.sign_request(
            self._authority,
            request=(site / "request.pem").read_bytes(),
            name=name,
            output=site / "certificate.pem",
            days=DAYS,
            now=datetime.now(UTC),
        )
        shutil.copy(self._authority / "ca.pem", site)

    def operate(self, *arguments: str) -> Answer:
        """Run a command as the operator."""
        connection = ("--curator", self.address, "--credentials", str(self._folder / "operator"))
        answer = self.live.call("operator", CURATOR, *arguments, *connection)
        self.on_step()
        return answer

    def download(self, study: Study, output: Path, *, form: str | None) -> Path:
        """Fetch the synthetic rows of one form, or the components; what was there is replaced."""
        if form is None:
            path, what = output / "components.npz", ["components", study.name]
        else:
            path = output / f"synthetic-{form}.parquet"
            what = ["synthetic", study.name, "--form", form]
        path.unlink(missing_ok=True)
        self.operate("study", *what, "--output", str(path))
        return path


class Site:
    """One owner: a folder, a key that stays there, and its own rows."""

    def __init__(self, hub: Hub, name: str, study: Study, folder: Path) -> None:
        self.name = name
        self.model = folder / "model.skops"
        self._hub = hub
        self._study = study
        self._folder = folder

    def contribute(self, rows: Path) -> dict[str, Answer]:
        """Set the site up, have its request signed, and send the one release."""
        self._folder.mkdir(parents=True)
        answers = {"init": self._call("init", "--name", self.name, "--curator", self._hub.address)}
        self._hub.sign(self.name, self._folder)
        shutil.move(rows, self._folder / rows.name)
        (self._folder / "policy.yaml").write_text(policy_text(self._study, rows.name))
        answers["contribute"] = self._call("contribute", self._study.name, "--yes")
        return answers

    def use_result(self, target: str) -> dict[str, Answer]:
        """Fetch the components, publish synthetic rows, train at home."""
        name = self._study.name
        training = ("--target", target, "--method", "dppca-svm", "--kernel", "linear")
        return {
            "components": self._call("components", name, "--wait", str(WAIT_S)),
            "synthesize": self._call("synthesize", name, "--publish"),
            "train": self._call("train", name, *training, "--output", str(self.model)),
        }

    def _call(self, *arguments: str) -> Answer:
        answer = self._hub.live.call(self.name, OWNER, "--site", str(self._folder), *arguments)
        self._hub.on_step()
        return answer


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
    from owner.training import load_model, predict_file

    accuracy = predict_file(load_model(model), held_out, output).accuracy
    if accuracy is None:
        message = "no held-out row has a known label of the target: check the data"
        raise DataError(message)
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
            Step(step, answer.seconds, int(answer.document.get("bytes", 0)))
            for step, answer in answers.items()
        ),
    )
