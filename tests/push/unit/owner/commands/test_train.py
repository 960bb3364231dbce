"""Every method by ``train``, exactly as far as its label allows."""

import re
import stat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest

import dppca.common.papers
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.labels import Label
from dppca.owner.commands import release_model
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.file import read_history
from dppca.owner.models.catalogue import IN_PYTHON, METHODS, Method, TrainOptions, resolve
from dppca.owner.models.loader import load_model
from dppca.owner.release import run
from dppca.owner.synthesis.tables import read_metadata
from tests.support.checkout import ROOT
from tests.support.latent_rows import make_rows
from tests.support.sites import N_ROWS, OwnerSite, error_of, make_trained_site

BUDGET = 'epsilon: "60", delta: "1e-6"'
GAUSSIAN = ("--epsilon", "2", "--delta", "1e-6")
RELEASED: dict[str, tuple[str, ...]] = {
    "dp-svm": ("--method", "dp-svm", "--epsilon", "2"),
    "dp-svm, gaussian": ("--method", "dp-svm", *GAUSSIAN),
}
SITE_ONLY: dict[str, tuple[str, ...]] = {
    "linear": ("--method", "dppca-svm"),
    "rbf": ("--kernel", "rbf"),
}


@pytest.fixture
def site(tmp_path: Path) -> OwnerSite:
    return make_trained_site(tmp_path / "site", budget=BUDGET)[0]


def _train(site: OwnerSite, *more: str, target: str = "ill") -> tuple[int, Any]:
    return site.run("train", "site-test", "--target", target, *more)


def _made(site: OwnerSite, *more: str, target: str = "ill") -> Any:
    code, document = _train(site, *more, target=target)
    assert code == 0, document
    return document


def _predictions(model: str, folder: Path, rows: Path) -> list[str]:
    """As in another folder, at nobody's site."""
    (folder / "elsewhere").mkdir(exist_ok=True)
    copy = folder / "elsewhere" / "model.skops"
    copy.write_bytes(Path(model).read_bytes())
    output = folder / "elsewhere" / "found.parquet"
    site = OwnerSite(folder / "elsewhere", "nobody")
    code, found = site.run(
        "predict", "--model", str(copy), "--data", str(rows), "--output", str(output)
    )
    assert (code, found["label"]) == (0, "site-only")
    assert read_metadata(output)["label"] == Label.SITE_ONLY
    return pa.parquet.read_table(output)["predicted"].to_pylist()


def test_every_method_of_the_papers_is_offered_or_named_with_its_class() -> None:
    offered = {"DPPCASVM", "DPSVM"}
    assert {f"{name.replace('-', '').upper()}" for name in METHODS} == offered
    others = set(dppca.common.papers.__all__) - {"Guarantee", "UnitBall", "Variant"}
    assert offered | set(IN_PYTHON.values()) == others
    assert not offered & set(IN_PYTHON.values())


@pytest.mark.parametrize("name", sorted(IN_PYTHON))
def test_a_method_that_is_not_offered_is_named_with_where_it_is(site: OwnerSite, name: str) -> None:
    code, message = error_of(_train(site, "--method", name))
    assert code == SettingError.exit_code
    assert f"{name} is not offered here" in message
    imported = re.search(r"`from dppca import (\w+)`", message)
    assert imported is not None
    assert hasattr(dppca, imported[1])
    page = re.search(r"\((docs/\S+\.md)\)", message)
    assert page is not None
    text = (ROOT / page[1]).read_text()
    assert f"`{imported[1]}`" in text


@pytest.mark.parametrize("target", ["colour", "ill"])
@pytest.mark.parametrize("name", sorted(RELEASED))
def test_a_model_that_may_leave_is_charged_once_and_stays_the_same_bytes(
    site: OwnerSite, tmp_path: Path, name: str, target: str
) -> None:
    made = _made(site, *RELEASED[name], "--yes", target=target)
    assert (made["label"], made["training_accuracy"]) == ("released", None)
    total = site.history.total("survey")
    assert [str(total.epsilon), str(total.rho)] == [made["charged_epsilon"], made["charged_rho"]]
    assert total.epsilon + total.rho > 0
    content = Path(made["model"]).read_bytes()
    assert stat.S_IMODE(Path(made["model"]).stat().st_mode) == 0o600
    (site.folder / "rows.csv").rename(tmp_path / "rows.csv")
    again = _made(site, *RELEASED[name], target=target)  # neither rows nor consent are needed
    assert again["already_stored"]
    assert Path(again["model"]).read_bytes() == content
    assert len(site.history.reservations) == 1
    model = load_model(Path(made["model"]))
    assert model.label is Label.RELEASED
    found = _predictions(made["model"], tmp_path, tmp_path / "rows.csv")
    assert len(found) == N_ROWS
    assert set(found) <= set(model.target_attribute.labels)


def test_the_ledger_is_read_once_before_the_rows_and_once_after_them(
    site: OwnerSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[Path]()

    def counted(path: Path) -> History:
        read.append(path)
        return read_history(path)

    monkeypatch.setattr(release_model, "read_history", counted)
    monkeypatch.setattr(run, "read_history", counted)
    _made(site, *RELEASED["dp-svm"], "--yes")
    assert read == [site.folder / "ledger.sqlite"] * 2


@pytest.mark.parametrize("name", sorted(SITE_ONLY))
def test_a_model_that_stays_costs_nothing_and_cannot_be_published(
    site: OwnerSite, tmp_path: Path, name: str
) -> None:
    made = _made(site, *SITE_ONLY[name])
    assert (made["label"], made["charged_epsilon"], made["charged_rho"]) == ("site-only", "0", "0")
    assert site.history.length == 0
    assert load_model(Path(made["model"])).label is Label.SITE_ONLY
    assert len(_predictions(made["model"], tmp_path, site.folder / "rows.csv")) == N_ROWS
    code, message = error_of(_train(site, *SITE_ONLY[name], "--publish"))
    assert code == 2
    assert "No such option" in message


def _with_target(labels: list[Any], n_rows: int = N_ROWS) -> pa.Table:
    return make_rows(n_rows).set_column(4, "ill", pa.array(labels))


@pytest.mark.parametrize("name", sorted(RELEASED))
def test_a_target_of_one_label_makes_a_model_all_the_same(tmp_path: Path, name: str) -> None:
    """Whether a release happens must not depend on a row (docs/explanation/privacy.md)."""
    rows = _with_target(["yes"] * (N_ROWS - 2) + [None, "?"])
    site, _ = make_trained_site(tmp_path / "site", budget=BUDGET, rows=rows)
    made = _made(site, *RELEASED[name], "--yes")
    assert made["rows"] == made["receipt"]["n_rows"] == N_ROWS
    assert len(site.history.commitments) == 1
    assert len(_predictions(made["model"], tmp_path, site.folder / "rows.csv")) == N_ROWS


@pytest.mark.parametrize("options", sorted(SITE_ONLY.values()))
def test_a_target_of_one_label_teaches_a_model_that_stays_nothing(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    rows = _with_target(["yes"] * (N_ROWS - 1) + [None])
    site, _ = make_trained_site(tmp_path / "site", budget=BUDGET, rows=rows)
    code, message = error_of(_train(site, *options))
    assert (code, site.history.length) == (13, 0)
    assert "fewer than two labels of ill occur" in message


@pytest.mark.parametrize("options", sorted([*RELEASED.values(), *SITE_ONLY.values()]))
def test_fewer_rows_than_columns_or_components_are_refused_before_any_charge(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    site, _ = make_trained_site(tmp_path / "site", budget=BUDGET, components={"count": 5})
    pa.csv.write_csv(make_rows(3), site.folder / "rows.csv")
    code, message = error_of(_train(site, *options))
    assert (code, site.history.length) == (13, 0)
    assert "3 rows and 5 components" in message or "n_samples=3 is below n_features=7" in message


@pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
def test_no_option_changes_the_label_of_a_method(method: Method) -> None:
    assert resolve(TrainOptions("nltcs", "outside", method.name)).label is method.label
