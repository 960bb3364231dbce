"""A round in which the curator sees one sum, beside one in which it sees every owner's."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from functools import partial
from itertools import count
from time import process_time
from typing import Any

import numpy as np

from benchmarks.performance.federation import CuratorProcess, make_moments, make_study
from benchmarks.performance.registry import BenchmarkPlan, Cell, FigureTable
from dppca.common.kernel.aggregation.contribution import draw_masked
from dppca.common.kernel.aggregation.opening import answer, open_set
from dppca.common.kernel.aggregation.pooling import show_set, unmask
from dppca.common.kernel.aggregation.seals import make_opener_key
from dppca.common.kernel.aggregation.sum_messages import Upload
from dppca.common.kernel.aggregation.terms import Terms, key_bytes
from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.kernel.privacy.release import calibrate, draw
from dppca.common.kernel.signing import Purpose, sign
from dppca.common.kernel.study import Study, Trust
from dppca.curator.study.assembly import assemble_study
from dppca.deploy.simulation.aggregation import Aggregation, write_draft
from dppca.deploy.simulation.in_memory import make_parties
from dppca.owner.site.agreement import own_key
from dppca.owner.site.config import load_site

TITLE = "A round with trust: aggregate"
ABOUT = """
From the moment every owner holds its exact sums to the moment every owner holds the components:
Gaussian noise, one colluder, two openers, everybody there; mutual TLS on loopback, every owner and
the curator a process of its own. With `aggregate` each owner masks and seals, and the openers come
back once. A ratio of 1.25 means that the round takes a quarter longer than with `owner`.

The second table has what one party computes, without network and disk, in processor seconds.
"""

_COMPONENTS = 20


def measure(plan: BenchmarkPlan) -> list[FigureTable]:
    """Both rounds of the target, or one tiny one; then parties of larger federations."""
    sizes = [(3, 12)] if plan.quick else [(3, 500), (10, 1000)]
    rows = [_race(plan, *size) for size in sizes]
    wide = [(5, 2, 12)] if plan.quick else [(100, 2, 500), (100, 4, 500), (1000, 4, 500)]
    costs: list[tuple[Cell, ...]] = []
    for owners, openers, columns in wide:
        plan.say(f"{owners} owners, {openers} openers, {columns} columns, in memory")
        costs.append((owners, openers, columns, *_costs(owners, openers, columns)))
    return [
        FigureTable(
            "Seconds of a round.",
            ("owners", "columns", "aggregate", "owner", "ratio"),
            tuple(rows),
        ),
        FigureTable(
            "Processor seconds of one party, with trust: aggregate; an owner's with either trust.",
            (
                *("owners", "openers", "columns", "owner: noise, masks, seals", "owner: noise"),
                *("an opener", "curator's sum", "MB shown to an opener"),
            ),
            tuple(costs),
        ),
    ]


def _race(plan: BenchmarkPlan, owners: int, columns: int) -> tuple[Cell, ...]:
    plan.say(f"{owners} owners, {columns} columns, either trust")
    runs = count()
    with CuratorProcess(plan.scratch / f"{owners}-{columns}") as federation:
        subjects: dict[str, Callable[[], float]] = {
            trust.value: partial(_run_round, federation, runs, owners, columns, trust)
            for trust in (Trust.AGGREGATE, Trust.OWNER)
        }
        masked, plain = (each.median_s for each in plan.race(subjects).values())
    return owners, columns, masked, plain, masked / plain


def _run_round(
    federation: CuratorProcess, runs: count[int], owners: int, columns: int, trust: Trust
) -> float:
    run = next(runs)
    study = make_study(f"round-{run}", owners=owners, columns=columns, components=_COMPONENTS)
    secrets: dict[str, bytes] = {}
    if trust is Trust.AGGREGATE:
        study, secrets = _mask_study(federation, study)
    return federation.go(study, run, secrets)


def _mask_study(federation: CuratorProcess, study: Study) -> tuple[Study, dict[str, bytes]]:
    """The study with trust in the sum and the owners' own keys, and its two openers' secrets."""
    secrets = {name: make_opener_key(OperatingSystemEntropy()) for name in study.owners[:2]}
    parts = []
    for name in study.owners:
        key = own_key(load_site(federation.enrol(name)))
        part: dict[str, Any] = {"identities": {name: _base64(key_bytes(key.public_key()))}}
        if name in secrets:
            signature = sign(key, Purpose.OPENER, secrets[name].public)
            offered = {"key": _base64(secrets[name].public), "signature": _base64(signature)}
            part["openers"] = {name: offered}
        parts.append((name, json.dumps(part)))
    _, masked = assemble_study(write_draft(study, Aggregation(colluders=1, openers=2)), parts)
    return masked, {name: each.secret for name, each in secrets.items()}


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _costs(owners: int, openers: int, columns: int) -> tuple[float, float, float, float, float]:
    study = make_study("costs", owners=owners, columns=columns, components=_COMPONENTS)
    moments = make_moments(study, 0)
    plain = calibrate(study)
    entropy = OperatingSystemEntropy()
    begin = process_time()
    draw(study, plain, moments, release_id=bytes(16), ledger_sequence=0, entropy=entropy)
    noise_s = process_time() - begin
    parties = make_parties(study, Aggregation(colluders=1, openers=openers), entropy=entropy)
    masked, keys, secrets = parties.study, parties.keys, parties.secrets
    terms, calibration = Terms.from_study(masked), calibrate(masked)
    uploads, owner_s = [], []
    for name, key in keys.items():
        begin = process_time()
        release = draw_masked(
            masked,
            calibration,
            moments,
            terms=terms,
            owner=name,
            key=key,
            release_id=bytes(16),
            ledger_sequence=0,
            entropy=entropy,
        )
        owner_s.append(process_time() - begin)
        uploads.append(Upload.from_bytes(release.payload(), terms))
    openings, opener_s, shown_mb = [], [], 0.0
    for name in terms.openers:
        shown = show_set(terms, uploads, opener=name)
        shown_mb = len(shown.to_bytes()) / 1e6
        begin = process_time()
        sums = open_set(terms, shown, (), opener=name, secret=secrets[name], bound=None)
        made = answer(terms, sums, terms.held(name), opener=name, key=keys[name])
        opener_s.append(process_time() - begin)
        openings.append(made)
    begin = process_time()
    unmask(terms, uploads, openings)
    pool_s = process_time() - begin
    return float(np.median(owner_s)), noise_s, float(np.median(opener_s)), pool_s, shown_mb
