"""Each part exactly once, or nothing."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dppca.common.kernel.errors import DataError, DppcaError, SettingError
from dppca.common.kernel.moments.moments import Moments
from dppca.owner.engines.kernel import Answer, Failure, Work, answer_part, take_fingerprint
from dppca.owner.engines.merging import merge
from dppca.owner.engines.parts import Part, make_manifest
from dppca.owner.records.check import FaultCounts
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.table import Table, open_table
from tests.support.engines import MIXED, mixed_rows, write_files


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return open_table(local_files(write_files(mixed_rows(900), tmp_path / "rows", 5)), MIXED)


@pytest.fixture
def parts(table: Table) -> tuple[Part, ...]:
    return make_manifest(table, slots=2, least_bytes=1)


@pytest.fixture
def answers(parts: tuple[Part, ...]) -> list[Answer]:
    work = Work(MIXED.canonical_bytes().decode(), take_fingerprint())
    return [answer_part(part.to_json(), work.to_json()) for part in parts]


def merged(
    parts: tuple[Part, ...], answers: list[Answer], tally: FaultCounts | None = None
) -> Moments:
    return merge(
        "rows",
        parts,
        answers,
        MIXED,
        fingerprint=take_fingerprint(),
        tally=tally or FaultCounts(MIXED),
    )


Change = Callable[[Answer], Answer]
OTHER_SUMS: Change = lambda a: a._replace(packed=bytes(len(a.packed)))  # noqa: E731
OTHER_COUNTS: Change = lambda a: a._replace(faults=a.faults.replace("[", "[ ", 1))  # noqa: E731


@pytest.mark.parametrize("change", [OTHER_SUMS, OTHER_COUNTS], ids=["sums", "counts"])
def test_a_second_answer_with_other_bytes_stops_the_pass(
    parts: tuple[Part, ...], answers: list[Answer], change: Change
) -> None:
    with pytest.raises(DataError, match="the source changed"):
        merged(parts, [*answers, change(answers[1])])


@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("digest", ["", "0" * 64])
def test_an_answer_of_other_code_stops_the_pass_wherever_it_comes(
    parts: tuple[Part, ...], answers: list[Answer], place: int, digest: str
) -> None:
    answers[place] = answers[place]._replace(fingerprint=digest)
    with pytest.raises(SettingError, match="a worker is not like this machine: install"):
        merged(parts, answers)


def test_other_rows_than_the_manifest_says_stop_the_pass(
    parts: tuple[Part, ...], answers: list[Answer]
) -> None:
    grown = answers[0]._replace(n_rows=answers[0].n_rows + 1)
    with pytest.raises(DataError, match="the source changed"):
        merged(parts, [grown, *answers[1:]])
    with pytest.raises(DataError, match="the source changed"):
        merged((replace(parts[0], n_rows=1), *parts[1:]), answers)
    with pytest.raises(DataError, match="the source changed"):
        merged(parts, [*answers, answers[0]._replace(part=len(parts))])


def test_a_missing_part_leaves_nothing(parts: tuple[Part, ...], answers: list[Answer]) -> None:
    with pytest.raises(DataError, match=f"1 of {len(parts)} parts of rows did not come"):
        merged(parts, answers[1:])


@pytest.mark.parametrize("faults", ["", "{}", "[]", '{"rows": 1, "found": {"z": {}}}', "é"])
def test_what_is_no_answer_is_refused_without_its_text(
    parts: tuple[Part, ...], answers: list[Answer], faults: str
) -> None:
    with pytest.raises(DataError, match="may quote a row"):
        merged(parts, [answers[0]._replace(faults=faults), *answers[1:]])
    with pytest.raises(DataError, match="may quote a row"):
        merged(parts, [answers[0]._replace(packed=b"12345"), *answers[1:]])


@pytest.mark.parametrize("failure", list(Failure))
def test_every_failure_is_one_constant_sentence(
    parts: tuple[Part, ...], answers: list[Answer], failure: Failure
) -> None:
    failed = Answer(0, 0, b"", "secret", failure.value)
    with pytest.raises(DppcaError) as caught:
        merged(parts, [failed, *answers[1:]])
    assert isinstance(caught.value, SettingError if failure is Failure.DIFFERS else DataError)
    assert str(caught.value).startswith("rows: ")
    assert "secret" not in str(caught.value)
    with pytest.raises(DataError) as caught:
        merged(parts, [failed._replace(failure="ages 41, 52"), *answers[1:]])
    assert "41" not in str(caught.value)
