"""A round in which the curator sees one sum, beside one in which it sees every owner's."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec

from benchmarks.performance.federation import (
    Children,
    CuratorProcess,
    make_moments,
    make_study,
    owner_name,
)
from benchmarks.performance.racing import BenchmarkSubject, time_subjects
from benchmarks.performance.registry import BenchmarkPlan, Cell, FigureTable
from benchmarks.trust.trials import identity_part
from dppca.common.aggregation.contribution import draw_masked
from dppca.common.aggregation.opening import answer, open_set
from dppca.common.aggregation.pooling import show_set, unmask
from dppca.common.aggregation.seals import OpenerKey, make_opener_key
from dppca.common.aggregation.sum_messages import Upload
from dppca.common.aggregation.terms import Terms
from dppca.common.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.privacy.release import calibrate, draw
from dppca.common.study import Study
from dppca.curator.study.assembly import assemble_study
from dppca.deploy.simulation.aggregation import Aggregation, write_draft
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

_MODULE = "benchmarks.performance.masked_party"
_COMPONENTS = 20


@dataclass(frozen=True, slots=True)
class MaskedParties:
    """A study with ``trust: aggregate`` and all its secrets."""

    study: Study
    keys: dict[str, ec.EllipticCurvePrivateKey]
    secrets: dict[str, OpenerKey]


def measure(plan: BenchmarkPlan) -> list[FigureTable]:
    """Both rounds of the target, or one tiny one; then parties of larger federations."""
    sizes = [(3, 12)] if plan.quick else [(3, 500), (10, 1000)]
    rows: list[tuple[Cell, ...]] = []
    for owners, columns in sizes:
        plan.say(f"{owners} owners, {columns} columns, either trust")
        folder = plan.scratch / f"{owners}-{columns}"
        masked, plain = _race(folder, owners, columns, plan.rounds)
        rows.append((owners, columns, masked, plain, masked / plain))
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


def mask(
    study: Study, keys: dict[str, ec.EllipticCurvePrivateKey], *, openers: int, spares: int = 0
) -> MaskedParties:
    """The same study with ``trust: aggregate``, one colluder and so many openers."""
    entropy = OperatingSystemEntropy()
    secrets = {name: make_opener_key(entropy) for name in study.owners[:openers]}
    parts = [
        (name, json.dumps(identity_part(name, key, secrets.get(name))))
        for name, key in keys.items()
    ]
    draft = write_draft(study, Aggregation(colluders=1, openers=openers, spares=spares))
    return MaskedParties(assemble_study(draft, parts)[1], keys, secrets)


def _race(folder: Path, owners: int, columns: int, rounds: int) -> tuple[float, float]:
    runs = iter(range(10_000))
    with CuratorProcess(folder) as federation:

        def one(kind: str) -> Callable[[], float]:
            return lambda: _round(federation, folder, next(runs), owners, columns, kind)

        timings = time_subjects(
            [BenchmarkSubject(kind, one(kind)) for kind in ("masked", "plain")], rounds=rounds
        )
    return timings["masked"].median_s, timings["plain"].median_s


def _round(
    federation: CuratorProcess, folder: Path, run: int, owners: int, columns: int, kind: str
) -> float:
    study = make_study(f"round-{run}", owners=owners, columns=columns, components=_COMPONENTS)
    sites = [federation.enrol(owner_name(number)) for number in range(owners)]
    secrets = dict[str, OpenerKey]()
    if kind == "masked":
        keys = {name: own_key(load_site(at)) for name, at in zip(study.owners, sites, strict=True)}
        parties = mask(study, keys, openers=2)
        study, secrets = parties.study, parties.secrets
    federation.create(study)
    document = folder / f"study-{run}.json"
    document.write_bytes(study.canonical_bytes())
    commands = []
    for number, (name, site) in enumerate(zip(study.owners, sites, strict=True)):
        secret = folder / f"secret-{run}-{number}"
        secret.write_bytes(secrets[name].secret if name in secrets else b"")
        arguments = (federation.address, site, document, number, run, secret)
        commands.append([sys.executable, "-m", _MODULE, kind, *map(str, arguments)])
    return Children(commands).go()


def _costs(owners: int, openers: int, columns: int) -> tuple[float, float, float, float, float]:
    study = make_study("costs", owners=owners, columns=columns, components=_COMPONENTS)
    moments = make_moments(study, 0)
    plain = calibrate(study)
    entropy = OperatingSystemEntropy()
    begin = process_time()
    draw(study, plain, moments, release_id=bytes(16), ledger_sequence=0, entropy=entropy)
    noise_s = process_time() - begin
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in study.owners}
    parties = mask(study, keys, openers=openers)
    terms, calibration = Terms.from_study(parties.study), calibrate(parties.study)
    uploads, owner_s = [], []
    for name, key in keys.items():
        begin = process_time()
        release = draw_masked(
            parties.study,
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
        sums = open_set(terms, shown, (), opener=name, secret=parties.secrets[name], bound=None)
        made = answer(terms, sums, terms.held(name), opener=name, key=keys[name])
        opener_s.append(process_time() - begin)
        openings.append(made)
    begin = process_time()
    unmask(terms, uploads, openings)
    pool_s = process_time() - begin
    return float(np.median(owner_s)), noise_s, float(np.median(opener_s)), pool_s, shown_mb
