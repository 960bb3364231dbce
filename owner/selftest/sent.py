"""Audit of what this site's own commands send and write: ``contribute`` and ``train``.

`dppca.owner.selftest.releases` draws by the plans, but a command chooses where its noise comes
from. So ``contribute`` answers two studies of 40,000 entries, ``train`` makes two models of their
result, what the operating system's generator gives meanwhile is counted, and what the ledger was
charged is compared with the cost.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.attestation.results import result_from_bytes
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.noise_law import IndependentLaw
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study
from dppca.common.verification.model_archives import open_archive
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.file import read_history
from dppca.owner.records.table import moments_of_table, open_table
from dppca.owner.release.weights import WeightRequest, plan_release, request_weights
from dppca.owner.selftest.draws import count_kernel
from dppca.owner.selftest.findings import Finding
from dppca.owner.selftest.judging import judge_independence, judge_law, judge_randomness
from dppca.owner.selftest.laws import bits
from dppca.owner.selftest.local_federation import VICTIM, TemporaryFederation
from dppca.owner.selftest.releases import make_study, privacy_of
from dppca.owner.site.config import load_site
from dppca.owner.site.kept_results import kept_result

DATA_SET = "wide"
_LAW, _CELLS, _LABELS, _BINARIES = "laplace", 200, 12, 30
_PENALTIES = (0.01, 0.02)  # models that differ in C have noise of one law, in steps of their grid
_FORM = "{} by command"


def audit_sent(federation: TemporaryFederation) -> list[Finding]:
    """Audit contributions and models that the commands make; the policy has `DATA_SET`."""
    table = federation.site / f"{DATA_SET}.csv"
    table.write_text(_rows(), encoding="utf-8")
    studies = [_study(f"{DATA_SET}-{number}") for number in range(2)]
    noises = []
    with count_kernel() as given:
        for study in studies:
            federation.create(study)
            federation.owner("contribute", study.name, "--yes", "--data-set", DATA_SET)
    taken = sum(given)
    for study in studies:
        pooled = result_from_bytes(federation.components(study).content, study).pooled
        noises.append(pooled - moments_of_table(open_table(table, study.table), study.table).packed)
    law = calibrate(studies[0]).law.of_entries
    findings = _judge(f"{_LAW.title()} contribution", np.stack(noises), law, taken)
    federation.owner("components", studies[0].name)
    with count_kernel() as given:
        models = [_model(federation, studies[0], C) for C in _PENALTIES]
    exact = [_exact_weights(federation, studies[0], C) for C in _PENALTIES]
    noise = np.stack(models) - np.stack([each for each, _ in exact])
    law = exact[0][1].law.of_entries
    findings += _judge(f"{_LAW.title()} model", noise, law, sum(given))
    charged = [*((study.digest, calibrate(study)) for study in studies)]
    charged += [
        (_request(studies[0], C).digest, noise)
        for C, (_, noise) in zip(_PENALTIES, exact, strict=True)
    ]
    return [*findings, _charges(read_history(federation.site / "ledger.sqlite"), charged)]


def _charges(history: History, charged: Sequence[tuple[str, Calibration]]) -> Finding:
    """Check what the site's ledger was charged for requests, by digest, with this noise."""
    faults = []
    for digest, noise in charged:
        entry = history.reservation_for(digest)
        cost = noise.law.cost(noise.sensitivity, noise.factor)
        if entry is None:
            faults.append("a release has no entry in the ledger")
        elif not entry.request.price.charge.covers(cost):
            faults.append(f"{entry.request.title} cost more than was charged")
    says = f"the ledger's charges for {len(charged)} releases cover their cost"
    return Finding.of_faults(_FORM.format("charges"), faults, says)


def _judge(kind: str, noise: NDArray[np.int64], law: IndependentLaw, taken: int) -> list[Finding]:
    title = _FORM.format(kind)
    return [
        judge_law(title, noise, law),
        judge_independence(title, noise, law),
        judge_randomness(title, bits(law, noise), 8.0 * taken),
    ]


def _model(federation: TemporaryFederation, study: Study, C: float) -> NDArray[np.int64]:
    """Return the noised weights that ``train`` wrote, shape (K D,), in steps of the grid."""
    file = federation.site / f"model-{C}"
    options = ("--target", "target", "--method", "dp-svm", "--epsilon", "1", "--C", str(C))
    federation.owner("train", study.name, *options, "--yes", "--output", str(file))
    return np.asarray(open_archive(file.read_bytes()).state["noised_"], np.int64).ravel()


def _exact_weights(
    federation: TemporaryFederation, study: Study, C: float
) -> tuple[NDArray[np.int64], Calibration]:
    """Return the same model's weights without noise, and its noise."""
    asked = _request(study, C)
    result, digest = kept_result(load_site(federation.site), study)
    table = open_table(federation.site / f"{DATA_SET}.csv", study.table)
    plan = plan_release(asked, result, n_rows=table.n_rows, components_sha256=digest.hex())
    return plan.prepare(plan.read(table)), plan.weights.calibration


def _request(study: Study, C: float) -> WeightRequest:
    return request_weights(study, data_set=DATA_SET, target="target", epsilon="1", delta=None, C=C)


def _study(name: str) -> Study:
    numerics = [{"name": each, "type": "numeric", "lower": 0, "upper": 1} for each in "ab"]
    target = {"name": "target", "type": "categorical", "categories": _labels()}
    binaries = [
        {"name": f"b{i}", "type": "binary", "values": ["no", "yes"]} for i in range(_BINARIES)
    ]
    return make_study(
        name,
        privacy_of(_LAW),
        [*numerics, target, *binaries],
        components=_BINARIES,
        changes={"owners": [VICTIM]},
        tables=[{"table": ["a", "b"], "cells": {"a": _CELLS, "b": _CELLS}}],
    )


def _labels() -> list[str]:
    return [f"label-{number}" for number in range(_LABELS)]


def _rows() -> str:
    """Return rows of which every label and both values of each binary occur."""
    head = ["a", "b", "target", *(f"b{i}" for i in range(_BINARIES))]
    labels, lines = _labels(), [",".join(head)]
    for row in range(2 * _BINARIES):
        coins = ["yes" if (row >> (i % 6) ^ i) & 1 else "no" for i in range(_BINARIES)]
        place = str(row / (2 * _BINARIES))
        lines.append(",".join([place, place, labels[row % _LABELS], *coins]))
    return "\n".join([*lines, ""])
