"""``dppca-owner report``: a page that stays, and a summary that may leave and is charged once."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from dppca.common.errors import ArtefactError, SchemaMismatchError, SettingError
from dppca.common.privacy.noise.entropy import SeededEntropy
from dppca.owner.ledger.entries import Reservation
from dppca.owner.records import open_table
from dppca.owner.release.summary import (
    Counts,
    SummaryRelease,
    SummaryRequest,
    cell_sizes,
    exact_counts,
    read_summary,
    request_summary,
)
from dppca.owner.synthesis.report.comparison import code_table
from tests.support.latent_rows import make_rows, save_rows
from tests.support.ledgers import account_of
from tests.support.sites import N_ROWS, OwnerSite, make_trained_site
from tests.support.studies import make_study

STUDY = make_study("latent")
ASK = ("report", "site-test", "--release", "--epsilon", "2", "--yes")
DIGEST = "ab" * 32


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> OwnerSite:
    site = make_trained_site(tmp_path_factory.mktemp("made") / "site")[0]
    assert site.run("synthesize", "site-test", "--rows", "400")[0] == 0
    return site


@pytest.fixture
def site(made: OwnerSite, tmp_path: Path) -> OwnerSite:
    return made.copied_to(tmp_path / "site")


def _fails(answer: tuple[int, Any], code: int, name: str) -> str:
    assert answer[0] == code, answer
    assert answer[1]["error"]["class"] == name
    message: str = answer[1]["error"]["message"]
    return message


def test_a_report_is_a_page_at_the_site_and_charges_nothing(site: OwnerSite) -> None:
    code, document = site.run("report", "site-test")
    assert code == 0
    assert document["label"] == "site-only"
    assert (document["n_real"], document["n_synthetic"]) == (N_ROWS, 400)
    assert [each["target"] for each in document["accuracies"]] == ["ill", "colour"]
    assert all(each["trained_on_coded"] is not None for each in document["accuracies"])
    assert len(document["marginals"]) == 6
    assert len(document["pairs"]) == 15
    assert len(document["pair_summary"]["worst"]) == 10
    found = [each["found"] for each in document["pairs"]]
    assert document["pair_summary"]["mean"] == pytest.approx(sum(found) / 15)
    assert document["pair_summary"]["worst"][0]["found"] == max(found)
    page = Path(document["page"])
    assert page.name == "report.html"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    text = page.read_text()
    assert "SITE-ONLY" in text
    assert "colour=red" in text
    assert document["relations"]["pairs"] == 15
    assert document["relations"]["summary"] in text
    assert text.count('src="data:image/png;base64,') == 2
    assert not (site.folder / "ledger.sqlite").exists()


def test_another_file_another_target_and_another_page(site: OwnerSite, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    pa.csv.write_csv(make_rows(50, seed=2), other)
    page = tmp_path / "pages" / "mine.html"
    code, document = site.run(
        *("report", "site-test", "--synthetic", str(other), "--target", "colour"),
        *("--output", str(page)),
    )
    assert code == 0
    assert document["n_synthetic"] == 50
    assert [(a["target"], a["trained_on_coded"]) for a in document["accuracies"]] == [
        ("colour", None)
    ]
    assert page.is_file()


def test_a_report_cannot_be_published(site: OwnerSite) -> None:
    message = _fails(site.run("report", "site-test", "--publish"), 22, "LabelError")
    assert "site-only" in message
    assert not list(site.folder.glob("studies/*/report.html"))


def test_without_synthetic_rows_there_is_nothing_to_report(tmp_path: Path) -> None:
    site = make_trained_site(tmp_path / "site")[0]
    answer = site.run("report", "site-test")
    assert answer[0] != 0
    assert answer[1]["error"]["class"] == "NotReadyError"
    assert "dppca-owner synthesize site-test" in answer[1]["error"]["message"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--epsilon", "1"),
        ("--yes",),
        ("--target", "x0"),
        ("--target", "ill", "--target", "ill"),
        ("--release", "--yes"),
        ("--release", "--epsilon", "0", "--yes"),
        ("--release", "--epsilon", "-1", "--yes"),
        ("--release", "--epsilon", "1", "--delta", "1", "--yes"),
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_refused_before_anything_is_charged(
    site: OwnerSite, arguments: tuple[str, ...]
) -> None:
    _fails(site.run("report", "site-test", *arguments), 10, "SettingError")
    assert not (site.folder / "ledger.sqlite").exists()


def test_a_summary_is_charged_once_and_written_again_as_it_is(site: OwnerSite) -> None:
    code, made = site.run(*ASK)
    assert code == 0
    assert (made["label"], made["already_stored"]) == ("released", False)
    assert (made["epsilon"], made["charged_epsilon"], made["rows"]) == ("2", "2", N_ROWS)
    path = Path(made["summary"])
    content = path.read_bytes()
    path.unlink()
    code, again = site.run(*ASK)
    assert (code, again["already_stored"]) == (0, True)
    assert path.read_bytes() == content
    assert made["coded_by_rule"]["label"] == "site-only"
    as_stored = {"already_stored": True, "coded_by_rule": None, "seconds": 0}
    assert {**again, "seconds": 0} == {**made, **as_stored}
    history = site.history
    assert history.total("survey").epsilon == Decimal(2)
    assert len(history.reservations) == 1
    summary = read_summary(content)
    assert summary["label"] == "released"
    # 6 attributes and 2 targets: a row changes the counts by at most 14.
    assert (summary["receipt"]["l1"], summary["receipt"]["scale"]) == (14, 7)
    ill = summary["accuracies"][0]
    assert ill["target"] == "ill"
    assert ill["trained_on_synthetic"] > 0.6


def test_other_synthetic_rows_are_another_release(site: OwnerSite) -> None:
    assert site.run(*ASK)[0] == 0
    assert site.run("synthesize", "site-test", "--rows", "401")[0] == 0
    assert site.run(*ASK)[0] == 0
    assert site.history.total("survey").epsilon == Decimal(4)


def test_a_summary_needs_consent_and_a_budget(site: OwnerSite) -> None:
    _fails(site.run(*ASK[:-1]), 24, "ConsentError")
    large = ("report", "site-test", "--release", "--epsilon", "11", "--yes")
    _fails(site.run(*large), 21, "BudgetExceededError")
    assert not site.history.reservations


def test_only_released_rows_of_the_studys_schema_are_summarized(
    site: OwnerSite, tmp_path: Path
) -> None:
    plain = save_rows(make_rows(50), tmp_path / "plain.parquet")
    answer = site.run(*ASK, "--synthetic", str(plain))
    assert answer[1]["error"]["class"] == "ArtefactError"
    kept = site.folder / "studies" / "site-test" / "synthetic-decoded.parquet"
    table = pa.parquet.read_table(kept)
    document = json.loads(table.schema.metadata[b"dppca"])
    for change, expected in (
        ({"label": "site-only"}, "LabelError"),
        ({"schema_digest": DIGEST}, "SchemaMismatchError"),
    ):
        changed = tmp_path / "changed.parquet"
        metadata = {b"dppca": json.dumps(document | change).encode()}
        pa.parquet.write_table(table.replace_schema_metadata(metadata), changed)
        answer = site.run(*ASK, "--synthetic", str(changed))
        assert answer[1]["error"]["class"] == expected
    assert not (site.folder / "ledger.sqlite").exists()


def _request(**changes: Any) -> SummaryRequest:
    given: dict[str, Any] = {
        "data_set": "survey",
        "synthetic_sha256": DIGEST,
        "targets": ("ill", "colour"),
        "epsilon": "1",
        "delta": None,
        **changes,
    }
    return request_summary(STUDY, **given)


def test_the_same_request_has_the_same_digest_and_any_other_another() -> None:
    requests = [
        _request(),
        _request(data_set="other"),
        _request(synthetic_sha256="cd" * 32),
        _request(targets=("colour", "ill")),
        _request(epsilon="2"),
        _request(delta="1e-6"),
    ]
    assert _request(epsilon="1.0").digest == requests[0].digest
    assert len({request.digest for request in requests}) == len(requests)
    assert STUDY.digest not in {request.digest for request in requests}


def test_one_replaced_row_changes_the_counts_by_no_more_than_the_sensitivity(
    tmp_path: Path,
) -> None:
    request, rows = _request(), make_rows(40)
    synthetic = code_table(
        open_table(save_rows(make_rows(200, 1), tmp_path / "s.parquet"), STUDY.table),
        np.random.default_rng(0),
    )
    sens = request.calibration.sensitivity

    def counts(table: pa.Table) -> Any:
        path = save_rows(table, tmp_path / "rows.parquet")
        return exact_counts(request, open_table(path, STUDY.table), synthetic)

    first = counts(rows)
    assert first[: sum(cell_sizes(STUDY))].sum() == 40 * 6
    largest = 0
    others = make_rows(60, 5)
    for index in range(60):
        table = pa.concat_tables([rows.slice(1), others.slice(index, 1)])
        # The order of rows does not matter to counts, so this is one row replaced.
        change = counts(table) - first
        assert np.abs(change).sum() <= sens.l1
        assert (change**2).sum() <= sens.l2_squared
        largest = max(largest, int(np.abs(change).sum()))
    assert largest >= sens.l1 - 2


def test_noise_of_a_summary_has_the_scale_it_is_charged_for(tmp_path: Path) -> None:
    request = _request(epsilon="0.5")
    path = save_rows(make_rows(100), tmp_path / "rows.parquet")
    table = open_table(path, STUDY.table)
    synthetic = code_table(table, np.random.default_rng(0))
    exact = exact_counts(request, table, synthetic)
    draw = _drawing(request, table, exact, synthetic)
    noise = np.concatenate([draw(seed) - exact for seed in range(300)])
    scale = request.calibration.scale
    assert scale == 28
    # A discrete Laplace's variance is 2 e^(1/b) / (e^(1/b) - 1)^2; 12,000 draws, fixed seeds.
    step = np.exp(1 / scale)
    assert noise.var() == pytest.approx(2 * step / (step - 1) ** 2, rel=0.06)
    assert abs(noise.mean()) < 1.5


def _drawing(
    request: SummaryRequest, table: Any, exact: Any, synthetic: Any
) -> Callable[[int], Any]:
    from dppca.common.privacy.accounting import Budget

    release = SummaryRelease(request, table)
    charge = release.request(account=account_of(budget=Budget(Decimal(9), Decimal(0))), command="")
    counts = Counts(exact, 100, synthetic)
    reservation = Reservation(1, "2026-01-01T00:00:00+00:00", bytes(16), charge)

    def draw(seed: int) -> Any:
        drawn = release.draw(counts, reservation, entropy=SeededEntropy(seed))
        return np.array(read_summary(drawn.payload())["noised_counts"])

    return draw


def test_a_summary_is_drawn_for_its_own_reservation_and_shape_only(tmp_path: Path) -> None:
    request = _request()
    path = save_rows(make_rows(50), tmp_path / "rows.parquet")
    table = open_table(path, STUDY.table)
    synthetic = code_table(table, np.random.default_rng(0))
    exact = exact_counts(request, table, synthetic)
    with pytest.raises(SettingError, match="counts for"):
        _drawing(request, table, exact[:-1], synthetic)(1)
    draw = _drawing(_request(epsilon="3"), table, exact, synthetic)
    other = _request(epsilon="4")
    reservation = Reservation(
        1,
        "2026-01-01T00:00:00+00:00",
        bytes(16),
        SummaryRelease(request, table).request(account=account_of(budget=_budget()), command=""),
    )
    with pytest.raises(SettingError, match="another release"):
        SummaryRelease(other, table).draw(
            Counts(exact, 50, synthetic), reservation, entropy=SeededEntropy(1)
        )
    assert draw(1).shape == exact.shape
    other_schema = make_study(
        "latent",
        schema={
            "max_rows_per_person": 1,
            "attributes": [
                {"name": "x0", "type": "numeric", "lower": 0, "upper": 1},
                {"name": "x1", "type": "numeric", "lower": 0, "upper": 1},
            ],
        },
    ).table
    with pytest.raises(SchemaMismatchError):
        exact_counts(request, open_table(path, other_schema), synthetic)


def _budget() -> Any:
    from dppca.common.privacy.accounting import Budget

    return Budget(Decimal(9), Decimal(0))


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b'{"noised_counts": ["x"]}', b'{"noised_counts": [1], "kind": "other"}'],
    ids=["nothing", "list", "empty", "text", "other"],
)
def test_what_is_no_summary_is_refused(content: bytes) -> None:
    with pytest.raises(ArtefactError):
        read_summary(content)


def test_a_changed_count_is_found(site: OwnerSite) -> None:
    made = site.run(*ASK)[1]
    document = json.loads(Path(made["summary"]).read_bytes())
    document["noised_counts"][3] += 1
    with pytest.raises(ArtefactError, match="counts were changed"):
        read_summary(json.dumps(document).encode())
