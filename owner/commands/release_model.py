"""What ``dppca-owner train`` does for a model that may leave: DP-SVM on the study's components."""

from __future__ import annotations

import json
import time
from pathlib import Path

from dppca.common.attestation.models import sealed_archive
from dppca.common.estimators.base.weight_noise import split_over
from dppca.common.study import Study
from dppca.owner.commands.release_file import make_file
from dppca.owner.ledger.reading import read_history
from dppca.owner.models.catalogue import ResolvedMethod, TrainOptions
from dppca.owner.models.model import write_model
from dppca.owner.records import Table
from dppca.owner.release.contribution import choose_data_set
from dppca.owner.release.weights import WeightRelease, plan_release, request_weights
from dppca.owner.render.models import ReleasedModelDocument
from dppca.owner.render.releases import LeavingFile
from dppca.owner.site.config import Site
from dppca.owner.site.kept_studies import kept_result, model_path
from dppca.owner.site.policy import load_policy


def release_model(
    site: Site,
    study: Study,
    resolved: ResolvedMethod,
    options: TrainOptions,
    *,
    data_set_name: str | None,
    target: str,
    output: Path | None,
    quiet: bool,
) -> ReleasedModelDocument:
    """Make a model that may leave, or find it; the command's JSON document.

    Parameters
    ----------
    quiet
        Do not show the review where consent was given beforehand.
    """
    started = time.perf_counter()
    policy, history = load_policy(site), read_history(site.ledger)
    data_set = choose_data_set(study, history, policy, data_set_name)

    asked = request_weights(
        study,
        data_set=data_set.name,
        target=target,
        epsilon=options.epsilon,
        delta=options.delta,
        C=resolved.C,
    )

    def plan(table: Table) -> tuple[WeightRelease, LeavingFile]:
        result, digest = kept_result(site, study)
        release = plan_release(asked, result, n_rows=table.n_rows, components_sha256=digest.hex())
        return release, _describe(release)

    made = make_file(
        site,
        study,
        data_set,
        asked.digest,
        plan,
        command=options.command(study.name, target=target, data_set=data_set.name),
        path=output or model_path(site, study.name, target, resolved.method.name),
        yes=options.yes,
        quiet=quiet,
    )
    write_model(sealed_archive(made.stored.payload, made.signer), made.path)
    receipt = json.loads(made.stored.receipt)
    return {
        "command": "train",
        **made.document(),
        "target": receipt["target"],
        "method": receipt["method"],
        "kernel": resolved.kernel,
        "model": str(made.path),
        "training_accuracy": None,  # would be computed from rows, without noise
        "n_components": receipt["n_components"],
        "split": receipt["split"],
        "seconds": round(time.perf_counter() - started, 6),
    }


def _describe(release: WeightRelease) -> LeavingFile:
    machines, k = release.weights.n_machines, release.weights.D - 1
    return LeavingFile(
        title=f"A classifier of {release.model_request.terms.target}",
        noun="model",
        leaves=f"noised weights of {machines} linear machine{'s' if machines > 1 else ''} on {k} "
        "components, which are released already",
        beside="on top of the components",
        work="train",
        max_rows_per_person=release.model_request.study.max_rows_per_person,
        split=split_over(machines),
    )
