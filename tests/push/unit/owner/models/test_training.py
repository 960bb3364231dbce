"""Classifiers trained at a site: what they learn, how they are kept, that they stay."""

import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import skops.io
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from dppca.common.analysis.spectrum.pca import decompose
from dppca.common.kernel.attestation.results import Result
from dppca.common.kernel.documents.values import to_document
from dppca.common.kernel.errors import ArtefactError, DataError, SchemaMismatchError, SettingError
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.schema import encode
from dppca.common.kernel.study import Study
from dppca.owner.models import training
from dppca.owner.models.loader import load_model
from dppca.owner.models.model import Fit, Model, pack_model, write_model
from dppca.owner.models.training import feature_space, predict_file, train
from dppca.owner.records.faults import FaultKind
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.mapping_files import digest_mapping
from dppca.owner.records.mapping_places import MappingPlace
from dppca.owner.records.table import open_table
from dppca.owner.records.text_format import TextFormat
from dppca.owner.render.models import prediction_text
from dppca.owner.synthesis.tables import read_metadata
from tests.support.latent_rows import make_result, make_rows, save_rows
from tests.support.studies import (
    COLOURS,
    binary_of,
    categorical_of,
    make_schema,
    make_study,
    numeric_of,
)

N_ROWS = 600


@pytest.fixture(scope="module")
def study() -> Study:
    return make_study("latent")


@pytest.fixture(scope="module")
def rows_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_rows(make_rows(N_ROWS), tmp_path_factory.mktemp("site") / "rows.parquet")


@pytest.fixture(scope="module")
def result(study: Study, rows_path: Path) -> Result:
    return make_result(study, rows_path)


def fit(result: Result, study: Study, path: Path, **changes: Any) -> Model:
    settings: dict[str, Any] = {
        "target": "ill",
        "kernel": "linear",
        "C": 1.0,
        "max_rows": None,
        "rng": np.random.default_rng(3),
    }
    settings.update(changes)
    return train(result, study, open_table(path, study.table), **settings)


def report(model: Model) -> Fit:
    """How a model that stays was trained."""
    assert model.fit is not None
    return model.fit


@pytest.fixture(scope="module")
def model(result: Result, study: Study, rows_path: Path) -> Model:
    return fit(result, study, rows_path)


def test_components_are_those_of_the_features_alone(
    result: Result, study: Study, rows_path: Path
) -> None:
    table = open_table(rows_path, study.table)
    coded = np.vstack([encode(study.table, batch) for batch in table.batches()]) / 1024
    features = np.delete(coded, 4, axis=1)
    space = feature_space(result, study, "ill")
    assert space.columns.tolist() == [0, 1, 2, 3, 5, 6, 7]
    oracle = PCA(n_components=0.95).fit(features)
    assert len(space.components) == oracle.n_components_
    np.testing.assert_allclose(np.abs(space.components), np.abs(oracle.components_), atol=1e-8)
    np.testing.assert_allclose(space.mean, oracle.mean_, atol=1e-12)


def test_components_of_a_noisy_result_do_not_see_the_target_columns(
    result: Result, study: Study
) -> None:
    noise = np.random.default_rng(0).integers(-(10**7), 10**7, result.pooled.shape)
    noisy = Result(result.header, result.pooled + noise, None, *_decomposed(result, study, noise))
    space = feature_space(noisy, study, "colour")
    block = noisy.covariance(study)[:5, :5]
    expected = decompose(block).vectors[: len(space.components)]
    np.testing.assert_allclose(space.components, expected)


def _decomposed(result: Result, study: Study, noise: np.ndarray) -> tuple[Any, Any, Any]:
    mean = result.mean + noise[:8] / 4.0**10 / N_ROWS
    return mean, result.eigenvalues, result.vectors


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("target", ["ill", "colour"])
def test_binary_and_categorical_targets_are_learnt(
    result: Result, study: Study, rows_path: Path, target: str, kernel: str
) -> None:
    found = fit(result, study, rows_path, target=target, kernel=kernel)
    fit_of_rows = report(found)
    assert fit_of_rows.training_accuracy > 0.85
    assert (fit_of_rows.n_rows, fit_of_rows.n_unlabelled) == (N_ROWS, 0)
    labels = make_rows(N_ROWS)[target].to_pylist()
    assert fit_of_rows.majority == max(map(labels.count, set(labels))) / N_ROWS
    assert fit_of_rows.converged
    assert found.label is Label.SITE_ONLY


def test_classifier_is_a_scaled_linear_machine_on_projected_rows(
    model: Model, study: Study, rows_path: Path
) -> None:
    table = open_table(rows_path, study.table)
    coded = np.vstack([encode(study.table, batch) for batch in table.batches()]) / 1024
    space = model.space
    assert space is not None
    scores = (np.delete(coded, 4, axis=1) - space.mean) @ space.components.T
    labels = (coded[:, 4] > 0).astype(int)
    oracle = LinearSVC(C=1.0, dual=False, max_iter=10_000)
    oracle.fit(StandardScaler().fit_transform(scores), labels)
    np.testing.assert_allclose(model.estimator.machine_[-1].coef_, oracle.coef_, rtol=1e-6)


def test_rows_without_a_known_target_are_left_out_and_counted(
    result: Result, study: Study, tmp_path: Path
) -> None:
    rows = make_rows(100)
    ill = rows["ill"].to_pylist()
    ill[:7] = [None, "", "maybe", None, None, None, "?"]
    path = save_rows(rows.set_column(4, "ill", pa.array(ill)), tmp_path / "rows.parquet")
    found = fit(result, study, path)
    assert (report(found).n_rows, report(found).n_unlabelled) == (93, 7)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"target": "x0"}, "x0 is numeric; a target can be ill, colour"),
        ({"target": "Color"}, r"Color is not an attribute of the study \(did you mean colour\?\)"),
        (
            {"target": "income"},
            "income is not an attribute of the study; a target can be ill, colour",
        ),
        ({"kernel": "poly"}, "kernel is 'poly'; it must be 'linear' or 'rbf'"),
        ({"C": 0.0}, "C is 0.0; it must be above 0"),
        ({"C": float("nan")}, "C is nan"),
        ({"max_rows": 1}, "max_rows is 1; it must be at least 2"),
    ],
)
def test_setting_out_of_range_is_named_with_what_can_be_chosen(
    result: Result, study: Study, rows_path: Path, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(SettingError, match=says):
        fit(result, study, rows_path, **changes)


def test_rbf_on_many_rows_asks_for_a_limit(
    result: Result, study: Study, rows_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "MAX_RBF_ROWS", N_ROWS - 1)
    with pytest.raises(SettingError, match=f"there are {N_ROWS} rows.*--max-rows"):
        fit(result, study, rows_path, kernel="rbf")
    assert report(fit(result, study, rows_path, kernel="rbf", max_rows=200)).n_rows == 200
    assert report(fit(result, study, rows_path, kernel="linear")).n_rows == N_ROWS


def test_table_of_another_schema_is_refused(result: Result, study: Study, rows_path: Path) -> None:
    other = make_schema([numeric_of("x0", 0, 1), binary_of("ill", ["no", "yes"])])
    settings = {"target": "ill", "kernel": "linear", "C": 1.0, "max_rows": None}
    with pytest.raises(SchemaMismatchError):
        train(result, study, open_table(rows_path, other), rng=np.random.default_rng(0), **settings)


@pytest.mark.parametrize(
    ("attributes", "more", "says"),
    [
        ([categorical_of("colour", COLOURS)], {}, "no other can predict it"),
        (
            [{"name": f"x{i}", "type": "numeric", "centre": 0, "scale": 4} for i in range(4)],
            {"row_norm": {"include_sums": False}},
            "no binary or categorical",
        ),
    ],
)
def test_a_study_without_another_attribute_or_a_target_trains_nothing(
    tmp_path: Path, attributes: list[dict[str, Any]], more: dict[str, Any], says: str
) -> None:
    study = make_study("latent", attributes=attributes, **more)
    path = save_rows(make_rows(50), tmp_path / "rows.parquet")
    with pytest.raises(SettingError, match=says):
        fit(make_result(study, path), study, path, target=attributes[0]["name"])


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_saved_model_predicts_as_before(
    result: Result, study: Study, rows_path: Path, tmp_path: Path, kernel: str
) -> None:
    made = fit(result, study, rows_path, target="colour", kernel=kernel)
    write_model(pack_model(made), tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops")
    assert stat.S_IMODE((tmp_path / "model.skops").stat().st_mode) == 0o600
    assert again.schema == study.table
    assert (again.target, again.kernel, again.fit) == (made.target, made.kernel, made.fit)
    assert again.n_components == made.n_components
    outputs = []
    for name, used in (("before.csv", made), ("after.csv", again)):
        predict_file(used, rows_path, tmp_path / name)
        outputs.append((tmp_path / name).read_bytes())
    assert outputs[0] == outputs[1]


def test_a_model_that_stays_keeps_the_digest_of_its_mapping_and_another_one_is_told(
    result: Result, study: Study, rows_path: Path, tmp_path: Path
) -> None:
    text = "version: 1\nattributes: {x0: {column: x0, plus: 1}, colour: colour}\n"
    mappings = []
    for name, stated in (
        ("one", text),
        ("same", f"# as before\n{text}"),
        ("target", text.replace("colour: colour", f"colour: {{constant: {COLOURS[0]}}}")),
        ("other", text.replace("plus: 1", "plus: 2")),
    ):
        mappings.append(MappingPlace(tmp_path / f"{name}.yaml"))
        (tmp_path / f"{name}.yaml").write_text(stated)
    one, same, target, other = mappings
    table = open_table(local_files(rows_path).mapped(one), study.table)
    rng = np.random.default_rng(1)
    made = train(
        result, study, table, target="colour", kernel="linear", C=1.0, max_rows=None, rng=rng
    )
    assert len(made.mapping_sha256) == 64
    write_model(pack_model(made), tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops")
    assert again.mapping_sha256 == made.mapping_sha256
    for place, told in ((one, False), (same, False), (target, False), (other, True), (None, True)):
        found = predict_file(again, rows_path, tmp_path / "out.csv", mapping=place)
        assert found.other_mapping is told
        assert ("ANOTHER MAPPING" in prediction_text(found)) is told
    leaving = replace(made, label=Label.RELEASED, fit=None)
    assert b"mapping_sha256" not in pack_model(leaving)
    own = open_table(rows_path, study.table)
    assert digest_mapping(own.mapped, without="colour") == ""


class Foreign:
    """Stands for code that a model file should not bring along."""


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not a model"),
        (b"PK\x03\x04 broken", "not a model"),
        (skops.io.dumps({"metadata": "{}"}), "not a model"),
        (skops.io.dumps([1, 2]), "not a model"),
        (skops.io.dumps({"pipeline": Foreign()}), "holds .*Foreign"),
    ],
)
def test_file_that_is_no_model_of_ours_is_refused(
    tmp_path: Path, content: bytes, says: str
) -> None:
    path = tmp_path / "model.skops"
    path.write_bytes(content)
    with pytest.raises(ArtefactError, match=says):
        load_model(path)
    path.unlink()
    with pytest.raises(ArtefactError, match="cannot be read"):
        load_model(path)


def test_values_that_a_prediction_replaces_are_counted_as_for_training(
    model: Model, tmp_path: Path
) -> None:
    rows = make_rows(N_ROWS).to_pydict()
    rows["x0"] = [str(value).replace(".", ",") for value in rows["x0"]]
    rows["colour"][:7] = ["?"] * 7
    odd = save_rows(pa.table(rows), tmp_path / "odd.parquet")
    found = predict_file(model, odd, tmp_path / "out.parquet")
    counted = found.coded_by_rule.attributes
    assert (counted["x0"].count(FaultKind.TEXT), counted["colour"].by_rule) == (N_ROWS, 7)
    text = prediction_text(found)
    assert text.startswith("NOT READ: no value of x0 is a number")
    assert f"colour: 7 of {N_ROWS}" in text
    assert to_document(found)["coded_by_rule"]["attributes"]["x0"]["by_rule"] == N_ROWS


def test_predictions_are_the_same_for_a_file_in_another_format(
    model: Model, rows_path: Path, tmp_path: Path
) -> None:
    rows = make_rows(N_ROWS).to_pydict()
    numbers = [name for name, cells in rows.items() if isinstance(cells[0], float)]
    for name in numbers:
        rows[name] = [repr(value).replace(".", ",") for value in rows[name]]
    odd = tmp_path / "odd.csv"
    lines = [";".join(map(str, each)) for each in zip(*rows.values(), strict=True)]
    odd.write_text("\n".join([";".join(rows), *lines]) + "\n")
    outputs = [tmp_path / "as-usual.csv", tmp_path / "as-stated.csv"]
    usual = predict_file(model, rows_path, outputs[0])
    found = predict_file(model, odd, outputs[1], text_format=TextFormat(";", ","))
    assert numbers
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    assert found.coded_by_rule == usual.coded_by_rule


def test_predictions_do_not_need_the_target(model: Model, rows_path: Path, tmp_path: Path) -> None:
    bare = save_rows(make_rows(N_ROWS).drop_columns(["ill"]), tmp_path / "bare.parquet")
    with_target = predict_file(model, rows_path, tmp_path / "a.parquet")
    without = predict_file(model, bare, tmp_path / "b.parquet")
    assert with_target.accuracy == pytest.approx(report(model).training_accuracy)
    assert with_target.majority == report(model).majority
    assert (without.accuracy, without.majority) == (None, None)
    assert without.rows == N_ROWS
    found = pq.read_table(tmp_path / "a.parquet")
    assert found.column_names == ["row", "predicted"]
    assert found.equals(pq.read_table(tmp_path / "b.parquet"))
    assert found["row"].to_pylist() == list(range(1, N_ROWS + 1))
    assert set(found["predicted"].to_pylist()) == {"no", "yes"}
    assert read_metadata(tmp_path / "a.parquet")["label"] == Label.SITE_ONLY


def test_prediction_leaves_no_half_written_file(
    model: Model, rows_path: Path, tmp_path: Path
) -> None:
    with pytest.raises(SettingError, match=r"\.parquet, \.arrow, \.csv"):
        predict_file(model, rows_path, tmp_path / "out.xlsx")
    with pytest.raises(SettingError, match="is the data file"):
        predict_file(model, rows_path, rows_path)
    with pytest.raises(SettingError, match="cannot be written"):
        predict_file(model, rows_path, tmp_path / "nowhere" / "out.csv")
    with pytest.raises(DataError):
        predict_file(model, tmp_path / "none.csv", tmp_path / "out.csv")
    assert list(tmp_path.iterdir()) == []
