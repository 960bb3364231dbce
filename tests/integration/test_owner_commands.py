"""An owner's commands against a real curator."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

from common.study import Study
from common.transport.tls import Role
from common.wire import federation_pb2 as pb
from tests.support.authority import new_authority
from tests.support.daemon import Hub, write_credentials
from tests.support.hub import ATTRIBUTES, make_study
from tests.support.owner_site import OwnerSite, make_site

pytestmark = pytest.mark.integration
NUMBERS = count()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("hub")).start()
    yield hub
    hub.stop()


def _site(hub: Hub, folder: Path, name: str = "") -> OwnerSite:
    name = name or f"site-{next(NUMBERS)}"
    return make_site(
        folder / name,
        name=name,
        curator=hub.address,
        credentials=hub.authority.issue(Role.OWNER, name),
    )


@pytest.fixture
def site(hub: Hub, tmp_path: Path) -> OwnerSite:
    return _site(hub, tmp_path)


def _study(hub: Hub, *owners: OwnerSite, **changes: Any) -> Study:
    names = [owner.name for owner in owners]
    study = make_study(**{"name": f"study-{next(NUMBERS)}", "owners": names, **changes})
    hub.operator().create(study)
    return study


def _fails(answer: tuple[int, Any]) -> tuple[int, str, str]:
    code, document = answer
    return code, document["error"]["class"], document["error"]["message"]


class _Terminal(io.StringIO):
    """A steward who types what this holds."""

    def isatty(self) -> bool:
        return True


# --- review and consent


def test_a_review_shows_what_would_leave_and_leaves_no_trace(hub: Hub, site: OwnerSite) -> None:
    study = _study(hub, site)
    code, found = site.run("review", study.name)
    assert code == 0
    assert (found["rows"], found["entries"]) == (200, study.table.layout.n_entries)
    assert found["bytes"] == 8 * found["entries"]
    assert (found["epsilon"], found["charged_epsilon"], found["charged_rho"]) == ("1", "1", "0")
    assert (found["budget"]["remaining_before"], found["budget"]["remaining_after"]) == ("3", "2")
    assert found["forecast"]["noise_edge"] > 0
    assert not (site.folder / "ledger.sqlite").exists()


def test_without_a_terminal_consent_has_to_be_given_beforehand(hub: Hub, site: OwnerSite) -> None:
    study = _study(hub, site)
    code, name, message = _fails(site.run("contribute", study.name))
    assert (code, name) == (24, "ConsentError")
    assert "--yes" in message
    assert not (site.folder / "ledger.sqlite").exists()


def test_a_steward_who_declines_is_charged_nothing(
    hub: Hub, site: OwnerSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = _study(hub, site)
    monkeypatch.setattr(sys, "stdin", _Terminal("n\n"))
    assert _fails(site.run("contribute", study.name))[:2] == (24, "ConsentError")
    assert not (site.folder / "ledger.sqlite").exists()


def test_a_steward_who_agrees_contributes(
    hub: Hub, site: OwnerSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = _study(hub, site)
    monkeypatch.setattr(sys, "stdin", _Terminal("y\n"))
    code, done = site.run("contribute", study.name)
    assert (code, done["rows"], done["already_stored"]) == (0, 200, False)
    assert site.history.length == 3


def test_a_second_contribution_is_the_first_one_again(hub: Hub, site: OwnerSite) -> None:
    study = _study(hub, site)
    first = site.run("contribute", study.name, "--yes")[1]
    code, second = site.run("contribute", study.name)
    assert (code, second["already_stored"]) == (0, True)
    assert second["release_id"] == first["release_id"]
    assert site.run("budget")[1]["data_sets"][0]["spent"] == "1"


# --- what is refused, with nothing charged


def test_a_study_file_that_differs_names_the_attribute_and_no_value(
    hub: Hub, site: OwnerSite
) -> None:
    study = _study(hub, site)
    document = json.loads(study.canonical_bytes())
    document["schema"]["attributes"][0]["upper"] = 91.25
    document["quorum"] = 1
    file = site.folder / "mine.yaml"
    file.write_text(yaml.safe_dump(document))
    for command in (["review"], ["contribute", "--yes"]):
        code, name, message = _fails(site.run(*command, study.name, "--study-file", str(file)))
        assert (code, name) == (12, "SchemaMismatchError")
        assert "attribute age" in message
        assert "quorum" in message
        assert "91.25" not in message
    file.write_text(yaml.safe_dump(json.loads(study.canonical_bytes())))
    assert site.run("review", study.name, "--study-file", str(file))[0] == 0


def test_a_study_that_does_not_name_this_owner_is_no_study(
    hub: Hub, site: OwnerSite, tmp_path: Path
) -> None:
    other = _study(hub, _site(hub, tmp_path))
    for name in (other.name, "absent"):
        assert _fails(site.run("contribute", name, "--yes"))[:2] == (43, "UnknownStudyError")


def test_a_study_that_was_aborted_takes_nothing_and_costs_nothing(
    hub: Hub, site: OwnerSite
) -> None:
    study = _study(hub, site)
    hub.operator().admin.AbortStudy(pb.AbortStudyRequest(name=study.name, reason="x"), timeout=5)
    for command in (["contribute", "--yes"], ["components"]):
        assert _fails(site.run(*command, study.name))[:2] == (44, "StudyStateError")
    assert not (site.folder / "ledger.sqlite").exists()


def test_more_rows_than_a_study_allows_cost_nothing(hub: Hub, site: OwnerSite) -> None:
    study = _study(hub, site, max_rows=199)
    assert _fails(site.run("contribute", study.name, "--yes"))[:2] == (23, "RangeError")
    assert not (site.folder / "ledger.sqlite").exists()


def test_a_gaussian_study_is_refused_by_a_budget_without_delta(hub: Hub, site: OwnerSite) -> None:
    gaussian = {"mechanism": "gaussian", "epsilon": "1.0", "delta": "1e-6"}
    study = _study(hub, site, privacy=gaussian)
    assert site.run("review", study.name)[1]["budget"]["admitted"] is False
    answer = site.run("contribute", study.name, "--yes")
    assert _fails(answer)[:2] == (21, "BudgetExceededError")


def test_data_without_the_studys_columns_cost_nothing(hub: Hub, site: OwnerSite) -> None:
    other = {"name": "height", "type": "numeric", "lower": 0, "upper": 3}
    study = _study(hub, site, schema={"attributes": [*ATTRIBUTES, other]})
    code, name, message = _fails(site.run("contribute", study.name, "--yes"))
    assert (code, name) == (13, "DataError")
    assert "height" in message
    assert site.run("doctor")[0] == 13
    assert not (site.folder / "ledger.sqlite").exists()


def test_rows_that_do_not_conform_are_coded_and_sent(hub: Hub, site: OwnerSite) -> None:
    study = _study(hub, site)
    with (site.folder / "rows.csv").open("a") as file:
        file.write("inf,Zebra,\nabc,,other\n")
    assert site.run("check", study.name)[0] == 14
    code, done = site.run("contribute", study.name, "--yes")
    assert (code, done["rows"]) == (0, 202)


def test_a_curator_of_another_authority_is_not_spoken_to(hub: Hub, site: OwnerSite) -> None:
    write_credentials(site.folder, new_authority().issue(Role.OWNER, site.name))
    code, name, message = _fails(site.run("contribute", "any", "--yes"))
    assert (code, name) == (41, "IdentityError")
    assert "doctor" in message


def test_a_study_whose_deadline_has_passed_costs_nothing(
    hub: Hub, site: OwnerSite, tmp_path: Path
) -> None:
    deadline = datetime.now(UTC) + timedelta(seconds=1)
    other = _site(hub, tmp_path)
    study = _study(hub, site, other, quorum=1, deadline=deadline)
    assert other.run("contribute", study.name, "--yes")[0] == 0
    code, result = other.run("components", study.name, "--wait", "20")
    assert (code, result["missing"]) == (0, [site.name])
    answer = site.run("contribute", study.name, "--yes")
    assert _fails(answer)[:2] == (44, "StudyStateError")
    assert not (site.folder / "ledger.sqlite").exists()


# --- results


def test_components_come_once_everybody_has_contributed(
    hub: Hub, site: OwnerSite, tmp_path: Path
) -> None:
    other = _site(hub, tmp_path)
    study = _study(hub, site, other)
    assert site.run("contribute", study.name, "--yes")[0] == 0
    code, name, message = _fails(site.run("components", study.name, "--wait", "0.2"))
    assert (code, name) == (50, "NotReadyError")
    assert other.name in message
    assert other.run("contribute", study.name, "--yes")[0] == 0
    copy = tmp_path / "copies" / "components.npz"
    code, found = site.run("components", study.name, "--wait", "20", "--output", str(copy))
    assert code == 0
    assert (found["count"], found["missing"], found["label"]) == (2, [], "released")
    assert sorted(found["contributed"]) == sorted([site.name, other.name])
    assert found["bytes"] == copy.stat().st_size
    assert len(found["eigenvalues"]) == study.table.layout.n_columns
    assert site.run("components", study.name)[1]["path"].endswith("components.npz")


@pytest.fixture
def finished(hub: Hub, site: OwnerSite) -> tuple[OwnerSite, Study]:
    """A site that has the components of a study it was alone in."""
    study = _study(hub, site)
    assert site.run("contribute", study.name, "--yes")[0] == 0
    assert site.run("components", study.name, "--wait", "20")[0] == 0
    return site, study


def test_synthetic_rows_are_drawn_and_published_and_may_be_published_again(
    finished: tuple[OwnerSite, Study],
) -> None:
    site, study = finished
    code, made = site.run("synthesize", study.name, "--publish")
    assert (code, made["rows"], made["published"]) == (0, 200, ["coded", "decoded"])
    files = {form: Path(path).read_bytes() for form, path in made["forms"].items()}
    code, again = site.run("synthesize", study.name, "--publish")
    assert (code, again["bytes"]) == (0, made["bytes"])
    assert {form: Path(path).read_bytes() for form, path in again["forms"].items()} == files


def test_other_rows_than_those_published_are_refused(finished: tuple[OwnerSite, Study]) -> None:
    site, study = finished
    assert site.run("synthesize", study.name, "--form", "coded", "--publish")[0] == 0
    answer = site.run("synthesize", study.name, "--rows", "7", "--form", "coded", "--publish")
    assert _fails(answer)[:2] == (45, "ConflictError")


def test_a_classifier_is_trained_and_used_at_the_site(finished: tuple[OwnerSite, Study]) -> None:
    site, study = finished
    code, made = site.run("train", study.name, "--target", "sex")
    assert (code, made["label"]) == (0, "site-only")
    output = site.folder / "predicted.csv"
    code, found = site.run(
        *("predict", "--model", made["model"]),
        *("--data", str(site.folder / "rows.csv"), "--output", str(output)),
    )
    assert (code, found["rows"]) == (0, 200)
    assert 0 <= found["accuracy"] <= 1


def test_components_that_claim_another_release_of_this_site_are_refused(
    finished: tuple[OwnerSite, Study],
) -> None:
    site, study = finished
    (site.folder / "ledger.sqlite").unlink()
    code, name, message = _fails(site.run("components", study.name))
    assert (code, name) == (15, "ArtefactError")
    assert "ledger does not hold" in message


def test_doctor_says_which_study_waits_and_which_data_set_fits(hub: Hub, site: OwnerSite) -> None:
    study = _study(hub, site)
    code, document = site.run("doctor")
    assert code == 0
    text = json.dumps(document)
    assert f"waiting for this site: {study.name}" in text
    assert "survey (200 rows)" in text
