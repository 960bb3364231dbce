"""Every plot of a site says that it may not leave, to who sees it and in the file."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from matplotlib import image
from matplotlib.figure import Figure

from dppca.owner.records import open_table
from dppca.owner.synthesis.report.comparison import CodedTable, code_table, compare
from dppca.owner.synthesis.report.page import biplot, pair_plot
from tests.support.latent_rows import make_result, make_rows, save_rows
from tests.support.studies import make_study

STUDY = make_study("latent")
SCHEMA = STUDY.table


def _table(path: Path, seed: int) -> CodedTable:
    return code_table(open_table(save_rows(make_rows(200, seed), path), SCHEMA), _rng())


def _rng() -> np.random.Generator:
    return np.random.default_rng(1)


def test_every_plot_is_labelled_site_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, synthetic = _table(tmp_path / "a.parquet", 0), _table(tmp_path / "b.parquet", 1)
    result = make_result(STUDY, tmp_path / "a.parquet")
    quality = compare(
        SCHEMA, real, synthetic, targets=(), coded=None, released_mean=None, rng=_rng()
    )
    titles: list[str] = []
    save = Figure.savefig

    def saved(figure: Figure, *given: object, **options: object) -> None:
        titles.append(figure.get_suptitle())
        save(figure, *given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Figure, "savefig", saved)
    plots = [
        pair_plot(quality),
        biplot(SCHEMA, result, real, synthetic.sample / 1024),
    ]
    assert len(titles) == len(plots) == 2
    for title, png in zip(titles, plots, strict=True):
        assert title.startswith("site-only")
        assert title.encode() in png
        assert image.imread(io.BytesIO(png)).ndim == 3
