"""Synthetic rows: two forms, valid, labelled inside, and made of what was released alone."""

from __future__ import annotations

import inspect
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from dppca.common.attestation.claims import describe_federation
from dppca.common.errors import ArtefactError, LabelError, SchemaMismatchError, SettingError
from dppca.common.messages import Form
from dppca.common.numerics.spectrum.ppca import fit_ppca
from dppca.common.numerics.spectrum.shrinkage import shrink
from dppca.common.numerics.synthesis import field
from dppca.common.privacy.labels import Label
from dppca.common.privacy.release import calibrate
from dppca.common.results import Result
from dppca.common.study import Study
from dppca.curator.study.synthetic_rows import check_rows
from dppca.owner.records import check_table, open_table
from dppca.owner.synthesis.rows import (
    DecodingMethod,
    SyntheticTables,
    publishable_bytes,
    read_label,
    synthesize,
    write_table,
)
from dppca.owner.synthesis.tables import parse_metadata, read_metadata, with_metadata
from tests.support.latent_rows import make_latent_study, make_result, make_rows, save_rows

N_ROWS = 400


@pytest.fixture(scope="module")
def study() -> Study:
    return make_latent_study()


@pytest.fixture(scope="module")
def result(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Result:
    path = save_rows(make_rows(500), tmp_path_factory.mktemp("site") / "rows.parquet")
    return make_result(study, path)


@pytest.fixture(scope="module")
def tables(result: Result, study: Study) -> SyntheticTables:
    return synthesize(result, study, n_rows=N_ROWS, rng=np.random.default_rng(8))


def test_coded_rows_are_numbers_under_the_names_of_the_coded_columns(
    tables: SyntheticTables, study: Study
) -> None:
    assert tables.coded.num_rows == tables.n_rows == N_ROWS
    assert tuple(tables.coded.column_names) == study.table.column_names
    assert set(tables.coded.schema.types) == {pa.float64()}


def test_decoded_rows_are_valid_under_the_schema(
    tables: SyntheticTables, study: Study, tmp_path: Path
) -> None:
    write_table(tables.decoded, tmp_path / "rows.parquet")
    report = check_table(open_table(tmp_path / "rows.parquet", study.table), study.table)
    assert report.faultless
    assert report.n_rows == N_ROWS
    assert report.extra_columns == ()


@pytest.mark.parametrize("form", list(Form))
def test_published_rows_are_what_a_curator_accepts(
    tables: SyntheticTables, study: Study, tmp_path: Path, form: Form
) -> None:
    path = tmp_path / "upload"
    path.write_bytes(publishable_bytes(tables.table(form)))
    check_rows(path, study.table, form, n_rows=N_ROWS)


@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_file_says_that_it_may_leave_and_what_it_cost(
    tables: SyntheticTables, study: Study, tmp_path: Path, form: Form, suffix: str
) -> None:
    path = tmp_path / f"rows{suffix}"
    write_table(tables.table(form), path)
    assert read_label(path) is Label.RELEASED
    found = read_metadata(path)
    assert found["study_digest"] == study.digest
    assert found["schema_digest"] == study.table.digest
    assert found["form"] == form.value
    assert found["guarantee"] == describe_federation(study, calibrate(study))
    mechanism = found["mechanism"]
    assert isinstance(mechanism, dict)
    assert mechanism["name"] == "laplace"
    assert mechanism["scale"] == mechanism["l1"], "at epsilon 1"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_csv_has_the_rows_and_no_label(tables: SyntheticTables, tmp_path: Path) -> None:
    write_table(tables.decoded, tmp_path / "rows.csv")
    assert pa.csv.read_csv(tmp_path / "rows.csv").num_rows == N_ROWS
    with pytest.raises(ArtefactError):
        read_label(tmp_path / "rows.csv")


@pytest.mark.parametrize("label", [Label.SITE_ONLY, Label.PUBLISHED_METHOD])
def test_only_released_tables_are_published(tables: SyntheticTables, label: Label) -> None:
    fields = with_metadata(tables.decoded.schema, {"label": label.value})
    with pytest.raises(LabelError, match=label.value):
        publishable_bytes(tables.decoded.cast(fields))


def test_table_without_a_label_is_not_published(tables: SyntheticTables, tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match="no label"):
        publishable_bytes(tables.decoded.replace_schema_metadata({}))
    odd = with_metadata(tables.decoded.schema, {"label": "harmless"})
    with pytest.raises(ArtefactError, match="not one that this version knows"):
        publishable_bytes(tables.decoded.cast(odd))
    pq.write_table(pa.table({"a": [1]}), tmp_path / "rows.parquet")
    with pytest.raises(ArtefactError, match="no label"):
        read_label(tmp_path / "rows.parquet")
    (tmp_path / "rows.arrow").write_bytes(b"ARROW1")
    with pytest.raises(ArtefactError, match="damaged"):
        read_label(tmp_path / "rows.arrow")


def test_synthesis_takes_no_rows(result: Result, study: Study, tables: SyntheticTables) -> None:
    assert set(inspect.signature(synthesize).parameters) == {
        "result",
        "study",
        "n_rows",
        "rng",
        "shrinkage",
        "progress",
    }
    again = synthesize(result, study, n_rows=N_ROWS, rng=np.random.default_rng(8))
    assert again.coded.equals(tables.coded)
    assert again.decoded.equals(tables.decoded)
    other = synthesize(result, study, n_rows=N_ROWS, rng=np.random.default_rng(9))
    assert not other.coded.equals(tables.coded)


def test_many_coded_rows_have_the_moments_of_the_model(result: Result, study: Study) -> None:
    # Fixed seed: no false alarms. 100,000 rows put standard errors at 0.3 % of the variances.
    made = synthesize(result, study, n_rows=100_000, rng=np.random.default_rng(1))
    rows = np.column_stack([column.to_numpy() for column in made.coded.columns])
    variances = shrink(
        result.eigenvalues, count=result.header.count, noise_edge=result.header.noise_edge
    )
    model = fit_ppca(variances, result.vectors, result.mean, trace_scaling=False)
    np.testing.assert_allclose(rows.mean(axis=0), model.mean, atol=0.01)
    np.testing.assert_allclose(np.cov(rows.T), model.covariance(), atol=0.01)


def test_rows_fall_back_to_thresholds_where_the_field_did_not_converge_and_say_so(
    result: Result, study: Study, tables: SyntheticTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tables.method is DecodingMethod.FIELD
    assert tables.misfit is not None
    assert tables.misfit < 0.5
    monkeypatch.setattr(field, "_TURNS", 1)
    monkeypatch.setattr(field, "_SWEEPS", 2)
    made = synthesize(result, study, n_rows=50, rng=np.random.default_rng(0))
    assert made.method is DecodingMethod.NOT_CONVERGED
    assert made.decoded.num_rows == 50


def test_decoded_rows_keep_the_released_marginals(result: Result, study: Study) -> None:
    made = synthesize(result, study, n_rows=50_000, rng=np.random.default_rng(1))
    real = make_rows(500)
    for name in ("ill", "colour"):
        for value in set(real[name].to_pylist()):
            shares = [
                np.mean(np.array(rows[name].to_pylist()) == value) for rows in (real, made.decoded)
            ]
            assert abs(shares[0] - shares[1]) < 0.02, (name, value)


def test_noise_that_raises_variances_is_taken_out_of_them_and_said(
    result: Result, study: Study
) -> None:
    noisy = replace(result, eigenvalues=result.eigenvalues - 0.5 * result.eigenvalues.mean())
    shrunk = synthesize(noisy, study, n_rows=10, rng=np.random.default_rng(1))
    scaled = synthesize(noisy, study, n_rows=10, rng=np.random.default_rng(1), shrinkage=False)
    assert scaled.trace_scale < 1
    assert shrunk.trace_scale == pytest.approx(1)
    for made, shrinkage in ((shrunk, True), (scaled, False)):
        assert parse_metadata(made.coded.schema)["trace_scale"] == made.trace_scale
        assert parse_metadata(made.coded.schema)["shrinkage"] is shrinkage


def test_unit_ball_rows_are_synthesized_without_a_mean(tmp_path: Path) -> None:
    ball = [{"name": f"x{i}", "type": "numeric", "centre": 0, "scale": 4} for i in range(4)]
    study = make_latent_study(
        schema={"max_rows_per_person": 1, "attributes": ball, "row_norm": {"include_sums": False}}
    )
    result = make_result(study, save_rows(make_rows(100), tmp_path / "rows.parquet"))
    made = synthesize(result, study, n_rows=50, rng=np.random.default_rng(0))
    write_table(made.decoded, tmp_path / "decoded.parquet")
    assert check_table(open_table(tmp_path / "decoded.parquet", study.table), study.table).faultless


@pytest.mark.parametrize("n_rows", [0, -1, 1 << 40])
def test_number_of_rows_is_bounded(result: Result, study: Study, n_rows: int) -> None:
    with pytest.raises(SettingError, match="are possible"):
        synthesize(result, study, n_rows=n_rows, rng=np.random.default_rng(0))


def test_one_row_can_be_drawn(result: Result, study: Study) -> None:
    assert synthesize(result, study, n_rows=1, rng=np.random.default_rng(0)).n_rows == 1


def test_result_of_another_study_is_refused(result: Result) -> None:
    with pytest.raises(SchemaMismatchError, match="another study"):
        synthesize(result, make_latent_study(name="other"), n_rows=5, rng=np.random.default_rng(0))
