"""A study with every party a host of its own: what `deploy.simulation.runner` does with processes.

The same commands in the same order, so the same report; only the places differ::

    authority ▸ curator, healthy ▸ operator: study create
    owner-1 … owner-M: init ▸ signed ▸ contribute
    … when all have contributed …
    owner-1 … owner-M: components ▸ synthesize --publish ▸ train
    operator: the components and the published synthetic rows

As with processes, one thing has no counterpart in the field: each owner's `site-only` classifier is
fetched from its site and tried on held-out rows, in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from common.errors import SettingError
from common.study import Study
from deploy.containers.addresses import DEFAULT_RANGE
from deploy.containers.board import Board
from deploy.containers.cluster import (
    AUTHORITY,
    CURATOR,
    DEFAULT_IMAGE,
    LEAST_SPACE,
    MOST_OWNERS,
    OPERATOR,
    Cluster,
    Plan,
    cluster,
)
from deploy.containers.leftovers import hint
from deploy.simulation.parties import Answer, each
from deploy.simulation.runner import WAIT_S, FederationRun, OwnerRun, judge, owner_run, policy_text

LEAST_OWNERS = 2
_MODEL = "/site/model.skops"


@dataclass(frozen=True, slots=True)
class ContainerFederation:
    """A way to run a study (`deploy.simulation.runner.Federation`), in containers.

    Attributes
    ----------
    image
        On the engine already.
    addresses
        Range for the private networks.
    shown
        Whether to show what the parties do, on ``stream`` (standard error where None).
    """

    image: str = DEFAULT_IMAGE
    addresses: str = DEFAULT_RANGE
    shown: bool = True
    stream: IO[str] | None = None

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
        """Run a study from keys to synthetic rows; arguments as of `run_federation`.

        Raises
        ------
        SettingError
            Fewer than `LEAST_OWNERS` or more than `MOST_OWNERS`.
        EngineError
            Of the class that says what the engine lacks.
        DppcaError
            Of the class that a party failed with. Nothing that was made is left, either way.
        """
        if not LEAST_OWNERS <= len(study.owners) <= MOST_OWNERS:
            message = (
                f"containers serve {LEAST_OWNERS} to {MOST_OWNERS} owners, not {len(study.owners)}"
            )
            raise SettingError(message)
        plan = Plan(owners=study.owners, image=self.image, addresses=self.addresses)
        with cluster(plan) as hosts:
            board = Board(
                hosts.parties, traffic=hosts.traffic, shown=self.shown, stream=self.stream
            )
            run = _Run(hosts, board, study, on_step)
            try:
                run.bring_up(sum(path.stat().st_size for path in rows.values()))
                owners = run.by_owners(rows, held_out=held_out, target=target, folder=folder)
                components, coded, decoded = (
                    run.download(output, form=form) for form in (None, "coded", "decoded")
                )
            finally:
                board.close()
                board.say("removing containers, networks and volumes")
        return FederationRun(owners, components=components, coded=coded, decoded=decoded)


@dataclass(frozen=True, slots=True)
class _Run:
    hosts: Cluster
    board: Board
    study: Study
    on_step: Callable[[], None]

    def bring_up(self, n_row_bytes: int) -> None:
        """Hosts, a healthy curator, and the study on it."""
        told = hint(self.hosts.engine.client)
        if told is not None:
            self.board.say(told)
        self.board.say("making containers, networks and volumes")
        self.hosts.engine.require_space(LEAST_SPACE + 2 * n_row_bytes)
        self.hosts.make()
        self.board.watch()
        with self.board.at_work(AUTHORITY, "certificates", then="signing"):
            self.hosts.certify_hub()
        with self.board.at_work(CURATOR, "starting", then="serving"):
            self.hosts.start(CURATOR)
            self.hosts.wait_until_healthy()
        self.on_step()
        with self.board.at_work(OPERATOR, "study create"):
            self.hosts.write_file(OPERATOR, "/results/study.yaml", self.study.canonical_bytes())
            self.hosts.operate("create", "/results/study.yaml")
        self.on_step()

    def by_owners(
        self, rows: Mapping[str, Path], *, held_out: Path, target: str, folder: Path
    ) -> tuple[OwnerRun, ...]:
        """Every owner's part, to its end."""
        names, stop = self.study.owners, self.hosts.stop_all
        given = each(names, lambda name: self._contribute(name, rows[name]), stop=stop)
        made = each(names, lambda name: self._use_result(name, target), stop=stop)
        models = {name: folder / f"model-{name}.skops" for name in names}
        for name, path in models.items():
            path.write_bytes(self.hosts.read_file(name, _MODEL))
        return tuple(
            owner_run(
                name,
                {**contribution, **results},
                judge(models[name], held_out, folder / f"judged-{name}.csv"),
            )
            for name, contribution, results in zip(names, given, made, strict=True)
        )

    def download(self, output: Path, *, form: str | None) -> Path:
        """Fetch the synthetic rows of one form, or the components; what was there is replaced."""
        name = self.study.name
        what = ("components", name) if form is None else ("synthetic", name, "--form", form)
        file = "components.npz" if form is None else f"synthetic-{form}.parquet"
        with self.board.at_work(OPERATOR, f"study {what[0]}", then="done"):
            self.hosts.operate(*what, "--output", f"/results/{file}")
            content = self.hosts.read_file(OPERATOR, f"/results/{file}")
        path = output / file
        path.write_bytes(content)
        self.on_step()
        return path

    def _contribute(self, name: str, rows: Path) -> dict[str, Answer]:
        with self.board.at_work(name, "enrolling"):
            answers = {"init": self.hosts.enrol(name)}
            policy = policy_text(self.study, f"/data/{rows.name}")
            self.hosts.furnish(name, rows=rows.read_bytes(), policy=policy, name=rows.name)
            rows.unlink()
        self.on_step()
        answers["contribute"] = self._call(
            name, "contribute", self.study.name, "--yes", then="contributed"
        )
        return answers

    def _use_result(self, name: str, target: str) -> dict[str, Answer]:
        study = self.study.name
        training = ("--target", target, "--method", "dppca-svm", "--kernel", "linear")
        return {
            "components": self._call(name, "components", study, "--wait", str(WAIT_S)),
            "synthesize": self._call(name, "synthesize", study, "--publish"),
            "train": self._call(name, "train", study, *training, "--output", _MODEL, then="done"),
        }

    def _call(self, name: str, *arguments: str, then: str | None = None) -> Answer:
        with self.board.at_work(name, arguments[0], then=then):
            answer = self.hosts.call(name, "dppca-owner", *arguments)
        self.on_step()
        return answer
