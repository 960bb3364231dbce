"""Audit of every kind of release (`dppca.owner.selftest.kinds`): its noise, and what it is charged.

Each case takes the site's own steps: the plan, a reservation in a ledger, the draw, the stored
bytes. The noise is what the bytes hold beyond the values. So many releases are drawn that a case
has some thousand numbers (`Power`).

*Noise.* Of each case: all numbers together by the distance and the mean magnitude, each block of
entries (sums, products, a histogram, a table, a machine's weights) by the mean magnitude, entries
that never have noise, magnitudes that come again, products at every lag, and random bits. Of each
level of a dimension, all its cases together by the mean magnitude. Of masked contributions as many
owners' shares are added as make one mechanism, and the signs of two owners' shares are compared.

*Charge.* The ledger's entry is compared with the cost of the change that one person can make: the
largest one that is found among rows of a grid, and the largest that is claimed of a row, times the
rows of a person that the study says, under the law that the noise was found to have.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import combinations, product
from math import ceil, log, sqrt
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.aggregation.streams import SEED_BYTES
from dppca.common.kernel.aggregation.sum_messages import Upload
from dppca.common.kernel.aggregation.terms import Terms
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.moments.people import PeopleMoments
from dppca.common.kernel.privacy.accounting import Budget, PrivacyCost
from dppca.common.kernel.privacy.laws import LAWS
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.noise_law import IndependentLaw
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema.layout import Layout
from dppca.common.kernel.schema.units import Person
from dppca.common.kernel.study import Study
from dppca.common.verification.model_archives import open_archive
from dppca.owner.ledger.database import Ledger, begin_ledger, open_ledger
from dppca.owner.ledger.entries import ReleaseRequest
from dppca.owner.ledger.mark import CuratorView
from dppca.owner.ledger.path import ContributionPlan, MaskedPlan, ReleasePlan, store_release
from dppca.owner.ledger.populations import Account, Population
from dppca.owner.release.contribution import request_contribution
from dppca.owner.release.weights import WeightRelease, plan_release, request_weights
from dppca.owner.selftest.changes import Change, change_of_weights, find_change
from dppca.owner.selftest.draws import CountingEntropy
from dppca.owner.selftest.findings import Finding
from dppca.owner.selftest.judging import LEVEL as CHECK_LEVEL
from dppca.owner.selftest.kinds import Kind, ReleaseForm, kinds
from dppca.owner.selftest.laws import (
    bits,
    centred,
    dkw,
    dkw_limit,
    echoes,
    likeliest,
    magnitudes,
    mean_limit,
    repeats,
)
from dppca.owner.selftest.releases import (
    MaskedParties,
    make_parties,
    make_study,
    make_values,
    no_result,
    unmasked,
)

LEVEL = CHECK_LEVEL / 10
"""Level of the noise of all kinds of one form and law together."""
_PARTS = 7  # checks that share the level
_KEY_BITS = 256  # random bits of an upload besides its seeds
_LONG = 12  # entries of which two shares are never equal: each is with probability below 0.01
_ACCOUNT = Account("audit", Population("audit", Budget(Decimal("1e15"), Decimal("0.5"))))

Noise = NDArray[np.int64]
Blocks = Mapping[str, NDArray[np.intp]]
_Prepared = TypeVar("_Prepared")


@dataclass(frozen=True, slots=True)
class Power:
    """Size of the audit: each kind is drawn until it has ``entries`` numbers.

    It has ``least`` releases at least and ``most`` at most; ``masked`` at most where each takes
    some milliseconds for masks and seals.
    """

    entries: int
    least: int
    most: int
    masked: int

    def releases(self, form: ReleaseForm, n_entries: int) -> int:
        """Return how many releases of a size are drawn."""
        most = self.masked if form is ReleaseForm.MASKED else self.most
        return min(most, max(self.least, ceil(self.entries / n_entries)))


@dataclass(frozen=True, slots=True)
class DrawnKind:
    """What was drawn of a kind, and what the ledger says of it.

    ``noise`` has shape (n, D), the law ``law``, at the places ``halved`` that of its products, and
    named ``blocks`` of entries; of masked contributions it is the sum of ``shares``, (n, owners,
    D). ``needed`` and ``taken`` are random
    bits. Each of ``charges`` is a charge of the ledger with the cost that it has to cover.
    """

    noise: Noise
    law: IndependentLaw
    blocks: Blocks
    needed: float
    taken: float
    charges: Sequence[tuple[ReleaseRequest, PrivacyCost]] = ()
    shares: Noise | None = None
    halved: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))

    @property
    def laws(self) -> list[tuple[IndependentLaw, NDArray[np.intp]]]:
        """Each law, with the places of its entries."""
        return _laws(self.law, self.halved, self.noise.shape[1])

    @property
    def sizes(self) -> NDArray[np.float64]:
        """Magnitudes of the noise, each under its law, shape (n, D)."""
        return self._under(magnitudes)

    @property
    def centred(self) -> NDArray[np.float64]:
        """Centred noise, each under its law, shape (n, D)."""
        return self._under(centred)

    def _under(
        self, of: Callable[[IndependentLaw, Noise], NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        found = np.empty(self.noise.shape)
        for law, places in self.laws:
            found[:, places] = of(law, self.noise[:, places])
        return found


class _Auditor:
    """Draws cases of one form and law, by a ledger of their own."""

    def __init__(self, ledger: Ledger, parties: MaskedParties, power: Power) -> None:
        self._ledger, self._parties, self._power = ledger, parties, power
        self._changes = dict[tuple[str, ...], Change]()

    def draw(self, kind: Kind) -> DrawnKind:
        """Draw the releases of a kind."""
        if kind.form is ReleaseForm.MODEL:
            return self._draw_models(kind)
        study = study_of(kind, self._parties)
        calibration = calibrate(study)
        request = request_contribution(study, calibration, account=_ACCOUNT)
        draw = self._draw_masked if kind.form is ReleaseForm.MASKED else self._draw_contributions
        drawn = draw(kind, study, calibration, request)
        found = self._find_change(kind, study)
        cost = _cost(drawn.law, calibration, found, calibration.factor)
        return replace(drawn, charges=[(self._charged(request), cost)])

    def _draw_contributions(
        self, kind: Kind, study: Study, calibration: Calibration, request: ReleaseRequest
    ) -> DrawnKind:
        layout, law, n_rows = study.table.layout, calibration.law.of_entries, kind.level("count")
        entropy = CountingEntropy.of_the_system()
        n_releases = self._power.releases(kind.form, layout.n_entries)
        rows = [
            np.frombuffer(payload, "<i8") - exact
            for payload, exact in self._payloads(
                request,
                ContributionPlan(study, calibration),
                lambda exact: _moments(study, n_rows, exact),
                (layout.n_entries, n_releases),
                entropy,
            )
        ]
        noise = np.stack(rows)
        laws = _laws(law, layout.halved_places, layout.n_entries)
        needed = sum(bits(each, noise[:, places]) for each, places in laws)
        taken = 8.0 * entropy.taken
        return DrawnKind(noise, law, _blocks(layout), needed, taken, halved=layout.halved_places)

    def _draw_masked(
        self, kind: Kind, study: Study, calibration: Calibration, request: ReleaseRequest
    ) -> DrawnKind:
        """Draw as many owners' shares as make one mechanism, of other owners each time."""
        layout, terms, n_rows = study.table.layout, Terms.from_study(study), kind.level("count")
        honest, names = calibration.n_honest_owners or 0, study.owners
        entropy = CountingEntropy.of_the_system()
        plans = [
            MaskedPlan(study, calibration, terms, name, self._parties.keys[name]) for name in names
        ]
        n_rounds = self._power.releases(kind.form, layout.n_entries)
        exact = next(make_values(layout.n_entries))
        stored = store_release(
            self._ledger,
            request,
            plans[0],
            _moments(study, n_rows, exact),
            entropy=entropy,
            clock=utc_now,
        )
        rounds = []
        for number, exact in zip(range(n_rounds), make_values(layout.n_entries), strict=False):
            payloads = [] if number else [stored.payload]
            for place in range(number + len(payloads), number + honest):
                drawn = plans[place % len(names)].draw(
                    _moments(study, n_rows, exact), stored.reservation, entropy=entropy
                )
                payloads.append(drawn.payload())
            uploads = [Upload.from_bytes(each, terms) for each in payloads]
            rounds.append(
                [unmasked(each, terms, self._parties.secrets) - exact for each in uploads]
            )
        shares = np.array(rounds, np.int64)
        return DrawnKind(
            shares.sum(axis=1),
            calibration.law.of_entries.sum_of_shares(honest),
            _blocks(layout),
            n_rounds * honest * (8 * SEED_BYTES * len(terms.holders) + _KEY_BITS),
            8.0 * entropy.taken,
            shares=shares,
            halved=layout.halved_places,
        )

    def _draw_models(self, kind: Kind) -> DrawnKind:
        """Draw models that differ in C alone, whose noise has one law; each has its charge."""
        plans = [_plan_model(kind, C) for C in kind.level("penalty")]
        weights = plans[0].weights
        shape = (weights.n_machines, weights.D)
        size, law = shape[0] * shape[1], weights.calibration.law.of_entries
        n_each = ceil(self._power.releases(kind.form, size) / len(plans))
        entropy = CountingEntropy.of_the_system()
        rows, charges = list[Noise](), list[tuple[ReleaseRequest, PrivacyCost]]()
        for plan in plans:
            request = plan.request(account=_ACCOUNT, command="train")
            drawn = self._payloads(request, plan, lambda exact: exact, (size, n_each), entropy)
            for payload, exact in drawn:
                noised = np.asarray(open_archive(payload).state["noised_"], np.int64)
                rows.append(noised.ravel() - exact)
            terms = plan.model_request.terms
            change = change_of_weights(weights.D, shape[0], tolerance=terms.solver_tolerance)
            k = plan.model_request.study.max_rows_per_person
            charges.append((self._charged(request), _cost(law, weights.calibration, change, k)))
        places = np.arange(size).reshape(shape)
        blocks = {f"machine {number}": each for number, each in enumerate(places, 1)}
        noise = np.stack(rows)
        return DrawnKind(noise, law, blocks, bits(law, noise), 8.0 * entropy.taken, charges)

    def _payloads(
        self,
        request: ReleaseRequest,
        plan: ReleasePlan[_Prepared],
        prepare: Callable[[Noise], _Prepared],
        shape: tuple[int, int],
        entropy: CountingEntropy,
    ) -> Iterator[tuple[bytes, Noise]]:
        """Give bytes and exact values of (D, n) releases; the first one is the ledger's."""
        n_entries, n_releases = shape
        values = make_values(n_entries)
        exact = next(values)
        stored = store_release(
            self._ledger, request, plan, prepare(exact), entropy=entropy, clock=utc_now
        )
        yield stored.payload, exact
        for exact, _ in zip(values, range(n_releases - 1), strict=False):
            release = plan.draw(prepare(exact), stored.reservation, entropy=entropy)
            yield release.payload(), exact

    def _find_change(self, kind: Kind, study: Study) -> Change:
        """Search the largest change of one row, once for studies that code rows alike."""
        key = tuple(kind.levels[name] for name in ("coding", "resolution", "size"))
        if key not in self._changes:
            self._changes[key] = find_change(study, copies=kind.level("size"))
        return self._changes[key]

    def _charged(self, request: ReleaseRequest) -> ReleaseRequest:
        """Return what the ledger says of a request that was stored."""
        return self._ledger.stored(request.request_digest).reservation.request


def audit_kinds(folder: Path, *, power: Power, advance: Callable[[int], None]) -> list[Finding]:
    """Audit every kind of release; ledgers are written to ``folder``."""
    parties, findings = make_parties(), list[Finding]()
    for form, law in product(ReleaseForm, LAWS):
        findings += audit_form(form, law, parties, folder, power=power, advance=advance)
    return findings


def audit_form(
    form: ReleaseForm,
    law: str,
    parties: MaskedParties,
    folder: Path,
    *,
    power: Power,
    advance: Callable[[int], None],
) -> list[Finding]:
    """Audit all kinds of one form and law."""
    path = folder / f"{form.name}-{law}.sqlite"
    lock = path.with_suffix(".lock")
    begin_ledger(path, lock=lock)
    with open_ledger(path, lock=lock) as ledger:
        ledger.compare(CuratorView())
        auditor, drawn = _Auditor(ledger, parties, power), list[tuple[Kind, DrawnKind]]()
        for kind in (each for each in kinds(form) if each.law == law):
            drawn.append((kind, auditor.draw(kind)))
            advance(1)
    title = f"{law.title()} {form}s, {len(drawn)} kinds"
    return [judge_noise(title, drawn), judge_charges(title, drawn)]


def judge_noise(title: str, drawn: Sequence[tuple[Kind, DrawnKind]]) -> Finding:
    """Check the noise of all kinds of one form and law."""
    faults, level = list[str](), LEVEL / _PARTS
    pooled = defaultdict[tuple[str, str], list[NDArray[np.float64]]](list)
    for kind, each in drawn:
        faults += [f"{kind.title}: {what}" for what in find_faults(each, level / len(drawn))]
        sizes = each.sizes.ravel()
        for place in kind.levels.items():
            pooled[place].append(sizes)
    for (dimension, name), parts in pooled.items():
        sizes = np.concatenate(parts)
        share = abs(float(sizes.mean())) / mean_limit(len(sizes), level / len(pooled))
        if share > 1:
            faults.append(
                f"{dimension} {name}, all kinds: draws are too small or too large: {share:.2f} "
                "times what is allowed"
            )
    numbers = [each.noise.size for _, each in drawn]
    says = f"each has its law in every block, in {min(numbers)} to {max(numbers)} numbers"
    found = Finding.of_faults(f"{title}: noise", faults, says)
    return replace(found, false_alarm=LEVEL, release=title)


def judge_charges(title: str, drawn: Sequence[tuple[Kind, DrawnKind]]) -> Finding:
    """Check that the ledger charged and claimed what each release cost; no false alarm."""
    faults, n_charges = list[str](), 0
    for kind, each in drawn:
        for request, cost in each.charges:
            n_charges += 1
            charge = request.price.charge
            if not charge.covers(cost):
                faults.append(f"{kind.title}: {_amount(charge)} was charged for {_amount(cost)}")
            elif request.price.epsilon < charge.epsilon_at(request.price.delta):
                faults.append(
                    f"{kind.title}: epsilon {request.price.epsilon} is claimed for the charge"
                )
    says = f"{n_charges} charges cover what one person can change, rows of a person counted"
    return Finding.of_faults(f"{title}: charges", faults, says)


def find_faults(drawn: DrawnKind, level: float) -> list[str]:
    """Return what is wrong with the noise of one kind; empty if nothing is.

    An honest kind has faults with probability at most ``_PARTS - 1`` times ``level``.
    """
    noise, law = drawn.noise, drawn.law.of_products  # the narrowest, whose 0 is the likeliest
    n, d = noise.shape
    faults = []
    bare = np.flatnonzero(~noise.any(axis=0))
    if len(bare) and d * likeliest(law) ** n <= level:
        faults.append(f"{len(bare)} of {d} entries have no noise")
    sizes = drawn.sizes
    blocks = {"all entries": np.arange(d), **drawn.blocks}
    for name, places in blocks.items():
        part = sizes[:, places]
        share = abs(float(part.mean())) / mean_limit(part.size, level / len(blocks))
        if share > 1:
            faults.append(f"{name}: too small or too large, {share:.2f} times what is allowed")
    for each, places in drawn.laws:
        drawn_so = noise[:, places].ravel()
        if (distance := dkw(drawn_so, each)) > dkw_limit(drawn_so.size, level / len(drawn.laws)):
            faults.append(f"the noise has another law: distance {distance:.4f}")
    again, allowed = repeats(noise, law, level)
    if again > allowed:
        faults.append(f"{again} magnitudes came again, {allowed} may")
    share, lag = echoes(drawn.centred.ravel(), sizes.ravel(), level)
    if share > 1:
        faults.append(f"draws that are {lag} apart are correlated")
    if drawn.shares is not None:
        faults += _alike(drawn.shares, level)
    if drawn.taken < drawn.needed:
        faults.append(f"{drawn.taken:.0f} random bits were taken for {drawn.needed:.0f}")
    return faults


def study_of(kind: Kind, parties: MaskedParties) -> Study:
    """Return the study of a kind of contribution."""
    copies: int = kind.level("size")
    schema = kind.level("coding")(copies)
    said, others = dict(kind.level("said")), dict(kind.level("parties"))
    changes: dict[str, object] = {"owners": [f"owner-{i}" for i in (1, 2, 3)]}
    privacy = {"mechanism": kind.law, **kind.level("width")}
    if kind.form is ReleaseForm.MASKED:
        numbers = {name: others.pop(name, 3) for name in ("n_owners", "n_openers")}
        changes |= parties.document(**numbers)
        privacy |= {"trust": "aggregate", "colluders": others.pop("colluders")}
    changes |= others | said | schema.pop("changes", {})
    return make_study(
        "kind",
        _with_delta(privacy, kind.law),
        **{"max_rows_per_person": kind.rows_of_person, **schema},
        changes=changes,
        resolution_bits=kind.level("resolution"),
    )


def _moments(study: Study, n: int, exact: Noise) -> Moments:
    """Return exact sums as those of n rows, or of n people."""
    return (PeopleMoments if isinstance(study.unit, Person) else Moments)(n, exact)


def _plan_model(kind: Kind, C: float) -> WeightRelease:
    """Return the plan of a model of a kind."""
    k = kind.level("components")
    numbers = {"type": "numeric", "lower": 0, "upper": 1, "products": "bins", "bins": 2}
    study = make_study(
        "kind",
        {"mechanism": "laplace", "epsilon": "1"},
        [
            {**kind.level("target"), "name": "target"},
            *({**numbers, "name": f"a{i}"} for i in range(ceil(k / 2))),
        ],
        components=k,
        changes={"owners": ["owner-1", "owner-2", "owner-3"], **kind.level("parties")},
        max_rows_per_person=kind.rows_of_person,
    )
    terms = _with_delta(kind.level("epsilon"), kind.law)
    asked = request_weights(
        study,
        data_set="audit",
        target="target",
        epsilon=terms["epsilon"],
        delta=terms.get("delta"),
        C=C,
    )
    result = no_result(study, k)
    return plan_release(asked, result, n_rows=kind.level("count"), components_sha256="0" * 64)


def _with_delta(privacy: Mapping[str, object], law: str) -> dict[str, object]:
    kept = dict(privacy)
    if not LAWS[law].needs_delta:
        kept.pop("delta", None)
    return kept


def _cost(law: IndependentLaw, noise: Calibration, found: Change, k: int) -> PrivacyCost:
    """Return the cost to a person with k rows: of the change that was found, or that is claimed."""
    claimed = noise.sensitivity
    larger = replace(
        claimed,
        l1=max(claimed.l1, found.l1),
        l2_squared=max(claimed.l2_squared, found.l2_squared),
    )
    return law.cost(larger, k)


def _amount(cost: PrivacyCost) -> str:
    return f"epsilon {cost.epsilon}" if cost.epsilon else f"rho {cost.rho}"


def _alike(shares: Noise, level: float) -> list[str]:
    """Check that shares, (n, owners, D), have no sign in common, and that none came again."""
    signs = np.sign(shares)
    pairs = list(combinations(range(shares.shape[1]), 2))
    limit = sqrt(2 * log(2 * len(pairs) / level) / signs[:, 0].size)
    worst = max(abs(float((signs[:, a] * signs[:, b]).mean())) for a, b in pairs)
    faults = []
    if worst > limit:
        faults.append(f"two owners' shares are alike: {worst:.3f} of {limit:.3f}")
    vectors = np.abs(shares).reshape(-1, shares.shape[-1])
    if shares.shape[-1] >= _LONG and len({each.tobytes() for each in vectors}) < len(vectors):
        faults.append("a share came again")
    return faults


def _laws(
    law: IndependentLaw, halved: NDArray[np.intp], n_entries: int
) -> list[tuple[IndependentLaw, NDArray[np.intp]]]:
    rest = np.setdiff1d(np.arange(n_entries), halved)
    return [each for each in ((law, rest), (law.of_products, halved)) if len(each[1])]


def _blocks(layout: Layout) -> Blocks:
    """Return the places of sums, products, histograms and tables in a packed vector."""
    n, start = layout.n_sums, layout.n_moments
    weights = layout.packed_product_weights
    square = np.equal(*layout.product_index)
    blocks = {
        "sums": np.arange(n),
        "squares": n + np.flatnonzero(square),
        "products": n + np.flatnonzero((weights == 1) & ~square),
        "products with targets": n + np.flatnonzero((weights != 1) & ~square),
    }
    for number, (size, _) in enumerate(layout.counts):
        what = "histogram" if number < len(layout.histograms) else "table"
        blocks[f"{what} at entry {start}"] = np.arange(start, start + size)
        start += size
    blocks["the number of rows"] = np.arange(start, start + layout.with_count)
    return {name: places for name, places in blocks.items() if len(places)}
