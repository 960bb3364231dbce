"""One module orders the steps of every release; a new kind changes neither it nor a dialogue."""

import ast
import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.errors import ConsentError, StudyStateError
from dppca.common.kernel.privacy.mechanisms import add_noise
from dppca.common.kernel.privacy.noise.entropy import EntropySource
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study
from dppca.common.shell.console import Progress
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.database import Ledger, StoredRelease
from dppca.owner.ledger.entries import ReleaseKind, ReleaseRequest, Reservation
from dppca.owner.records.check import FaultCounts
from dppca.owner.records.faults import CheckReport
from dppca.owner.records.sources import Source
from dppca.owner.records.table import Table, open_table
from dppca.owner.release import run
from dppca.owner.release.contribution import compute_budget_status
from dppca.owner.release.dialogue import Dialogue, Outline, ReleaseOffer, outline_release
from dppca.owner.release.next_step import decide_step
from dppca.owner.release.reading import Reader, Reading
from dppca.owner.release.run import ReleaseRun
from dppca.owner.site.config import Site, load_site
from dppca.owner.site.policy import DataSet, load_policy
from tests.support.checkout import ROOT
from tests.support.ledgers import ledger_files
from tests.support.sites import N_ROWS, OwnerSite, make_trained_site
from tools.syntax import nodes

RUN, READING = "owner/release/run.py", "owner/release/reading.py"
AUDITS = "owner/selftest/"
"""Audits of the ledger's own steps, in ledgers that they make."""
CALLERS = {
    "store_release": {RUN},
    "require_consent": {RUN},
    "keep_consent": {RUN, "owner/commands/contribute.py"},
    "read_once": {RUN, "owner/commands/preview.py"},
    "latest": {READING, "owner/commands/check.py", "owner/commands/mapping.py"},
}
"""Who calls what; a contribution keeps its consent by the site's function of this name."""
INNER = {"latest": "owner/records/", "begin": "owner/ledger/"}
"""Rooms whose own steps have these names, too."""


def _called(name: str) -> set[str]:
    """Modules of a site that call a function or a method of this name."""
    found = set()
    for path in sorted((ROOT / "owner").rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        calls = (each.func for each in nodes(path) if isinstance(each, ast.Call))
        names = (getattr(each, "attr", getattr(each, "id", None)) for each in calls)
        if name in names and not place.startswith((AUDITS, INNER.get(name, AUDITS))):
            found.add(place)
    return found


@pytest.mark.parametrize("name", CALLERS)
def test_one_module_orders_the_steps_of_a_release(name: str) -> None:
    assert _called(name) == CALLERS[name]


def test_only_the_run_begins_a_dialogue() -> None:
    others = {"owner/commands/page/consent_pages.py", "owner/commands/page/file_pages.py"}
    assert _called("begin") == {RUN} | others
    for place in others:  # jobs of a page
        begun = [
            each.func.value
            for each in nodes(ROOT / place)
            if isinstance(each, ast.Call)
            and isinstance(each.func, ast.Attribute)
            and each.func.attr == "begin"
        ]
        assert {ast.unparse(each) for each in begun} == {"self._pages"}


@dataclass(frozen=True)
class NoisedCount:
    """A noised number of rows, as the ledger stores it."""

    digest: str
    release_id: bytes
    n_rows: int
    content: bytes

    @property
    def receipt(self) -> "NoisedCount":
        return self

    def canonical_bytes(self) -> bytes:
        return b"{}"

    def payload(self) -> bytes:
        return self.content


@dataclass(frozen=True)
class CountPlan:
    study: Study

    def draw(
        self, prepared: int, reservation: Reservation, *, entropy: EntropySource
    ) -> NoisedCount:
        noised = add_noise(np.array([prepared]), calibrate(self.study), entropy=entropy)
        request = reservation.request
        return NoisedCount(
            request.request_digest, reservation.release_id, prepared, noised.tobytes()
        )


@dataclass(frozen=True)
class CountOffer:
    outline: Outline
    n_rows: int
    alarms: tuple[str, ...] = ("a toy",)

    def private(self) -> bytes:
        return str(self.n_rows).encode()

    def text(self) -> str:
        return "A count of rows."

    def question(self) -> str:
        return "Count?"

    def brief(self) -> str:
        return self.text()


@dataclass(frozen=True)
class OpenedCount:
    study: Study
    data_set: DataSet
    table: Table
    request: ReleaseRequest
    outline: Outline
    said: Callable[[str], None]

    def require_possible(self, reading: Reading[int] | None) -> None:
        self.said("possible" if reading is None else f"possible with {reading.rows}")

    @contextmanager
    def reader(self) -> Iterator[Reader[int]]:
        self.said("read")
        yield self._read

    def _read(self, table: Table, *, tally: FaultCounts, progress: Callable[[int], None]) -> int:
        for cells in table.cells(100):
            tally.add(cells.columns(), cells.arrays, cells.keys)
            progress(cells.n_rows)
        return table.n_rows

    def offer(self, reading: Reading[int]) -> CountOffer:
        return CountOffer(self.outline, reading.rows)

    def keep_consent(self, offer: CountOffer) -> None:
        self.said(f"kept {offer.n_rows}")

    def prepare(self, reading: Reading[int]) -> int:
        self.said("prepare")
        return reading.rows

    def plan(self, reading: Reading[int]) -> CountPlan:
        self.said("plan")
        return CountPlan(self.study)


@dataclass(frozen=True)
class AskedCount:
    """A kind of release that the product does not have."""

    site: Site
    study: Study
    said: Callable[[str], None]

    @property
    def digest(self) -> str:
        return hashlib.sha256(b"count of " + self.study.digest.encode()).hexdigest()

    def open(self, history: History) -> OpenedCount:
        self.said("open")
        data_set = load_policy(self.site).data_set(None)
        table = open_table(data_set.source, self.study.table)
        noise = calibrate(self.study)
        request = ReleaseRequest.from_calibration(
            ReleaseKind.MODEL,
            noise,
            account=data_set.account,
            study=self.study.name,
            request_digest=self.digest,
            name="count",
        )
        outline = outline_release(
            self.study,
            request,
            compute_budget_status(history, request),
            decide_step(history, self.digest),
            look="look",
            numbers=1,
            n_rows=table.n_rows,
            is_live=table.source.is_live,
        )
        return OpenedCount(self.study, data_set, table, request, outline, self.said)

    def deliver(
        self,
        ledger: Ledger,
        stored: StoredRelease,
        counted: CheckReport | None,
        *,
        seconds: Mapping[str, float],
    ) -> bytes:
        assert ledger.history().commitments
        assert set(seconds) == {"read", "draw"}
        self.said("deliver stored" if counted is None else f"deliver of {counted.rows}")
        return stored.payload


@dataclass
class Steward:
    """A dialogue that knows no kind; ``answer`` None agreed beforehand."""

    answer: bool | None
    steps: list[str] = field(default_factory=list)
    outline: Outline | None = None

    def begin(self, outline: Outline) -> None:
        self.steps.append("begin")
        self.outline = outline

    def require_consent(self, offer: ReleaseOffer) -> bool:
        self.steps.append("consent")
        if self.answer is False:
            raise ConsentError("declined")
        return self.answer is not None

    def tell(self, text: str) -> None:
        self.steps.append(f"told {text}")

    def progress(
        self, description: str, total: int, *, unit: str
    ) -> AbstractContextManager[Progress]:
        assert (description, total, unit) == ("Reading rows", N_ROWS, "rows")
        return nullcontext(Progress(description, total, shown=False))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[OwnerSite, Study]:
    site, study = make_trained_site(tmp_path_factory.mktemp("trained") / "site")
    return site, study


@pytest.fixture
def made(trained: tuple[OwnerSite, Study], tmp_path: Path) -> tuple[OwnerSite, Study]:
    site = trained[0].copied_to(tmp_path / "site")
    ledger_files(site.folder)
    return site, trained[1]


def _carry_out(made: tuple[OwnerSite, Study], steward: Steward) -> bytes:
    site, study = load_site(made[0].folder), made[1]
    dialogue: Dialogue = steward
    return ReleaseRun(site, dialogue).carry_out(AskedCount(site, study, steward.steps.append))


FIRST = ["open", "possible", "begin", "read", "told a toy", "consent"]
CHARGED = ["prepare", f"possible with {N_ROWS}", "plan", "charge", f"deliver of {N_ROWS}"]


def _log_charges(monkeypatch: pytest.MonkeyPatch, steward: Steward) -> None:
    store = run.store_release

    def charged(*arguments: Any, **options: Any) -> StoredRelease:
        steward.steps.append("charge")
        return store(*arguments, **options)

    monkeypatch.setattr(run, "store_release", charged)


@pytest.mark.parametrize(("is_live", "answer"), [(False, None), (False, True), (True, None)])
def test_a_new_kind_of_release_is_made_in_the_one_order(
    made: tuple[OwnerSite, Study],
    monkeypatch: pytest.MonkeyPatch,
    is_live: bool,
    answer: bool | None,
) -> None:
    steward = Steward(answer)
    monkeypatch.setattr(Source, "is_live", is_live)
    _log_charges(monkeypatch, steward)
    released = _carry_out(made, steward)
    assert steward.steps == [*FIRST, f"kept {N_ROWS}", *CHARGED]
    (reservation,) = made[0].history.reservations
    assert reservation.request.name == "count"

    again = Steward(False)  # needs no consent
    assert _carry_out(made, again) == released
    assert again.steps == ["deliver stored"]
    assert made[0].history.reservations == (reservation,)


def test_live_rows_are_read_again_after_a_question(
    made: tuple[OwnerSite, Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    steward = Steward(answer=True)
    monkeypatch.setattr(Source, "is_live", True)
    _log_charges(monkeypatch, steward)
    _carry_out(made, steward)
    assert steward.steps == [*FIRST, f"kept {N_ROWS}", "read", *CHARGED]


@pytest.mark.parametrize("step", [*FIRST[:2], *FIRST[3:4], "kept", *CHARGED[:3]])
def test_what_fails_before_the_charge_costs_nothing(
    made: tuple[OwnerSite, Study], step: str
) -> None:
    steward = Steward(answer=True)

    class Failing(list[str]):
        def append(self, said: str) -> None:
            super().append(said)
            if said == step or (step == "kept" and said.startswith(step)):
                raise StudyStateError(said)

    steward.steps = Failing()
    with pytest.raises(StudyStateError):
        _carry_out(made, steward)
    assert made[0].history == History()


def test_nothing_is_prepared_or_charged_without_consent(made: tuple[OwnerSite, Study]) -> None:
    steward = Steward(answer=False)
    with pytest.raises(ConsentError):
        _carry_out(made, steward)
    assert steward.steps == FIRST
    assert made[0].history == History()


def test_an_outline_tells_others_what_is_charged_and_no_fact_of_the_site(
    made: tuple[OwnerSite, Study],
) -> None:
    steward = Steward(None)
    _carry_out(made, steward)
    outline = steward.outline
    assert outline is not None
    assert outline.may_leave["study_digest"] == made[1].digest
    assert outline.may_leave["epsilon"] == decimal_text(calibrate(made[1]).epsilon)
    assert outline.site_only["rows"] == N_ROWS
    assert set(outline.site_only) == {
        *("data_set", "query_sha256", "reading_sha256", "rows", "budget", "step")
    }
    assert not set(outline.may_leave) & set(outline.site_only)
