"""Synthetic rows: two forms, valid, labelled inside, and made of what was released alone."""

import inspect
import stat
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dppca.common.analysis.field import field
from dppca.common.analysis.field.rows import fit_released
from dppca.common.analysis.rows import synthesis as rows
from dppca.common.analysis.rows.synthesis import DecodingMethod, SyntheticRows, synthesize
from dppca.common.analysis.spectrum.ppca import fit_ppca
from dppca.common.analysis.spectrum.shrinkage import shrink
from dppca.common.kernel.attestation.claims import describe_federation
from dppca.common.kernel.attestation.envelopes import (
    envelope_path,
    read_envelope,
    unchecked_predicate,
)
from dppca.common.kernel.attestation.results import Result, Share
from dppca.common.kernel.attestation.signatures import Signer, make_signer
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.documents.values import to_document
from dppca.common.kernel.errors import ArtefactError, LabelError, SchemaMismatchError, SettingError
from dppca.common.kernel.identity.tls import Role
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema import encode
from dppca.common.kernel.study import Study, Trust
from dppca.curator.study.synthetic_rows import check_rows
from dppca.owner.records.check import check_table
from dppca.owner.records.table import open_table
from dppca.owner.synthesis.tables import (
    parse_metadata,
    publishable,
    read_metadata,
    with_metadata,
    write_released,
)
from tests.support.certificates import new_authority
from tests.support.latent_rows import make_result, make_rows, save_rows
from tests.support.pooling import pooled_result
from tests.support.studies import binary_of, make_study, numeric_of
from tests.support.tables import drawn_table

N_ROWS = 400
FALSE_ALARMS = 0.0  # all draws have seeds


@pytest.fixture(scope="module")
def study() -> Study:
    return make_study("latent")


@pytest.fixture(scope="module")
def result(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Result:
    path = save_rows(make_rows(500), tmp_path_factory.mktemp("site") / "rows.parquet")
    return make_result(study, path)


@pytest.fixture(scope="module")
def made(result: Result, study: Study) -> dict[Form, SyntheticRows]:
    return {
        form: synthesize(result, study, form, n_rows=N_ROWS, rng=np.random.default_rng(8))
        for form in Form
    }


@pytest.fixture(scope="module")
def signer() -> Signer:
    return make_signer(new_authority().issue(Role.OWNER, "owner-1"))


def _decoded(result: Result, study: Study, n_rows: int, seed: int = 1) -> SyntheticRows:
    rng = np.random.default_rng(seed)
    return synthesize(result, study, Form.DECODED, n_rows=n_rows, rng=rng)


def _write(rows: SyntheticRows, path: Path, signer: Signer) -> Path:
    write_released(path, rows.batches(), signer, fields=rows.fields, claims=rows.claims)
    return path


@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize("n_rows", [1, N_ROWS, 70_000])
def test_published_rows_are_those_of_the_file_and_what_a_curator_accepts(
    result: Result, study: Study, tmp_path: Path, signer: Signer, form: Form, n_rows: int
) -> None:
    rows = synthesize(result, study, form, n_rows=n_rows, rng=np.random.default_rng(1))
    path, upload = _write(rows, tmp_path / "rows.parquet", signer), tmp_path / "upload"
    with publishable(path) as stream:
        stream.seek(0)
        upload.write_bytes(stream.read())
    check_rows(upload, study.table, form, n_rows=n_rows)
    with pa.memory_map(str(upload)) as source, pa.ipc.open_stream(source) as stream:
        sent = stream.read_all()
    assert sent.equals(drawn_table(rows))
    assert parse_metadata(sent.schema) == read_metadata(path)
    assert set(tmp_path.iterdir()) == {path, envelope_path(path), upload}


@pytest.mark.parametrize("form", list(Form))
def test_file_says_that_it_may_leave_and_what_it_cost(
    made: dict[Form, SyntheticRows], study: Study, tmp_path: Path, signer: Signer, form: Form
) -> None:
    path = _write(made[form], tmp_path / "rows.parquet", signer)
    inside = read_metadata(path)
    assert (inside["label"], inside["form"]) == (Label.RELEASED, form.value)
    found = unchecked_predicate(read_envelope(path))
    assert inside["study_digest"] == found["study_digest"] == study.digest
    assert found["schema_digest"] == study.table.digest
    assert found["form"] == form.value
    assert found["guarantee"] == to_document(describe_federation(study, calibrate(study)))
    mechanism = found["mechanism"]
    assert isinstance(mechanism, dict)
    assert mechanism["name"] == "laplace"
    assert mechanism["parameters"] == {"scale": mechanism["l1"]}, "at epsilon 1"
    for each in (path, envelope_path(path)):
        assert stat.S_IMODE(each.stat().st_mode) == 0o600


def test_memory_does_not_grow_with_the_rows(
    result: Result, study: Study, tmp_path: Path, signer: Signer
) -> None:
    peaks = []
    for n_rows in (140_000, 200_000):
        rows, arrow = _decoded(result, study, n_rows), [0]
        tracemalloc.start()
        write_released(
            tmp_path / "rows.parquet",
            rows.batches(),
            signer,
            fields=rows.fields,
            claims=rows.claims,
            progress=lambda _, arrow=arrow: arrow.append(pa.total_allocated_bytes()),
        )
        peaks.append((tracemalloc.get_traced_memory()[1], max(arrow)))
        tracemalloc.stop()
    # 60,000 rows are 2.4 MB; both tables have two whole batches of 65,536.
    for few, many in zip(*peaks, strict=True):
        assert many < few + 500_000


def test_what_fails_while_rows_are_drawn_leaves_no_file(
    made: dict[Form, SyntheticRows], tmp_path: Path, signer: Signer
) -> None:
    rows = made[Form.DECODED]

    def broken() -> Iterator[Any]:
        yield from rows.batches()
        raise MemoryError

    with pytest.raises(MemoryError):
        write_released(
            tmp_path / "rows.parquet", broken(), signer, fields=rows.fields, claims=rows.claims
        )
    assert not list(tmp_path.iterdir())
    with pytest.raises(SettingError, match="cannot be written"):
        _write(rows, tmp_path / "missing" / "rows.parquet", signer)


def test_only_tables_with_the_label_released_are_published(
    made: dict[Form, SyntheticRows], tmp_path: Path
) -> None:
    table, path = drawn_table(made[Form.DECODED]), tmp_path / "rows.parquet"
    for label in (Label.SITE_ONLY, Label.PUBLISHED_METHOD):
        pq.write_table(table.cast(with_metadata(table.schema, {"label": label.value})), path)
        with pytest.raises(LabelError, match=label.value), publishable(path):
            pass
    pq.write_table(table, path)
    with pytest.raises(ArtefactError, match="no label"), publishable(path):
        pass
    pq.write_table(table.cast(with_metadata(table.schema, {"label": "harmless"})), path)
    with pytest.raises(ArtefactError, match="not one that this version knows"), publishable(path):
        pass
    (tmp_path / "rows.arrow").write_bytes(b"ARROW1")
    with pytest.raises(ArtefactError, match="damaged"):
        read_metadata(tmp_path / "rows.arrow")


def test_synthesis_takes_no_rows(
    result: Result, study: Study, made: dict[Form, SyntheticRows]
) -> None:
    assert set(inspect.signature(synthesize).parameters) == {
        "result",
        "study",
        "form",
        "n_rows",
        "rng",
        "shrinkage",
        "progress",
        "replicate",
    }
    for form in Form:
        again = synthesize(result, study, form, n_rows=N_ROWS, rng=np.random.default_rng(8))
        assert drawn_table(again).equals(drawn_table(made[form]))
        assert drawn_table(again).equals(drawn_table(again)), "read twice"
        other = synthesize(result, study, form, n_rows=N_ROWS, rng=np.random.default_rng(9))
        assert not drawn_table(other).equals(drawn_table(made[form]))


def test_many_coded_rows_have_the_moments_of_the_model(result: Result, study: Study) -> None:
    # Fixed seed: no false alarms. 100,000 rows put standard errors at 0.3 % of the variances.
    rng = np.random.default_rng(1)
    table = drawn_table(synthesize(result, study, Form.CODED, n_rows=100_000, rng=rng))
    drawn = np.column_stack([column.to_numpy() for column in table.columns])
    variances = shrink(
        result.eigenvalues, count=result.header.count, noise_edge=result.header.noise_edge
    )
    model = fit_ppca(variances, result.vectors, result.mean, trace_scaling=False)
    np.testing.assert_allclose(drawn.mean(axis=0), model.mean, atol=0.01)
    np.testing.assert_allclose(np.cov(drawn.T), model.covariance(), atol=0.01)


def test_rows_fall_back_to_thresholds_where_the_field_did_not_converge_and_say_so(
    result: Result,
    study: Study,
    made: dict[Form, SyntheticRows],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert made[Form.DECODED].method is DecodingMethod.FIELD
    assert made[Form.DECODED].misfit is not None
    assert made[Form.DECODED].misfit < 0.5
    monkeypatch.setattr(field, "_TURNS", 1)
    monkeypatch.setattr(field, "_SWEEPS", 2)
    fallen = _decoded(result, study, 5000)
    assert fallen.method is DecodingMethod.NOT_CONVERGED
    table = drawn_table(fallen)
    assert table.num_rows == 5000
    assert table.equals(drawn_table(fallen)), "read twice"
    rng = np.random.default_rng(1)
    coded = drawn_table(synthesize(result, study, Form.CODED, n_rows=5000, rng=rng))
    for name in ("x0", "x1", "x2", "x3"):
        ranks = np.corrcoef(coded[name].to_numpy(), table[name].to_numpy())[0, 1]
        assert ranks > 0.95, "the coded rows of the same state, cut"
    monkeypatch.setattr(rows, "MAX_VALUES", 5000 * study.table.layout.n_columns - 1)
    with pytest.raises(SettingError, match="4999 are possible"):
        _decoded(result, study, 5000)


def test_rows_are_drawn_by_the_noise_that_the_pool_holds(
    result: Result, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten owners with one colluder: ten ninths of a mechanism, not ten."""
    told: list[float] = []

    def fit(*args: Any, entry_noise: float, **others: Any) -> Any:
        told.append(entry_noise)
        return fit_released(*args, entry_noise=entry_noise, **others)

    monkeypatch.setattr(rows, "fit_released", fit)
    shares = tuple(Share(f"owner-{place}", "", 50, "") for place in range(10))
    pooled = replace(result, header=replace(result.header, shares=shares))
    owners = tuple(share.owner for share in shares)
    for trust, colluders in ((Trust.OWNER, None), (Trust.AGGREGATE, 1)):
        privacy = study.privacy.model_copy(update={"trust": trust, "colluders": colluders})
        _decoded(pooled, study.model_copy(update={"owners": owners, "privacy": privacy}), 5)
    assert told[0] / told[1] == pytest.approx(3)


def test_rows_by_thresholds_have_values_in_the_bins_that_enter_products(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attributes: list[dict[str, Any]] = [
        numeric_of("x", 0, 50, bins=5, products="bins"),
        numeric_of("n", 0, 9, integer=True, bins=3, spikes=[0, 4], products="bins"),
        binary_of("ill", ["no", "yes"]),
    ]
    study = make_study(attributes)
    rng = np.random.default_rng(2)
    ill = rng.random(3000) < 0.4
    x = np.where(ill, rng.uniform(20, 30, 3000), rng.uniform(0, 50, 3000))
    n = np.where(rng.random(3000) < 0.3, 0, rng.integers(1, 10, 3000)).astype(float)
    coded = encode(study.table, [x, n, ill.astype(np.int32)])
    result = pooled_result(study, [coded], seed=1)
    monkeypatch.setattr(field, "_MOST_MISFIT", 0.0)
    made = _decoded(result, study, 2000)
    assert made.method is DecodingMethod.NOT_CONVERGED
    table = drawn_table(made)
    drawn = table["x"].to_numpy()
    assert (
        np.abs(np.histogram(drawn, 5, (0, 50))[0] / 2000 - np.histogram(x, 5)[0] / 3000).max()
        < 0.03
    )
    assert len(np.unique(drawn)) == 2000
    numbers = table["n"].to_numpy()
    assert set(numbers) == set(range(10))
    assert (numbers == 0).mean() == pytest.approx(0.3, abs=0.03)


@pytest.mark.parametrize(
    "decoder", [each for each in DecodingMethod if each is not DecodingMethod.MISSES]
)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
@pytest.mark.parametrize(
    "asked",
    [{"missing": "level", "histogram": True}, {"missing": "indicator"}],
    ids=["level", "indicator"],
)
def test_rows_have_the_released_share_of_missing_values_whatever_the_decoder(
    asked: dict[str, Any],
    decoder: DecodingMethod,
    share: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """False alarms: none, as seeds are fixed; the bound is five standard deviations and 0.005."""
    lab = {"type": "numeric", "lower": 0, "upper": 10, **asked}
    ill = binary_of("ill", ["no", "yes"])
    study = make_study([{"name": "lab", **lab}, ill], epsilon="1000")
    rng, n_rows = np.random.default_rng(5), 20_000
    values = np.where(rng.random(3000) < share, np.nan, rng.normal(7, 1, 3000).clip(0, 10))
    codes = (rng.random(3000) < 0.4).astype(np.int32)
    moments = accumulate_moments(study.table, [values, codes])
    result = pooled_result(study, [moments], seed=1)
    if decoder is DecodingMethod.NOT_CONVERGED:
        monkeypatch.setattr(field, "_MOST_MISFIT", -1.0)
    if decoder is DecodingMethod.THRESHOLDS:  # as where a schema is too large for a field
        monkeypatch.setattr(rows, "fit_released", lambda *_, **__: None)
    made = _decoded(result, study, n_rows)
    assert made.method is decoder
    drawn = drawn_table(made)["lab"].to_numpy()
    found, real = np.isnan(drawn), np.isnan(values).mean()
    assert abs(found.mean() - real) < 0.005 + 5 * np.sqrt(real * (1 - real) / n_rows)
    assert np.nanmean(drawn) == pytest.approx(np.nanmean(values), abs=0.2)
    assert np.nanstd(drawn) == pytest.approx(1.0, abs=0.3)


def test_progress_never_falls_and_ends(
    result: Result, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(field, "_MOST_MISFIT", 0.0)
    told: list[float] = []
    rng = np.random.default_rng(0)
    synthesize(result, study, Form.DECODED, n_rows=5, rng=rng, progress=told.append)
    assert told == sorted(told)
    assert 0 < told[0] < 0.01
    assert told[-1] == 1
    assert len(told) == 5 * field._SWEEPS + 1


def test_noise_that_raises_variances_is_taken_out_of_them_and_said(
    result: Result, study: Study
) -> None:
    noisy = replace(result, eigenvalues=result.eigenvalues - 0.5 * result.eigenvalues.mean())
    shrunk, scaled = (
        synthesize(
            noisy,
            study,
            Form.CODED,
            n_rows=10,
            rng=np.random.default_rng(1),
            shrinkage=shrinkage,
        )
        for shrinkage in (True, False)
    )
    assert scaled.trace_scale < 1
    assert shrunk.trace_scale == pytest.approx(1)
    for made, shrinkage in ((shrunk, True), (scaled, False)):
        assert made.claims["trace_scale"] == made.trace_scale
        assert made.claims["shrinkage"] is shrinkage


def test_unit_ball_rows_are_synthesized_without_a_mean(tmp_path: Path, signer: Signer) -> None:
    ball = [{"name": f"x{i}", "type": "numeric", "centre": 0, "scale": 4} for i in range(4)]
    study = make_study(
        "latent",
        schema={"max_rows_per_person": 1, "attributes": ball, "row_norm": {"include_sums": False}},
    )
    result = make_result(study, save_rows(make_rows(100), tmp_path / "rows.parquet"))
    made = _decoded(result, study, 50)
    assert made.method is DecodingMethod.THRESHOLDS
    path = _write(made, tmp_path / "decoded.parquet", signer)
    assert check_table(open_table(path, study.table), study.table).faultless


def test_no_row_and_a_result_of_another_study_are_refused(result: Result, study: Study) -> None:
    with pytest.raises(SettingError, match="at least 1"):
        _decoded(result, study, 0)
    with pytest.raises(SchemaMismatchError, match="another study"):
        _decoded(result, make_study("latent", name="other"), 5)
