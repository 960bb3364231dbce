"""A contribution beside a long ledger, and what one reading of that ledger costs."""

import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import numpy as np

from benchmarks.performance.federation import CuratorProcess, make_study
from benchmarks.performance.registry import BenchmarkPlan, FigureTable, Run
from benchmarks.releases import owner_name
from dppca.common.kernel.privacy.accounting import Price, PrivacyCost
from dppca.common.kernel.privacy.release import calibrate
from dppca.owner.commands.consent import Terminal
from dppca.owner.commands.contribute import ContributionOptions, contribute
from dppca.owner.ledger.chain import FIRST
from dppca.owner.ledger.database import open_ledger
from dppca.owner.ledger.entries import Delivery, Entry, Reservation, commitment, time_text
from dppca.owner.ledger.entry_documents import to_document
from dppca.owner.ledger.file import read_history
from dppca.owner.release.contribution import request_contribution
from dppca.owner.site.config import Site, load_site
from dppca.owner.site.policy import load_policy

TITLE = "Ledgers"
ABOUT = """
One site contributes beside a ledger of ten releases, another beside a long one; both have the same
rows, and each contribution is of a study of its own, to a curator on loopback. One reading verifies
the chain of that ledger from its first entry; the file is touched before each reading and each
contribution, so that nothing is known of it. A contribution verifies the ledger once: the last
column says how many readings the longer ledger adds to it. Seconds are of this process's processor.
"""
_COLUMNS, _ROWS, _SHORT = 12, 200, 10
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_RECEIPT, _PAYLOAD = b"{}", bytes(720)


def measure(plan: BenchmarkPlan) -> list[FigureTable]:
    """A contribution and a reading, beside a short and a long ledger."""
    sizes = (_SHORT, 300 if plan.quick else 10_000)
    with CuratorProcess(plan.scratch) as federation:
        subjects: dict[str, Run] = {}
        for number, size in enumerate(sizes):
            plan.say(f"a ledger of {size} releases")
            site = _make_site(federation, number, size)
            names = _studies(federation, number, plan.rounds + 1)
            subjects[f"contribute {size}"] = _contribution(site, names)
            subjects[f"read {size}"] = _reading(site)
        raced = plan.race(subjects)
    timed = {name: each.median_cpu_s for name, each in raced.items()}
    added = timed[f"contribute {sizes[1]}"] - timed[f"contribute {sizes[0]}"]
    reading = timed[f"read {sizes[1]}"] - timed[f"read {sizes[0]}"]
    return [
        FigureTable(
            "Seconds of a contribution and of one reading, by the releases in the ledger.",
            ("releases", "contribute s", "one reading s", "readings added"),
            tuple(
                (size, timed[f"contribute {size}"], timed[f"read {size}"], ratio)
                for size, ratio in zip(sizes, (None, added / reading), strict=True)
            ),
        )
    ]


def _contribution(site: Site, names: Iterator[str]) -> Run:
    steward = Terminal(yes=True, quiet=True)

    def run() -> None:
        site.ledger.touch()
        contribute(site, ContributionOptions(next(names)), steward)

    return run


def _reading(site: Site) -> Run:
    def run() -> None:
        site.ledger.touch()
        read_history(site.ledger)

    return run


def _studies(federation: CuratorProcess, number: int, count: int) -> Iterator[str]:
    """Names of fresh studies, each taken once."""
    names = [f"ledger-{number}-{each}" for each in range(count)]
    for name in names:
        federation.create(make_study(name, owners=2, columns=_COLUMNS, components=2))
    return iter(names)


def _make_site(federation: CuratorProcess, number: int, n_releases: int) -> Site:
    """A site with rows, whose ledger has this number of releases."""
    folder = federation.enrol(owner_name(number))
    rows = np.random.default_rng(number).uniform(-1, 1, (_ROWS, _COLUMNS))
    head = ",".join(f"x{i}" for i in range(_COLUMNS))
    np.savetxt(folder / "rows.csv", rows, delimiter=",", header=head, comments="")
    (folder / "policy.yaml").write_text(
        'populations:\n  people: {who: Everyone, epsilon: "1000", delta: "1e-6"}\n'
        "data_sets:\n  rows: {population: people, path: rows.csv}\n"
    )
    site = load_site(folder)
    _fill(site, n_releases)
    return site


def _fill(site: Site, n_releases: int) -> None:
    """Enter releases that were charged, stored and sent, in one transaction."""
    study = make_study("before", owners=2, columns=_COLUMNS, components=2)
    account = load_policy(site).data_set(None).account
    asked = request_contribution(study, calibrate(study), account=account)
    price = Price(asked.price.epsilon, asked.price.delta, PrivacyCost(Decimal("0.001"), Decimal(0)))
    entries: list[Entry] = []
    for number in range(n_releases):
        release_id = number.to_bytes(16, "big")
        request = replace(
            asked, study=f"before-{number}", request_digest=f"{number:064x}", price=price
        )
        place = len(entries)
        entries += [
            Reservation(place + 1, time_text(_NOW), release_id, request),
            commitment(
                sequence=place + 2,
                now=_NOW,
                release_id=release_id,
                n_rows=_ROWS,
                payload=_PAYLOAD,
                receipt=_RECEIPT,
            ),
            Delivery(place + 3, time_text(_NOW), release_id),
        ]
    with open_ledger(site.ledger, lock=site.lock):
        pass
    head = FIRST
    with sqlite3.connect(site.ledger) as connection:
        for entry in entries:
            document = to_document(entry, previous=head)
            head = hashlib.sha256(document).digest()
            row = (entry.sequence, document, head)
            connection.execute(
                "INSERT INTO entries (sequence, document, digest) VALUES (?, ?, ?)", row
            )
            if isinstance(entry, Reservation):
                stored = (entry.release_id, _RECEIPT, _PAYLOAD)
                connection.execute("INSERT INTO releases VALUES (?, ?, ?)", stored)
    connection.close()
