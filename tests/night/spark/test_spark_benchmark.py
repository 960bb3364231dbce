"""The benchmark on Spark at tiny size: its guest compares the integers of all three passes."""

from pathlib import Path

from tests.support.benchmarks import run_quickly


def test_it_gives_figures_for_every_contestant(tmp_path: Path) -> None:
    (table,) = run_quickly("spark", tmp_path)["tables"]
    assert [row[0].partition(",")[0] for row in table["rows"]] == [
        *["DPPCA"] * 3,
        "Spark's sums of all columns",
        "a counting mapInArrow",
        "pyspark.ml PCA",
    ]
