"""Tables of the experiments: the named ones, and any file."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.papers.data import encode_table, load_table
from benchmarks.papers.files import file_source
from benchmarks.papers.machines import delta_for, split_rows
from benchmarks.papers.rows import PaperSource
from benchmarks.papers.trials import Scored, Trial
from dppca.common.errors import DataError
from dppca.common.schema import Binary, Categorical, Numeric

CSV = "age,colour,y\n" + "".join(
    f"{n},{['red', 'green', 'blue'][n % 3]},{n % 2}\n" for n in range(30)
)


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text(CSV)
    return path


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("a1a", (1605, 119)),
        ("mushrooms", (8124, 112)),
        ("musk", (6598, 166)),
        ("splice", (1000, 60)),
        ("splice-all", (3175, 60)),
        ("sensorless", (2200, 48)),
    ],
)
def test_named_tables_keep_their_bound(
    name: str, shape: tuple[int, int], data_folder: Path
) -> None:
    table = load_table(PaperSource(name))
    assert table.rows.shape == shape
    assert np.linalg.norm(table.rows, axis=1).max() <= table.row_norm * (1 + 1e-12)
    assert np.linalg.norm(table.in_ball().rows, axis=1).max() <= 1 + 1e-12


def test_a_file_of_text_becomes_numbers_and_indicators(csv: Path) -> None:
    table = load_table(file_source(csv, format_="csv", label=None))
    assert table.rows.shape == (30, 4)
    assert set(table.labels) == {"0", "1"}
    assert table.rows.min() == -1
    assert table.rows.max() == 1


def test_a_file_of_text_becomes_a_schema(csv: Path) -> None:
    coded = encode_table(file_source(csv, format_="csv", label="colour"))
    kinds = [type(attribute) for attribute in coded.schema.attributes]
    assert kinds == [Numeric, Categorical, Binary]
    target = coded.targets[0]
    assert target.name == "colour"
    assert target.features(coded.schema, coded.coded).shape == (30, 2)
    labels = target.labels(coded.schema, coded.coded)
    assert np.array_equal(labels, coded.values[:, 1])


def test_a_libsvm_file_is_read_plain_and_compressed(tmp_path: Path) -> None:
    text = "+1 1:0.5 3:2\n-1 2:1\n+1 1:1\n-1 3:1\n"
    plain, packed = tmp_path / "a.txt", tmp_path / "b.gz"
    plain.write_text(text)
    packed.write_bytes(gzip.compress(text.encode()))
    tables = [
        load_table(file_source(path, format_="libsvm", label=None)) for path in (plain, packed)
    ]
    assert tables[0].rows.shape == (4, 3)
    assert np.array_equal(tables[0].rows, tables[1].rows)
    assert encode_table(file_source(plain, format_="libsvm", label=None)).schema.attributes[
        -1
    ].labels == (
        "-1",
        "1",
    )


GOOD = "".join(f"{n},{n % 3},{'pq'[n % 2]}\n" for n in range(20))


@pytest.mark.parametrize("read", [load_table, encode_table], ids=["table", "coded"])
@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("rows.csv", "a,b,y\n" + GOOD + ",1,p\n", "column a of .* has 1 empty fields"),
        ("rows.csv", "a,b,y\n" + GOOD + "7,1,\n", "column y of .* has 1 empty fields"),
        ("rows.csv", "a,b,y\n" + GOOD + "nan,1,p\n", "column a of .* holds NaN or infinity"),
        ("rows.csv", "a,b,y\n" + GOOD + "-inf,1,p\n", "column a of .* holds NaN or infinity"),
        ("rows.csv", "a,a,y\n" + GOOD, "more than one column called a"),
        ("rows.csv", "y\n" + "p\nq\n" * 9, "no column beside the label"),
        ("rows.csv", "", "is empty"),
        ("rows.csv", "a,b,y\n", "has no rows"),
        ("rows.libsvm", "", "has no rows"),
        ("rows.libsvm", "1 1:0.5\n-1 1:nan\n", "holds NaN or infinity"),
        ("rows.libsvm", "1 1:0.5 2:x\n", "as a libsvm file"),
        ("rows.csv", "x,y\n" + "".join(f"p{n},q\n" for n in range(999)), "999 different values"),
    ],
    ids=lambda value: "" if callable(value) else value.replace("\n", " ")[-24:],
)
def test_a_file_that_no_method_could_use_is_a_named_error(
    read: Callable[[PaperSource], object], name: str, content: str, says: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(DataError, match=says):
        read(file_source(path, format_=path.suffix[1:], label=None))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("a,b,y\n1,2,0\n1,3,1\n1,4,0\n", r"column a of .* is constant"),
        ("a,y\n1,p\n2,p\n3,p\n", r"column y of .* has 1 class only"),
    ],
)
def test_a_column_that_tells_nothing_is_a_named_error_of_a_study(
    content: str, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=says):
        encode_table(file_source(path, format_="csv", label="y"))


def test_a_named_table_of_numbers_can_be_coded(data_folder: Path) -> None:
    coded = encode_table(PaperSource("splice"))
    assert coded.coded.shape == (1000, 61)
    labels = coded.targets[0].labels(coded.schema, coded.coded)
    assert labels.sum() == (load_table(PaperSource("splice")).labels > 0).sum()


def test_methods_are_compared_on_the_same_rows(csv: Path) -> None:
    source = file_source(csv, format_="csv", label="y")
    table = load_table(source)
    one = split_rows(table, Trial(source, "one", epsilon="1", seed=3))
    two = split_rows(table, Trial(source, "two", epsilon="2", seed=3))
    other = split_rows(table, Trial(source, "one", epsilon="1", seed=4))
    assert np.array_equal(one.rows, two.rows)
    assert np.array_equal(one.truth, two.truth)
    assert not np.array_equal(one.rows, other.rows)


def test_rows_held_out_are_not_trained_on(csv: Path) -> None:
    source = file_source(csv, format_="csv", label="y")
    split = split_rows(load_table(source), Trial(source, "one", rows=12))
    ages = {tuple(row) for row in split.rows}
    assert len(split.rows) == 12
    assert not ages & {tuple(row) for row in split.test}
    trained = split_rows(load_table(source), Trial(source, "one", scored=Scored.TRAINING))
    assert np.array_equal(trained.rows, trained.test)


def test_delta_is_one_over_the_square_of_the_rows() -> None:
    assert float(delta_for(Trial(PaperSource("t"), "m", delta="1/n^2"), 1000)) == pytest.approx(
        1e-6
    )
    assert delta_for(Trial(PaperSource("t"), "m", delta="1e-9"), 1000) == "1e-9"
