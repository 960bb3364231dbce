"""What the Dask engine makes of a cluster that is not as it should be; `Client` is a stand-in."""

from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any

import pytest

from dppca.common.kernel.errors import DataError, SettingError
from dppca.owner.engines.dask import DaskEngine
from dppca.owner.engines.kernel import Answer, Work, fingerprint_document, take_fingerprint
from dppca.owner.engines.parts import Part
from tests.support.engines import MIXED

PARTS = [Part(index, 10 * index, 10, ()) for index in range(3)]


@dataclass
class Promise:
    """A future of a state."""

    status: str = "pending"
    answer: Answer | None = None
    error: Exception = field(default_factory=lambda: RuntimeError("a row says 41.5"))

    def result(self, timeout: float) -> Answer:
        if self.answer is None:
            raise self.error
        return self.answer

    def exception(self, timeout: float) -> Exception:
        return self.error


@dataclass
class Cluster:
    """A client of workers at these addresses, whose tasks come to these promises."""

    workers: dict[str, int] = field(default_factory=lambda: {"tcp://127.0.0.1:1": 1})
    promises: list[Promise] = field(default_factory=list)
    differs: dict[str, str] = field(default_factory=dict)
    lacking: tuple[str, ...] = ()
    status: str = "running"
    cancelled: int = 0

    def nthreads(self) -> dict[str, int]:
        return self.workers

    def wait_for_workers(self, _: int, timeout: float) -> None:
        if not self.workers:
            raise TimeoutError

    def submit(self, *_: object, **__: object) -> Promise:
        return self.promises.pop(0)

    def cancel(self, futures: list[Promise], *, force: bool) -> None:
        self.cancelled += len(futures)

    def run_on_scheduler(self, ask: Any) -> object:
        assert ask is fingerprint_document
        if "the scheduler" in self.lacking:
            raise ModuleNotFoundError("No module named 'dppca'")
        return asdict(take_fingerprint())

    def run(self, ask: Any, *, on_error: str) -> dict[str, object]:
        assert (ask, on_error) == (fingerprint_document, "return")
        document = asdict(take_fingerprint()) | self.differs
        return {
            each: ModuleNotFoundError("No module named 'dppca'")
            if each in self.lacking
            else document
            for each in self.workers
        }


def engine(cluster: Cluster, **limits: float) -> DaskEngine:
    return DaskEngine(cluster, "dask://127.0.0.1:8786", **limits)  # type: ignore[arg-type]


def answers(cluster: Cluster, **limits: float) -> list[Answer]:
    work = Work(MIXED.canonical_bytes().decode(), take_fingerprint())
    return list(engine(cluster, **limits).run(PARTS, work))


def test_a_sound_cluster_is_taken_and_its_threads_counted() -> None:
    cluster = Cluster(workers={"tcp://127.0.0.1:1": 2, "tls://10.0.0.7:1": 3})
    engine(cluster).check()
    assert engine(cluster).slots == 5


@pytest.mark.parametrize("address", ["tcp://10.0.0.7:1", "tcp://hub.example:1", "ws://10.0.0.7:1"])
def test_workers_to_which_sums_would_travel_in_clear_are_refused(address: str) -> None:
    cluster = Cluster(workers={"tcp://127.0.0.1:1": 1, address: 1})
    with pytest.raises(SettingError, match="sums without noise could be read on the way"):
        engine(cluster).check()


@pytest.mark.parametrize(
    ("field", "title"),
    [
        ("python", "another version of Python"),
        ("numpy", "another version of NumPy"),
        ("pyarrow", "another version of pyarrow"),
        ("code", "another DPPCA"),
        ("canary", "another sum of the canary"),
    ],
)
def test_what_a_worker_has_in_another_version_is_named(field: str, title: str) -> None:
    with pytest.raises(SettingError, match=rf"tcp://127\.0\.0\.1:1 of .* has {title}"):
        engine(Cluster(differs={field: "0"})).check()


@pytest.mark.parametrize("who", ["the scheduler", "tcp://127.0.0.1:1"])
def test_who_has_no_dppca_is_told_what_to_install(who: str) -> None:
    with pytest.raises(SettingError, match=f"{who} of .* cannot load DPPCA") as told:
        engine(Cluster(lacking=(who,))).check()
    ours = take_fingerprint()
    wanted = f"with Python {ours.python}, numpy {ours.numpy} and pyarrow {ours.pyarrow}"
    assert f"install the dppca of this machine there ({version('dppca')}, " in str(told.value)
    assert wanted in str(told.value)


@pytest.mark.parametrize("status", ["error", "finished"])
@pytest.mark.parametrize("error", [ImportError, AttributeError, TypeError])
def test_a_task_or_an_answer_of_other_code_is_said(status: str, error: type[Exception]) -> None:
    other = Promise(status, error=error("a row says 41.5"))
    with pytest.raises(SettingError, match=r"a worker of .* cannot load DPPCA: install") as told:
        answers(Cluster(promises=[other, Promise(), Promise()]))
    assert "41.5" not in str(told.value)


def test_a_cluster_from_which_nothing_comes_is_left_and_its_tasks_cancelled() -> None:
    done = Promise("finished", Answer(0, 10, b"", ""))
    cluster = Cluster(promises=[done, Promise(), Promise()])
    with pytest.raises(DataError, match="no part came from"):
        answers(cluster, stall_s=0.1)
    assert cluster.cancelled == 2


def test_a_part_whose_task_dask_gave_up_is_asked_again_and_counted_once() -> None:
    done = [Promise("finished", Answer(index, 10, b"", "")) for index in range(3)]
    gone = Promise("cancelled")
    cluster = Cluster(promises=[gone, *done[1:], gone, done[0]])
    assert sorted(each.part for each in answers(cluster)) == [0, 1, 2]
    assert not cluster.promises


@pytest.mark.parametrize("status", ["error", "cancelled", "lost"])
def test_what_dask_says_of_a_failed_task_is_left_out(status: str) -> None:
    cluster = Cluster(promises=[Promise(status), Promise(), Promise(), *[Promise(status)] * 2])
    with pytest.raises(DataError, match="a part was not worked on") as caught:
        answers(cluster)
    assert "41.5" not in str(caught.value)
    assert caught.value.__cause__ is None
