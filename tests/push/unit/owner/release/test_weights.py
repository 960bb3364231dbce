"""Models that may leave: what they cost, what they carry, and that they are drawn once."""

import io
import json
import math
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import skops.io

from dppca.common.analysis.estimators.base.weight_noise import STEP_BITS, weights_on_grid
from dppca.common.analysis.estimators.dpsvm import append_constant
from dppca.common.kernel.errors import LedgerError, SettingError
from dppca.common.kernel.privacy.accounting import Budget, PrivacyCost
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.sensitivity import Relation
from dppca.common.kernel.study import Study
from dppca.owner.commands.release_model import OpenedModel
from dppca.owner.ledger.database import open_ledger
from dppca.owner.ledger.entries import Reservation
from dppca.owner.records.table import open_table
from dppca.owner.release.weights import WeightRelease, plan_release, request_weights
from dppca.owner.site.config import load_site
from dppca.owner.site.kept_results import kept_result
from dppca.owner.synthesis.tables import read_metadata
from tests.support.latent_rows import make_rows, save_rows
from tests.support.ledgers import NOW, account_of, ledger_files
from tests.support.noise import seed_noise
from tests.support.sites import N_ROWS, OwnerSite, error_of, make_trained_site
from tests.support.studies import make_study

ASK = ("train", "site-test", "--target", "ill", "--method", "dp-svm")
BUDGET = Budget(Decimal(10), Decimal("1e-6"))


@pytest.fixture
def site(tmp_path: Path) -> OwnerSite:
    return make_trained_site(tmp_path / "site")[0]


def _made(site: OwnerSite, *more: str) -> Any:
    code, document = site.run(*ASK, *more, "--yes")
    assert code == 0, document
    return document


def _plan(folder: Path, study: Study, **changes: Any) -> WeightRelease:
    asked: dict[str, Any] = {"target": "ill", "epsilon": "1", "delta": None, "C": 0.01, **changes}
    request = request_weights(study, data_set="survey", **asked)
    result, digest = kept_result(load_site(folder), study)
    return plan_release(request, result, n_rows=N_ROWS, components_sha256=digest.hex())


def test_a_model_that_states_the_number_of_rows_is_refused_where_it_is_secret() -> None:
    study = make_study("latent", neighbours="added")
    with pytest.raises(SettingError, match="keeps the number of rows secret"):
        request_weights(study, data_set="survey", target="ill", epsilon="1", delta=None, C=0.01)


def test_a_model_of_people_whose_weights_differ_is_refused_as_its_number_is_secret() -> None:
    study = make_study("latent", unit="person", max_rows_per_person=None, rows_counted=3)
    with pytest.raises(SettingError, match="keeps the number of rows secret"):
        request_weights(study, data_set="survey", target="ill", epsilon="1", delta=None, C=0.01)


def _rows_of_people(most: int, *, side: str = "yes") -> pa.Table:
    """Rows of people with one row each, and of a last one with so many at one end."""
    rows = make_rows(N_ROWS).to_pydict()
    last = {"x0": 1e30, "x1": 1e30, "x2": 1e30, "x3": 1e30, "ill": side, "colour": "blue"}
    columns = {name: [*values[:-1], *[last[name]] * most] for name, values in rows.items()}
    people = [f"P{min(n, N_ROWS - 1)}" for n in range(N_ROWS - 1 + most)]
    return pa.table({**columns, "person": people})


def _site_of_people(folder: Path, rows: pa.Table) -> tuple[OwnerSite, Study]:
    changes = {"unit": "person", "max_rows_per_person": None}
    site, study = make_trained_site(folder, rows=rows, of_rows=_rows_of_people(1), **changes)
    policy = site.folder / "policy.yaml"
    policy.write_text(policy.read_text().replace("path: rows.csv", "path: rows.csv, key: person"))
    return site, study


@pytest.mark.parametrize("target", ["ill", "colour"])
def test_a_replaced_person_with_any_number_of_rows_moves_the_weights_as_one_row_does(
    tmp_path: Path, target: str
) -> None:
    weights, counts = [], [(1, "yes"), (1, "no"), (20, "yes"), (20, "no"), (300, "no")]
    for number, (most, side) in enumerate(counts):
        site, study = _site_of_people(tmp_path / f"{number}", _rows_of_people(most, side=side))
        table = open_table(site.folder / "rows.csv", study.table)
        request = request_weights(
            study, data_set="survey", target=target, epsilon="1", delta=None, C=0.5
        )
        result, digest = kept_result(load_site(site.folder), study)
        plan = plan_release(
            request, result, n_rows=table.n_rows, components_sha256=digest.hex()
        ).of_people(N_ROWS)
        plan = replace(plan, n_rows=table.n_rows)
        with pytest.raises(SettingError, match="have to be counted"):
            plan.read(table)
        with table.latest("person") as latest:
            weights.append(plan.prepare(plan.read(latest)))
    sens = plan.weights.calibration.sensitivity
    assert sens.relation is Relation.REPLACE_PERSON
    assert plan.weights.calibration.max_rows_per_person is None
    moved = [np.abs(a - b).astype(object) for a in weights for b in weights]
    assert max(each.sum() for each in moved) <= sens.l1
    assert max((each**2).sum() for each in moved) <= sens.l2_squared
    if target == "ill":
        one, other = weights[0] - weights[1], weights[2] - weights[3]
        tolerance = 4 * 0.01 * 4**STEP_BITS + 4  # of four solutions, and their rounding
        assert one.any(), "the two persons differ"
        assert np.abs(one - other).max() <= tolerance, "equal rows weigh as one"


def test_a_model_of_people_states_their_number_and_no_number_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipts, asked = [], [*ASK, "--epsilon", "1", "--yes"]
    for most in (1, 57):
        site, _ = _site_of_people(tmp_path / f"{most}", _rows_of_people(most))
        seed_noise(monkeypatch, seed=1)
        code, made = site.run(*asked)
        assert code == 0, made
        assert (made["rows"], made["counts"]) == (N_ROWS, "people")
        receipts.append(made["receipt"])
        output = str(tmp_path / f"found-{most}.parquet")
        rows = str(site.folder / "rows.csv")
        code, found = site.run(
            "predict", "--model", made["model"], "--data", rows, "--output", output
        )
        assert (code, found["rows"]) == (0, N_ROWS - 1 + most)
        code, verified = site.run("verify", made["model"])
        assert code == 0, verified
    assert (receipts[0]["relation"], receipts[0]["max_rows_per_person"]) == ("replace-person", None)
    drawn = ("weights_sha256", "release_id", "components_sha256")
    public = [{k: v for k, v in each.items() if k not in drawn} for each in receipts]
    assert public[0] == public[1]


@pytest.mark.parametrize("changed", [["--C", "0.02"], ["--target", "colour"], ["--epsilon", "2"]])
def test_another_request_is_another_charge(site: OwnerSite, changed: list[str]) -> None:
    first = _made(site, "--epsilon", "1")
    second = _made(site, "--epsilon", "1", *changed)
    assert first["release_id"] != second["release_id"]
    assert len(site.history.reservations) == 2


def test_the_receipt_says_what_was_charged_and_on_which_ground(site: OwnerSite) -> None:
    receipt = _made(site, "--epsilon", "1")["receipt"]
    reservation = site.history.reservations[0]
    assert receipt["ledger_sequence"] == reservation.sequence
    assert receipt["release_id"] == reservation.release_id.hex()
    assert (receipt["epsilon"], receipt["charged_epsilon"], receipt["delta"]) == ("1", "1", "0")
    assert (receipt["relation"], receipt["max_rows_per_person"]) == ("replace-one", 1)
    assert receipt["parameters"] == {"scale": receipt["l1"]}
    assert receipt["row_norm"] == math.sqrt(4 / 4 + 1)
    change = 2 * 0.01 * math.hypot(receipt["row_norm"], 1)
    assert change <= receipt["sensitivity"] <= 1.03 * change
    listed = site.run("budget")[1]
    assert listed["populations"][0]["remaining"] == "9"
    (release,) = listed["releases"]
    assert (release["study"], release["model"]) == ("site-test", "dp-svm for ill")
    assert (release["state"], release["rows"]) == ("stored", N_ROWS)


def test_nothing_in_the_file_is_computed_from_rows_but_the_noised_weights(site: OwnerSite) -> None:
    archive = skops.io.load(Path(_made(site, "--epsilon", "1")["model"]), trusted=[])
    assert set(archive) == {"metadata", "space", "state"}
    assert set(archive["space"]) == {"columns", "mean", "components"}
    assert set(archive["state"]) == {"classes_", "noised_"}
    metadata = json.loads(archive["metadata"])
    public = {"kind", "version", "label", "study_digest", "schema", "target", "method", "kernel"}
    public |= {"owner", "settings", "receipt", "scikit_learn", "software"}
    assert set(metadata) == public | {"fit"}
    assert metadata["fit"] is None
    text = json.dumps(metadata)
    assert not any(word in text for word in ("accuracy", "unlabelled", "converged"))


def test_all_noise_of_a_model_comes_from_the_operating_system(
    site: OwnerSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noised = []
    for number, seed in enumerate((1, 1, 2)):
        copy = site.copied_to(tmp_path / str(number))
        seed_noise(monkeypatch, seed=seed)
        archive = skops.io.load(Path(_made(copy, "--epsilon", "1")["model"]), trusted=[])
        noised.append(archive["state"]["noised_"].tolist())
    assert noised[0] == noised[1] != noised[2]


@pytest.mark.parametrize(("target", "machines"), [("ill", 1), ("colour", 3)])
def test_predictions_with_little_noise_are_mostly_right(
    tmp_path: Path, target: str, machines: int
) -> None:
    site, _ = make_trained_site(tmp_path / "site", budget='epsilon: "9000", delta: "0"')
    made = _made(site, "--epsilon", "9000", "--target", target, "--C", "3")
    assert made["receipt"]["n_machines"] == machines
    assert bool(made["split"]) == (machines > 1)
    output = tmp_path / "found.parquet"
    rows = str(site.folder / "rows.csv")
    code, found = site.run(
        "predict", "--model", made["model"], "--data", rows, "--output", str(output)
    )
    assert (code, found["rows"], found["label"]) == (0, N_ROWS, "site-only")
    assert found["accuracy"] > 0.8
    assert read_metadata(output)["label"] == Label.SITE_ONLY


class _Terminal(io.StringIO):
    """A steward who types what this holds."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("typed", "code", "entries"), [("n\n", 24, 0), ("y\n", 0, 2)])
def test_the_steward_is_told_the_charge_and_what_is_left_before_being_asked(
    site: OwnerSite,
    monkeypatch: pytest.MonkeyPatch,
    typed: str,
    code: int,
    entries: int,
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(sys, "stdin", _Terminal(typed))
    monkeypatch.setattr(
        "dppca.owner.commands.consent.click.echo", lambda text, **_: shown.append(text)
    )
    assert site.run(*ASK, "--epsilon", "1.5", "--target", "colour")[0] == code
    assert site.history.length == entries
    text = shown[0]
    for words in (
        "charged: epsilon 1.5",
        "epsilon 10 at delta 0: 10 left before, 8.5 after",
        "1/3 for each of 3 machines",
        "600 rows",
        "no person has more than 1 row",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        ([], 10, "epsilon is not given and has no default"),
        (["--epsilon", "1"], 24, "--yes"),
        (["--epsilon", "0"], 10, "epsilon is 0; it must be above 0"),
        (["--epsilon", "nan"], 10, "epsilon"),
        (["--epsilon", "0_5"], 10, "epsilon is '0_5'; it must be a decimal"),
        (["--epsilon", "1", "--delta", "0_1"], 10, "delta is '0_1'; it must be a decimal"),
        (["--epsilon", "1", "--delta", "1"], 10, "delta must be a decimal strictly between"),
        (["--epsilon", "1", "--delta", "1e-6"], 21, "delta 0"),
        (["--epsilon", "10.01"], 21, "dp-svm for ill of study site-test"),
        (["--epsilon", "1", "--C", "0"], 10, "C is 0"),
        (["--epsilon", "1", "--C", "1e200"], 10, "nearer to 1"),
        (["--epsilon", "1", "--C", "1e-60"], 10, "nearer to 1"),
        (["--epsilon", "1", "--kernel", "rbf"], 10, "dp-svm is linear"),
        (["--epsilon", "1", "--max-rows", "9"], 10, "trains on all rows"),
        (["--epsilon", "1", "--target", "x0"], 10, "x0 is numeric"),
        (["--epsilon", "1", "--data-set", "other"], 20, "other"),
        (["--epsilon", "1", "--method", "dppca-svm"], 10, "may not"),
        (["--method", "dppca-svm"], 10, "--yes consents to a charge"),
    ],
)
def test_what_cannot_be_is_refused_and_costs_nothing(
    site: OwnerSite, more: list[str], code: int, says: str
) -> None:
    consent = [] if says == "--yes" else ["--yes"]
    found, message = error_of(site.run(*ASK, *more, *consent))
    assert found == code
    assert says in message
    assert site.history.length == 0


def test_a_budget_that_went_while_a_model_was_trained_refuses_it_before_the_ledger_is_opened(
    site: OwnerSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = OpenedModel.prepare

    def charged_meanwhile(opened: OpenedModel, reading: Any) -> Any:
        most = PrivacyCost(Decimal("9.5"), Decimal(0))
        other = replace(
            opened.request,
            request_digest="ab" * 32,
            price=replace(opened.request.price, charge=most),
        )
        with open_ledger(opened.site.ledger, lock=opened.site.lock) as ledger:
            ledger.reserve(other, release_id=bytes(16), now=NOW)
        return prepare(opened, reading)

    monkeypatch.setattr(OpenedModel, "prepare", charged_meanwhile)
    monkeypatch.setattr("dppca.owner.release.run.open_ledger", None)
    assert error_of(site.run(*ASK, "--epsilon", "1", "--yes"))[0] == 21
    assert len(site.history.reservations) == 1


def test_a_folder_that_cannot_be_made_is_found_out_before_the_charge(site: OwnerSite) -> None:
    output = str(site.folder / "rows.csv" / "model.skops")
    assert error_of(site.run(*ASK, "--epsilon", "1", "--output", output, "--yes"))[0] == 10
    assert site.history.length == 0


@pytest.mark.parametrize("target", ["ill", "colour"])
def test_replacing_any_row_moves_the_exact_weights_by_no_more_than_the_noise_covers(
    tmp_path: Path, target: str
) -> None:
    site, study = make_trained_site(tmp_path / "site")
    plan = _plan(site.folder, study, target=target, C=0.5)
    rows = make_rows(N_ROWS)
    base = plan.prepare(plan.read(open_table(site.folder / "rows.csv", study.table)))
    sens = plan.weights.calibration.sensitivity
    for place, other in enumerate([(1e30, "yes", "blue"), (-9.0, "no", "red"), (0.0, None, "?")]):
        columns = rows.to_pydict()
        for name in ("x0", "x1", "x2", "x3"):
            columns[name][place] = other[0]
        columns["ill"][place], columns["colour"][place] = other[1], other[2]
        path = save_rows(pa.table(columns), tmp_path / "neighbour.parquet")
        moved = plan.prepare(plan.read(open_table(path, study.table))) - base
        assert np.abs(moved).sum() <= sens.l1
        assert int(np.square(moved).sum()) <= sens.l2_squared


def test_no_coded_row_leaves_the_public_ball_wherever_the_mean_is(tmp_path: Path) -> None:
    site, study = make_trained_site(tmp_path / "site")
    plan = _plan(site.folder, study)
    far = replace(plan.space, mean=np.full(7, 1e6))
    for columns in open_table(site.folder / "rows.csv", study.table).batches():
        for space in (plan.space, far):
            features = append_constant(space.project(study.table, columns), 1.0)
            largest = np.linalg.norm(features, axis=1).max()
            assert largest <= plan.weights.radius * (1 + 1e-12)
    assert study.table.largest_norm(without="ill") == math.sqrt(2)
    assert study.table.largest_norm(without="colour") == math.sqrt(5 / 4)


def test_a_person_with_several_rows_is_covered_by_as_much_more_noise(tmp_path: Path) -> None:
    site, once = make_trained_site(tmp_path / "once")
    schema = once.table.model_dump(mode="json", exclude_none=True)
    other, thrice = make_trained_site(
        tmp_path / "thrice", schema={**schema, "max_rows_per_person": 3}
    )
    scales = [
        _plan(folder, study).weights.calibration.law.width
        for folder, study in ((site.folder, once), (other.folder, thrice))
    ]
    assert scales[1] == 3 * scales[0]


def test_weights_are_the_exact_ones_and_integer_noise(tmp_path: Path) -> None:
    site, study = make_trained_site(tmp_path / "site")
    plan = _plan(site.folder, study)
    exact = plan.prepare(plan.read(open_table(site.folder / "rows.csv", study.table)))
    request = plan.request(account=account_of(budget=BUDGET), command="")
    reservation = Reservation(1, "now", bytes(16), request)
    drawn = [plan.draw(exact, reservation, entropy=SeededEntropy(s)) for s in (1, 1, 2)]
    assert drawn[0].receipt == drawn[1].receipt
    assert drawn[0].receipt.claims.weights_sha256 != drawn[2].receipt.claims.weights_sha256
    with pytest.raises(SettingError, match="another release"):
        _plan(site.folder, study, epsilon="2").draw(exact, reservation, entropy=SeededEntropy(1))


def test_a_request_is_no_study_and_is_stored_under_its_own_reservation(tmp_path: Path) -> None:
    site, study = make_trained_site(tmp_path / "site")
    plan = _plan(site.folder, study)
    assert plan.model_request.digest != study.digest
    exact = plan.prepare(plan.read(open_table(site.folder / "rows.csv", study.table)))
    path, lock = ledger_files(tmp_path)
    request = plan.request(account=account_of(budget=BUDGET), command="")
    with open_ledger(path, lock=lock, wait_s=0) as ledger:
        made = ledger.reserve(request, release_id=bytes(16), now=NOW)
        release = plan.draw(exact, made, entropy=SeededEntropy(1))
        with pytest.raises(LedgerError, match="without a reservation"):
            ledger.commit(replace(release, digest=study.digest), now=NOW)
        ledger.commit(release, now=NOW)
        assert ledger.stored(plan.model_request.digest).payload == release.content
        assert ledger.history().reservation_for(study.digest) is None


def test_rows_longer_than_planned_for_are_never_trained_on(tmp_path: Path) -> None:
    site, study = make_trained_site(tmp_path / "site")
    plan = _plan(site.folder, study).weights
    with pytest.raises(ValueError, match="longer than"):
        weights_on_grid(np.full((5, plan.D), 3.0), np.ones((5, 1)), plan)
