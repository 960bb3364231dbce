"""What the engine on Spark is written with; what it does is tried in `tests/night/spark`."""

import ast
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from dppca.common.kernel.errors import DataError, SettingError
from dppca.owner.engines import spark as module
from dppca.owner.engines.kernel import Work, take_fingerprint
from dppca.owner.engines.merging import merge
from dppca.owner.engines.parts import Part
from dppca.owner.engines.spark import SparkEngine, _adding_up, _answer, _answering, _looking
from dppca.owner.records import spark_sessions, spark_tables
from dppca.owner.records.check import FaultCounts
from tests.support.engines import MIXED

FORBIDDEN = {"rdd", "parallelize", "accumulator", "jdbc", "toLocalIterator", "foreach", "broadcast"}
ALLOWED = {"spark_tables": {"toLocalIterator"}, "spark": {"toLocalIterator"}}
"""To stream a table's rows to this machine; and by Spark Connect, where it is still one job."""


@pytest.mark.parametrize(
    "path", [Path(m.__file__ or "") for m in (module, spark_sessions, spark_tables)], ids=str
)
def test_nothing_but_dataframes_is_used(path: Path) -> None:
    used = {node.attr for node in ast.walk(ast.parse(path.read_text())) if hasattr(node, "attr")}
    assert used & FORBIDDEN == ALLOWED.get(path.stem, set())
    assert "getOrCreate" in used or "mapInArrow" in used, "this is the code that uses Spark"


class _Lost(Exception):  # noqa: N818 - as Py4J would raise it
    __module__ = "py4j.protocol"


def _lose(*_: Any) -> NoReturn:
    raise _Lost("hidden-word")


LOST = SimpleNamespace(
    mapInArrow=lambda *_: SimpleNamespace(collect=_lose),
    range=lambda *_: LOST,
    addTag=lambda _: None,
    interruptTag=_lose,
    sparkContext=SimpleNamespace(
        setJobGroup=lambda *_: time.sleep(0.1), statusTracker=_lose, cancelJobGroup=_lose
    ),
)
"""A session whose Java has gone."""


@pytest.mark.parametrize("watch_s", [0.0, 9.0], ids=["by the tracker", "by the answers"])
def test_java_that_goes_during_a_pass_is_said_in_our_words(
    watch_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WATCH_S", watch_s)
    engine, source = SparkEngine(LOST), SimpleNamespace(in_steps=False, n_rows=3)
    work = Work(MIXED.canonical_bytes().decode(), take_fingerprint())
    passes: list[Callable[[], object]] = [
        lambda: engine._watched(LOST, lambda _: None, source, lambda _: None),
        lambda: list(engine.run([Part(0, 0, 3, ())], work)),
    ]
    for add_up in passes:
        with pytest.raises(DataError, match="the connection were lost") as told:
            add_up()
        assert "hidden-word" not in str(told.value)
        assert told.value.__suppress_context__


def test_an_interrupt_stays_one_where_java_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same Ctrl-C ends Java, and a command that is interrupted says what was charged."""

    def interrupt(*_: Any) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "wait", interrupt)
    monkeypatch.setattr(module, "as_completed", interrupt)
    engine, source = SparkEngine(LOST), SimpleNamespace(in_steps=False, n_rows=3)
    with pytest.raises(KeyboardInterrupt):
        engine._watched(LOST, lambda _: None, source, lambda _: None)
    work = Work(MIXED.canonical_bytes().decode(), take_fingerprint())
    with pytest.raises(KeyboardInterrupt):
        list(engine.run([Part(0, 0, 3, ())], work))


def test_a_python_without_dppca_answers_that_it_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = take_fingerprint()
    monkeypatch.setitem(sys.modules, "dppca.owner.engines.kernel", None)
    (seen,) = _looking()([])
    assert seen.column(0).to_pylist() == ["null"]
    for answering in (_answering(["{}"], "{}"), _adding_up("{}")):
        (batch,) = answering([])
        answer = _answer(list(batch.to_pylist()[0].values()))
        with pytest.raises(SettingError, match="a worker is not like this machine: install"):
            merge(
                "rows",
                [Part(0, 0, 1, ())],
                [answer],
                MIXED,
                fingerprint=ours,
                tally=FaultCounts(MIXED),
            )
