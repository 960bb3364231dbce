"""A masked sum beside Flower's SecAgg+ workflow, on the same vectors and without a network."""

import statistics
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from time import process_time

import numpy as np
from numpy.typing import NDArray

from benchmarks.environments import Ask, open_guest
from benchmarks.performance.federation import make_moments, make_study
from benchmarks.performance.registry import BenchmarkPlan, Cell, FigureTable
from dppca.common.kernel.aggregation import masking
from dppca.common.kernel.aggregation.opening import answer, open_set, vote
from dppca.common.kernel.aggregation.pooling import (
    require_opening,
    require_upload,
    show_set,
    unmask,
)
from dppca.common.kernel.aggregation.streams import SEED_BYTES
from dppca.common.kernel.aggregation.sum_messages import Opening, SealedSet, Upload, Vote
from dppca.common.kernel.aggregation.terms import Terms
from dppca.common.kernel.errors import ConflictError, OpeningRefusedError
from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy
from dppca.deploy.simulation.aggregation import Aggregation
from dppca.deploy.simulation.in_memory import Parties, make_parties

FLOWER = "Flower 1.41 SecAgg+"
TITLE = "A masked sum beside Flower's SecAgg+"
ABOUT = """
The same exact packed sums of 10 owners, without noise, of whom 7 must stay. Flower's own workflow
and its clients' own mod run in an environment that the benchmark makes with pip. No network is
between the parties of either: each message is made bytes and read back, all parties take turns in
one process, and seconds are the processor's. Flower's runtime (SuperLink, SuperNodes) is left out,
which favours Flower; our calls over mutual TLS are in the section before. An owner's time is that
of its upload, and in Flower of all four calls of a client; what openers do is in that of all.

Flower takes floats: each entry is divided by its largest summand, which no real party knows and
which favours Flower too; otherwise its settings are its defaults. Flower makes keys in the round,
ours come with the study and count as sent to each owner. The error is the largest of an entry of
the sum, as a part of that entry's largest summand.

*Seed bits* are those of what a mask is drawn from: for Flower, the bits that ever changed of the
seeds of its generator in a round, of masks between two clients. Only these hide a vector from the
server, which learns each client's own mask. More cannot be in them; less can.

The second table is how many owners may be gone for good and the sum still comes out, found by
trying. With `aggregate` owners that do not open go first; openers, who may also come back days
later, have a column. Every client of Flower is an opener, and has to be there until the end.
"""

GUEST = Path(__file__).with_name("secagg_guest.py")
COLUMNS, FEW = 500, 12
_OWNERS, _NEEDED = 10, 7


@dataclass(frozen=True, slots=True)
class MaskedSum:
    """One sum in memory: processor seconds of all and of one owner, bytes, and the error."""

    total_s: float
    owner_s: float
    up: float
    down: float
    error: float


def measure(plan: BenchmarkPlan) -> list[FigureTable]:
    """What a sum costs, then who may be gone, tried with few columns."""
    columns, rounds = (FEW, 1) if plan.quick else (COLUMNS, plan.rounds)
    costs: list[tuple[Cell, ...]] = []
    gone: list[tuple[Cell, ...]] = []
    python = plan.environment(FLOWER, "flwr-1.41.0", ["flwr==1.41.0"])
    for openers, spares in ((2, 0), (4, 1), (7, 0)):
        name = f"DPPCA, {openers} openers, {spares} spare"
        plan.say(name)
        parties, vectors = mask_sums(columns, openers=openers, spares=spares)
        small = mask_sums(FEW, openers=openers, spares=spares)
        for missing in (0, _OWNERS - _NEEDED):
            sums = [add_masked(parties, vectors, missing=missing) for _ in range(rounds)]
            costs.append(_cost(name, missing, sums, 8 * SEED_BYTES))
        losses = [
            most_gone(partial(_works, *small, when)) for when in ("before", "after", "openers")
        ]
        gone.append((name, losses[0], *losses))
    if python is None:
        note = f"{FLOWER} ({'left out of a quick run' if plan.quick else 'not installed'})"
        costs.append((note, *[None] * 7))
        gone.append((note, *[None] * 4))
    else:
        plan.say(FLOWER)
        more = _ask_flower(python, plan.scratch, vectors, small[1], rounds)
        costs += more[0]
        gone.append(more[1])
    n_entries = vectors.shape[1]
    return [
        FigureTable(
            f"{_OWNERS} owners, {n_entries:,} entries: milliseconds of the processor, megabytes.",
            (
                *("workflow", "missing", "an owner, ms", "all parties, ms", "from owners, MB"),
                *("to owners, MB", "seed bits", "error"),
            ),
            tuple(costs),
        ),
        FigureTable(
            f"How many of {_OWNERS} owners may be gone for good.",
            ("workflow", "before key shares", "before the upload", "after it", "openers"),
            tuple(gone),
        ),
    ]


def mask_sums(columns: int, *, openers: int, spares: int) -> tuple[Parties, NDArray[np.int64]]:
    """Owners with secrets and one colluder, and their exact packed sums, ``(owners, entries)``."""
    study = make_study("secagg", owners=_OWNERS, columns=columns, components=2)
    vectors = np.stack([make_moments(study, n).packed for n in range(_OWNERS)])
    aggregation = Aggregation(colluders=1, openers=openers, spares=spares)
    return make_parties(study, aggregation, entropy=OperatingSystemEntropy()), vectors


def add_masked(
    parties: Parties,
    vectors: NDArray[np.int64],
    *,
    missing: int = 0,
    gone: tuple[str, ...] = (),
) -> MaskedSum:
    """One masked sum, every message made bytes and read back.

    Parameters
    ----------
    missing
        Number of the last owners that never upload.
    gone
        Owners that answer nothing after the uploads.

    Raises
    ------
    OpeningRefusedError, ConflictError
        Too few owners, or too few openers.
    """
    terms = replace(Terms.from_study(parties.study), quorum=_NEEDED)
    entropy = OperatingSystemEntropy()
    here = parties.study.owners[: _OWNERS - missing]
    uploads, owner_s = list[Upload](), list[float]()
    up, down = 0, len(here) * len(terms.to_bytes())
    begin = process_time()
    for name, vector in zip(here, vectors, strict=False):
        start = process_time()
        made = masking.mask(terms, name, vector, key=parties.keys[name], entropy=entropy)
        content = made.to_bytes()
        owner_s.append(process_time() - start)
        up += len(content)
        uploads.append(Upload.from_bytes(content, terms))
        require_upload(terms, uploads[-1])
    openers = [name for name in terms.openers if name in here and name not in gone]
    shown, votes = dict[str, SealedSet](), list[Vote]()
    for name in openers:
        content = show_set(terms, uploads, opener=name).to_bytes()
        down += len(content)
        shown[name] = SealedSet.from_bytes(content, terms)
        if terms.votes_needed:
            key, secret = parties.keys[name], parties.secrets[name]
            votes.append(vote(terms, shown[name], opener=name, secret=secret, key=key, bound=None))
            up += len(votes[-1].to_bytes())
    down += len(openers) * sum(len(each.to_bytes()) for each in votes)
    wanted: dict[str, list[int]] = {name: [] for name in openers}
    for stream, holders in enumerate(terms.holders):
        able = [name for name in holders if name in wanted]
        if able:
            wanted[min(able, key=lambda name: len(wanted[name]))].append(stream)
    openings = []
    for name in openers:
        secret, bound = parties.secrets[name], shown[name].digest if votes else None
        sums = open_set(terms, shown[name], votes, opener=name, secret=secret, bound=bound)
        if wanted[name]:
            opened = answer(terms, sums, wanted[name], opener=name, key=parties.keys[name])
            content = opened.to_bytes()
            up += len(content)
            openings.append(Opening.from_bytes(content, terms))
            require_opening(terms, sums.set_digest, openings[-1])
    total = unmask(terms, uploads, openings)
    total_s = process_time() - begin
    apart = np.abs(total - vectors[: len(here)].sum(axis=0))
    error = float((apart / np.maximum(np.abs(vectors).max(axis=0), 1)).max())
    return MaskedSum(total_s, statistics.median(owner_s), up, down, error)


def most_gone(works: Callable[[int], bool]) -> int:
    """The most owners without whom it works; `ValueError` where it never does."""
    return max(takewhile(works, range(_OWNERS)))


def _works(parties: Parties, vectors: NDArray[np.int64], when: str, n: int) -> bool:
    owners = parties.study.owners
    gone = {"before": (), "after": owners[_OWNERS - n :], "openers": owners[:n]}[when]
    missing = n if when == "before" else 0
    try:
        return add_masked(parties, vectors, missing=missing, gone=gone).error == 0
    except (OpeningRefusedError, ConflictError):
        return False


def _ask_flower(
    python: Path,
    scratch: Path,
    vectors: NDArray[np.int64],
    small: NDArray[np.int64],
    rounds: int,
) -> tuple[list[tuple[Cell, ...]], tuple[Cell, ...]]:
    with ExitStack() as stack:

        def guest(name: str, content: NDArray[np.int64]) -> Ask:
            path, share = scratch / f"{name}.npy", str(_NEEDED / _OWNERS)
            np.save(path, content)
            return stack.enter_context(open_guest(python, GUEST, str(path), share, threads=1))

        ask, costs = guest("vectors", vectors), list[tuple[Cell, ...]]()
        for missing in (0, _OWNERS - _NEEDED):
            sums = []
            for _ in range(rounds + 1):  # the first warms up
                ask(f"round collect_masked_vectors {missing}")
                told = [ask(word) for word in ("seconds", "client", "up", "down", "error")]
                sums.append(MaskedSum(*told))
            costs.append(_cost(FLOWER, missing, sums[1:], int(ask("bits 44"))))
        tries = guest("small", small)

        def works(stage: str, n: int) -> bool:
            return bool(tries(f"round {stage} {n}"))

        stages = ("share_keys", "collect_masked_vectors", "unmask")
        losses = [most_gone(partial(works, stage)) for stage in stages]
        return costs, (FLOWER, *losses, losses[-1])


def _cost(name: str, missing: int, sums: list[MaskedSum], bits: int) -> tuple[Cell, ...]:
    owner_s = statistics.median(each.owner_s for each in sums)
    total_s = statistics.median(each.total_s for each in sums)
    up, down = sums[-1].up / 1e6, sums[-1].down / 1e6
    error = max(each.error for each in sums)
    return name, missing, owner_s * 1e3, total_s * 1e3, up, down, bits, error
