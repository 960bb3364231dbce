"""Measures of synthetic rows against real ones, on tables whose answer is known."""

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dppca.common.analysis.comparison import count_cells, list_pairs
from dppca.common.kernel.documents.stated import Stated
from dppca.common.kernel.errors import DataError
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.schema import Column, encode
from dppca.common.shell.plotting import make_svg
from dppca.owner.records.table import open_table
from dppca.owner.synthesis.report.comparison import (
    CodedTable,
    Quality,
    code_table,
    compare,
    count_parts,
    list_targets,
    propensity,
)
from dppca.owner.synthesis.report.page import (
    Compared,
    biplot,
    marginal_panels,
    pair_plot,
    quality_page,
)
from tests.support.latent_rows import make_result, make_rows, save_rows
from tests.support.studies import binary_of, make_schema, make_study, numeric_of

SCHEMA = make_study("latent").table


def _rng() -> np.random.Generator:
    return np.random.default_rng(11)


def _table(tmp_path: Path, n_rows: int, seed: int) -> CodedTable:
    path = save_rows(make_rows(n_rows, seed), tmp_path / f"{n_rows}-{seed}.parquet")
    return code_table(open_table(path, SCHEMA), _rng())


def _quality(real: CodedTable, synthetic: CodedTable, **changes: Any) -> Quality:
    given: dict[str, Any] = {
        "targets": ("ill", "colour"),
        "coded": None,
        "released_mean": None,
        "rng": _rng(),
        **changes,
    }
    return compare(SCHEMA, real, synthetic, **given)


def _scrambled(table: CodedTable) -> CodedTable:
    """The same marginals; no relation between attributes is left."""
    rng = _rng()
    rows = table.sample.copy()
    for start, stop in SCHEMA.layout.groups:
        rows[:, start:stop] = rows[rng.permutation(len(rows)), start:stop]
    return _of_rows(table, rows)


def _columns(rows: NDArray[np.int32]) -> list[Column]:
    """Values that are coded as some rows are."""
    return [
        rows[:, start:stop].argmax(axis=1).astype(np.int32)
        if stop - start > 1
        else (rows[:, start] > 0).astype(np.int32)
        if cells is None
        else cells.scale.values(rows[:, start] / 1024)
        for (start, stop), cells in zip(SCHEMA.layout.groups, SCHEMA.cells, strict=True)
    ]


def _of_rows(table: CodedTable, rows: NDArray[np.int32]) -> CodedTable:
    """Other coded rows of the same table, all of them known."""
    counts = count_cells(SCHEMA, _columns(rows), rows)
    known = np.ones((len(rows), len(SCHEMA.attributes)), dtype=bool)
    columns = tuple(_columns(rows))
    return replace(table, counts=counts, sample=rows, columns=columns, known=known)


def test_counts_of_parts_add_up_to_those_of_the_whole() -> None:
    rows = _rng().integers(-512, 513, (101, SCHEMA.layout.n_columns), dtype=np.int32)
    columns = _columns(rows)
    whole = count_cells(SCHEMA, columns, rows)
    first, second = (
        count_cells(SCHEMA, [column[part] for column in columns], rows[part])
        for part in (np.s_[:40], np.s_[40:])
    )
    parts = first.merge(second)
    assert parts.n_rows == whole.n_rows
    for ours, theirs in zip(
        [*whole.marginals, *whole.pairs], [*parts.marginals, *parts.pairs], strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.sum() == 101
    assert [pair.shape for pair in whole.pairs][-1] == (2, 3)
    assert len(whole.pairs) == len(list_pairs(6)) == 15


def test_rows_of_one_distribution_cannot_be_told_apart(tmp_path: Path) -> None:
    table = _table(tmp_path, 4000, 0)
    rows = table.sample
    real, synthetic = (_of_rows(table, half) for half in (rows[:2500], rows[2500:]))
    found = propensity(SCHEMA, real.sample, synthetic.sample)
    assert found.products
    assert 0.5 < found.ratio < 1.6
    quality = _quality(real, synthetic)
    for each in (*quality.marginals, *quality.pairs):
        assert each.found < 2.5 * each.by_chance
    tables, chance = quality.tables, quality.tables_by_chance
    assert 0.5 * chance.three_way < tables.three_way < 1.5 * chance.three_way
    assert quality.label is Label.SITE_ONLY
    assert quality.pair_summary.mean == pytest.approx(np.mean([p.found for p in quality.pairs]))
    assert quality.pair_summary.by_chance == pytest.approx(
        np.mean([p.by_chance for p in quality.pairs])
    )
    found = sorted((p.found for p in quality.pairs), reverse=True)
    assert [each.found for each in quality.pair_summary.worst] == found[:10]


def test_rows_without_their_relations_are_told_apart_by_everything_but_marginals(
    tmp_path: Path,
) -> None:
    real = _table(tmp_path, 3000, 0)
    quality = _quality(real, _scrambled(real))
    assert all(each.found == 0 for each in quality.marginals)
    assert max(each.found for each in quality.pairs) > 0.3
    assert quality.propensity.ratio > 20
    for each in quality.accuracies:
        assert each.trained_on_synthetic < each.trained_on_real - 0.2
        assert each.trained_on_real > 0.9
        assert each.trees_on_synthetic < each.trees_on_real - 0.2
    for name in ("three_way", "workload"):
        assert getattr(quality.tables, name) > 1.2 * getattr(quality.tables_by_chance, name)


def test_accuracies_of_good_rows_are_those_of_real_ones(tmp_path: Path) -> None:
    real = _table(tmp_path, 2000, 0)
    coded = real.sample / 1024
    quality = _quality(real, real, coded=coded, released_mean=coded.mean(axis=0))
    for each in quality.accuracies:
        assert each.trained_on_synthetic == pytest.approx(each.trained_on_real, abs=0.03)
        assert each.trained_on_coded == pytest.approx(each.trained_on_synthetic, abs=0.02)
        assert each.trees_on_synthetic > each.trees_on_real > each.majority
        assert each.majority < 0.7


def test_copies_of_real_rows_are_seen(tmp_path: Path) -> None:
    real = _table(tmp_path, 500, 0)
    copied, other = _quality(real, real).distances, _quality(real, _scrambled(real)).distances
    assert copied.copies == 1
    assert copied.synthetic == (0, 0, 0, 0)
    assert copied.real[-1] > 0
    assert other.copies < 0.01
    assert other.synthetic[-1] > copied.real[-1]
    assert list(other.synthetic) == sorted(other.synthetic)


def test_a_sample_is_taken_of_all_of_a_long_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dppca.owner.synthesis.report.comparison.SAMPLE_ROWS", 100)
    table = _table(tmp_path, 1000, 0)
    assert table.n_rows == 1000
    assert table.sample.shape == (100, SCHEMA.layout.n_columns)


def test_a_table_of_a_few_rows_is_not_compared(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="needs 10"):
        _table(tmp_path, 9, 0)


def test_only_attributes_with_classes_are_predicted() -> None:
    assert list_targets(SCHEMA) == ("ill", "colour")
    attributes = [numeric_of(n, 0, 1) for n in "xy"]
    assert list_targets(make_schema(attributes)) == ()


def test_every_plot_is_labelled_site_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To who sees it, and in the file."""
    real, synthetic = _table(tmp_path, 200, 0), _table(tmp_path, 200, 1)
    result = make_result(make_study("latent"), tmp_path / "200-0.parquet")
    quality = _quality(real, synthetic, targets=())
    titles: list[str] = []

    def made(figure: Figure, **metadata: str) -> bytes:
        titles.append(figure.get_suptitle())
        return make_svg(figure, **metadata)

    monkeypatch.setattr("dppca.owner.synthesis.report.page.make_svg", made)
    plots = [pair_plot(quality), biplot(SCHEMA, result, real, synthetic.sample / 1024, ())]
    for title, svg in zip(titles, plots, strict=True):
        assert title.startswith("site-only")
        assert title.encode() in svg
        assert svg.startswith(b"<?xml")


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("page")
    real, synthetic = _table(folder, 400, 0), _table(folder, 300, 3)
    quality = _quality(real, synthetic)
    panels = marginal_panels(SCHEMA, real, synthetic, quality)
    compared = Compared(quality, real.faults, panels, "survey & more", "synthetic-decoded.parquet")
    return quality_page(
        compared,
        stated=Stated(title="<b>title</b>"),
        face=[("Study", "<b>study</b>"), ("Owners", "owner-1")],
        pictures={"Pairs": pair_plot(quality)},
    )


def test_the_page_says_on_its_face_that_it_may_not_leave(page: str) -> None:
    reader = _Reader()
    reader.feed(page)
    assert ("meta", {"name": "dppca-label", "content": "site-only"}) in reader.tags
    assert page.index("SITE-ONLY: do not publish") < page.index("<h1>")
    assert "<title>site-only:" in page


def test_the_page_needs_nothing_but_itself_and_names_are_text_on_it(page: str) -> None:
    reader = _Reader()
    reader.feed(page)
    assert {tag for tag, _ in reader.tags}.isdisjoint({"script", "link", "iframe", "a"})
    sources = [attributes["src"] for tag, attributes in reader.tags if tag == "img"]
    assert len(sources) == 1
    assert all(source and source.startswith("data:image/svg+xml;base64,") for source in sources)
    assert "http:" not in page
    assert "https:" not in page
    assert "&lt;b&gt;study&lt;/b&gt;" in page
    assert "survey &amp; more" in page
    assert "<b>study" not in page


def test_bins_in_products_do_not_change_what_tables_are_compared_by() -> None:
    x = numeric_of("x", 0, 1, bins=3)
    b = binary_of("b", [0, 1])
    rng = _rng()
    columns = [rng.uniform(-0.1, 1.1, 500), rng.integers(0, 2, 500).astype(np.int32)]
    plain, binned = (make_schema([each, b]) for each in (x, {**x, "products": "bins"}))
    counts = [count_cells(each, columns, encode(each, columns)) for each in (plain, binned)]
    for one, other in zip(
        [*counts[0].marginals, *counts[0].pairs],
        [*counts[1].marginals, *counts[1].pairs],
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_a_comparison_counts_each_of_its_parts(tmp_path: Path) -> None:
    tables = [_table(tmp_path, 200, seed) for seed in (1, 2)]
    counted: list[int] = []
    targets = ("ill", "colour")
    _quality(*tables, targets=targets, progress=counted.append)
    assert counted == [1] * count_parts(targets)
