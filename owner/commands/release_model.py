"""What ``dppca-owner train`` does for a model that may leave.

Two kinds of model go this way: DP-SVM on the study's components (`dppca.owner.release.weights`) and
the estimators that may leave (`dppca.owner.release.estimators`).
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from dppca.common.attestation.models import sealed_archive
from dppca.common.estimators.base.weight_noise import split_over
from dppca.common.study import Study
from dppca.owner.commands.release_file import Made, make_file
from dppca.owner.ledger.reading import read_history
from dppca.owner.models.catalogue import ResolvedMethod, TrainOptions
from dppca.owner.models.model import write_model
from dppca.owner.records import Table
from dppca.owner.release.contribution import choose_data_set
from dppca.owner.release.estimators import EstimatorRelease, plan_estimator, request_estimator
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

    def make(digest: str, plan: Any) -> Made:
        return make_file(
            site,
            study,
            data_set,
            digest,
            plan,
            command=options.command(study.name, target=target, data_set=data_set.name),
            path=output or model_path(site, study.name, target, resolved.method.name),
            yes=options.yes,
            quiet=quiet,
        )

    if resolved.method.uses_study:
        weights = request_weights(
            study,
            data_set=data_set.name,
            target=target,
            epsilon=options.epsilon,
            delta=options.delta,
            C=resolved.C,
        )

        def plan_weights(table: Table) -> tuple[WeightRelease, LeavingFile]:
            result, digest = kept_result(site, study)
            release = plan_release(
                weights, result, n_rows=table.n_rows, components_sha256=digest.hex()
            )
            return release, _describe_weights(release)

        made = make(weights.digest, plan_weights)
    else:
        own = request_estimator(resolved, options, study, data_set=data_set.name, target=target)

        def plan_own(table: Table) -> tuple[EstimatorRelease, LeavingFile]:
            release = plan_estimator(own, n_rows=table.n_rows)
            return release, _describe_estimator(release)

        made = make(own.digest, plan_own)
    write_model(sealed_archive(made.stored.payload, made.signer), made.path)
    receipt = json.loads(made.stored.receipt)
    return {
        "command": "train",
        **made.document(),
        "target": receipt["target"],
        "method": receipt["method"],
        "kernel": receipt.get("kernel", "linear"),
        "model": str(made.path),
        "training_accuracy": None,  # would be computed from rows, without noise
        "n_components": receipt["n_components"],
        "split": receipt["split"],
        "seconds": round(time.perf_counter() - started, 6),
    }


def _describe_weights(release: WeightRelease) -> LeavingFile:
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


def _describe_estimator(release: EstimatorRelease) -> LeavingFile:
    request = release.model_request
    return LeavingFile(
        title=f"A classifier of {request.target}",
        noun="model",
        leaves=_LEAVES[request.method],
        beside="on top of whatever the data set was charged before",
        work="train",
        max_rows_per_person=request.study.max_rows_per_person,
        split=_SPLITS.get(request.method, ""),
    )


_LEAVES = {
    "pca-dpsvm": "noised components of this site's rows, and noised weights of a linear machine "
    "on them",
    "private-svm": "noised weights of a machine on random features, which are public",
}
_SPLITS = {"pca-dpsvm": "half for the components, half for the weights"}
