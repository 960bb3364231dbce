"""What ``dppca-owner train`` does for a model that may leave: charged, drawn and stored, once.

As in `contribute`: review, consent, rows read and all done that can fail, and only then the release
path of `owner.releasing`. A model that is stored already is written again as it is, for which
neither rows nor consent are needed.

Two kinds of model go this way: DP-SVM on the study's components (`owner.model_release`) and the
estimators that may leave (`owner.estimator_release`). An `Offer` is what the path needs of either.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import click

from common.console import progress
from common.privacy.accounting import Budget
from common.privacy.entropy import EntropySource, OperatingSystemEntropy
from common.privacy.labels import Label
from common.proof.models import sealed_archive
from common.proof.signatures import signer_of
from common.study import Study, decimal_text
from owner.commands.consent import ask
from owner.config import Site, load_policy
from owner.contribution import Step, next_step, standing_of
from owner.estimator_release import (
    EstimatorPlan,
    draw_estimator,
    plan_estimator,
    prepare_estimator,
    request_estimator,
    wanted_for_estimator,
)
from owner.ledger.chain import History, admit
from owner.ledger.database import Drawn, StoredRelease, open_ledger, read_history
from owner.ledger.entries import Reservation, Wanted
from owner.methods import Asked, Choice
from owner.model_release import (
    ModelPlan,
    draw_model,
    exact_weights,
    plan_model,
    request_model,
    wanted_for_model,
)
from owner.models import write_model
from owner.records import Table, open_table
from owner.releasing import store_release
from owner.render_models import model_review_text
from owner.session import credentials_of, now
from owner.studies import kept_result, make_folder


class _Request(Protocol):
    @property
    def digest(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Offer:
    """A release as its path needs it.

    Attributes
    ----------
    leaves
        What could leave, in a phrase.
    facts
        For the review, beside the charge.
    prepare
        From the table and a callback for progress to what ``draw`` needs: not private.
    draw
        Draws the noise, under the reservation.
    """

    wanted: Wanted
    leaves: str
    facts: dict[str, Any]
    prepare: Callable[[Table, Callable[[int], None]], Any]
    draw: Callable[[Any, Reservation, EntropySource], Drawn]


def release_model(
    site: Site,
    study: Study,
    choice: Choice,
    asked: Asked,
    *,
    data_set_name: str | None,
    target: str,
    output: Path | None,
    quiet: bool,
) -> dict[str, Any]:
    """Make a model that may leave, or find it; the command's JSON document.

    Parameters
    ----------
    quiet
        Do not show the review where consent was given beforehand.
    """
    started = time.perf_counter()
    data_set = load_policy(site).data_set(data_set_name)
    request: _Request
    if choice.of_study:
        weights = request_model(
            study,
            data_set=data_set.name,
            target=target,
            epsilon=asked.epsilon,
            delta=asked.delta,
            C=choice.C,
        )
        request = weights

        def offer(table: Table) -> Offer:
            result, components_sha256 = kept_result(site, study)
            plan = plan_model(
                weights, result, n_rows=table.n_rows, components_sha256=components_sha256.hex()
            )
            return _offer_weights(plan, data_set.budget)

    else:
        estimator = request_estimator(choice, asked, study, data_set=data_set.name, target=target)
        request = estimator

        def offer(table: Table) -> Offer:
            return _offer_estimator(plan_estimator(estimator, n_rows=table.n_rows), data_set.budget)

    path = output or site.study_folder(study.name) / f"model-{target}-{choice.method.name}.skops"
    # Both before the charge: where they fail, nothing was spent.
    signer = signer_of(credentials_of(site))
    make_folder(path.parent)
    history = read_history(site.ledger)
    already_stored = next_step(history, request.digest) is Step.SEND
    if already_stored:
        with open_ledger(site.ledger, lock=site.lock) as ledger:
            stored = ledger.stored(request.digest)
    else:
        table = open_table(data_set.path, study.table)
        stored = _release(site, offer(table), table, history, yes=asked.yes, quiet=quiet)
    write_model(sealed_archive(stored.payload, signer), path)
    return {
        **_document(stored, path),
        "already_stored": already_stored,
        "seconds": round(time.perf_counter() - started, 6),
    }


def _release(
    site: Site, offer: Offer, table: Table, history: History, *, yes: bool, quiet: bool
) -> StoredRelease:
    """Ask, train, charge, draw and store; refused before anything is charged where it can be."""
    wanted = offer.wanted
    admit(history, wanted)
    text = model_review_text(
        _review(offer, table.n_rows),
        standing_of(history, wanted),
        next_step(history, wanted.study_digest),
    )
    if not yes:
        ask(text, "Make this model?", look="look at `dppca-owner budget`")
    elif not quiet:
        click.echo(text, err=True)
    with progress("Reading rows", table.n_rows, enabled=not quiet) as bar:
        prepared = offer.prepare(table, bar.advance)
    entropy = OperatingSystemEntropy()
    with open_ledger(site.ledger, lock=site.lock) as ledger:
        return store_release(
            ledger,
            wanted,
            lambda reservation: offer.draw(prepared, reservation, entropy),
            entropy=entropy,
            clock=now,
        )


def _offer_weights(plan: ModelPlan, budget: Budget) -> Offer:
    machines, k = plan.weights.n_machines, plan.weights.D - 1
    return Offer(
        wanted=wanted_for_model(plan, budget=budget),
        leaves=(
            f"noised weights of {machines} linear machine{'s' if machines > 1 else ''} on {k} "
            "components, which are released already"
        ),
        facts={
            "target": plan.request.target,
            "beside": "on top of the components",
            "split": plan.split,
            "max_rows_per_person": plan.weights.calibration.max_rows_per_person,
        },
        prepare=lambda table, advance: exact_weights(plan, table, progress=advance),
        draw=lambda exact, reservation, entropy: draw_model(
            plan, exact, reservation, entropy=entropy
        ),
    )


def _offer_estimator(plan: EstimatorPlan, budget: Budget) -> Offer:
    request = plan.request
    return Offer(
        wanted=wanted_for_estimator(plan, budget=budget),
        leaves=_LEAVES[request.method],
        facts={
            "target": request.target,
            "beside": "on top of whatever the data set was charged before",
            "split": _SPLITS.get(request.method, ""),
            "max_rows_per_person": request.study.table.max_rows_per_person,
        },
        prepare=lambda table, advance: prepare_estimator(plan, table, progress=advance),
        # An estimator takes the operating system's entropy itself, or is not labelled released.
        draw=lambda prepared, reservation, _: draw_estimator(plan, prepared, reservation),
    )


_LEAVES = {
    "pca-dpsvm": "noised components of this site's rows, and noised weights of a linear machine "
    "on them",
    "private-svm": "noised weights of a machine on random features, which are public",
    "dpsvd": "a machine made from a copy of all rows with noise on every entry and every label",
}
_SPLITS = {
    "pca-dpsvm": "half for the components, half for the weights",
    "dpsvd": "--epsilon for the rows, --label-epsilon for the labels",
}


def _review(offer: Offer, n_rows: int) -> dict[str, Any]:
    """What would be released, and at which price."""
    wanted = offer.wanted
    return {
        "study": wanted.study,
        "data_set": wanted.data_set,
        "rows": n_rows,
        "leaves": offer.leaves,
        "mechanism": wanted.mechanism,
        "epsilon": decimal_text(wanted.epsilon),
        "delta": decimal_text(wanted.delta),
        "charged_epsilon": decimal_text(wanted.charge.epsilon),
        "charged_rho": decimal_text(wanted.charge.rho),
        **offer.facts,
    }


def _document(stored: StoredRelease, path: Path) -> dict[str, Any]:
    """All of it follows from what is stored, so it is the same each time."""
    wanted, receipt = stored.reservation.wanted, json.loads(stored.receipt)
    return {
        "command": "train",
        "study": wanted.study,
        "target": receipt["target"],
        "method": receipt["method"],
        "variant": "sound",
        "kernel": receipt.get("kernel", "linear"),
        "data_set": wanted.data_set,
        "model": str(path),
        "label": Label(receipt["label"]).value,
        "rows": stored.commitment.n_rows,
        "training_accuracy": None,  # would be computed from rows, without noise
        "n_components": receipt["n_components"],
        "mechanism": wanted.mechanism,
        "epsilon": decimal_text(wanted.epsilon),
        "delta": decimal_text(wanted.delta),
        "charged_epsilon": decimal_text(wanted.charge.epsilon),
        "charged_rho": decimal_text(wanted.charge.rho),
        "split": receipt["split"],
        "release_id": stored.reservation.release_id.hex(),
        "bytes": len(stored.payload),
        "receipt": receipt,
    }
