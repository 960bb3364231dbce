"""Studies in one process: the parties' own steps, repeats by noise alone, masked sums."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import yaml

from dppca.common.kernel.errors import SettingError, StudyError
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.release import calibrate, draw
from dppca.common.kernel.schema.frames import read_frame
from dppca.common.shell.console import run
from dppca.deploy.simulation.aggregation import Aggregation, choose_aggregation, write_draft
from dppca.deploy.simulation.cli import cli
from dppca.deploy.simulation.containers.topology import Topology, compose_text
from dppca.deploy.simulation.demo import demo_study
from dppca.deploy.simulation.experiment import ExperimentRequest, with_owners
from dppca.deploy.simulation.in_memory import make_parties, run_study
from dppca.deploy.simulation.redraws import Draw, draw_again
from dppca.owner.records.table import moments_of_table, open_table
from tests.support.latent_rows import make_rows, save_rows
from tests.support.masked import make_masked_study
from tests.support.noise import seed_noise
from tests.support.studies import make_study

NOW = datetime(2026, 5, 1, tzinfo=UTC)
OWNERS = ["north", "south"]
STUDY = make_study("latent", owners=OWNERS, components={"count": 2})
ROWS = {name: make_rows(200, seed) for seed, name in enumerate(OWNERS)}


def test_the_pooled_sums_are_what_two_sites_would_release(tmp_path: Path) -> None:
    schema, noise, entropy = STUDY.table, calibrate(STUDY), SeededEntropy(7)
    expected = np.zeros(schema.layout.n_entries, np.int64)
    for name in OWNERS:
        moments = moments_of_table(
            open_table(save_rows(ROWS[name], tmp_path / f"{name}.parquet"), schema), schema
        )
        expected += draw(
            STUDY, noise, moments, release_id=entropy.bytes(16), ledger_sequence=1, entropy=entropy
        ).packed
    sums = {name: accumulate_moments(schema, read_frame(ROWS[name], schema)) for name in OWNERS}
    parties = make_parties(STUDY, None, entropy=SeededEntropy(1))
    result, request = run_study(parties, sums, entropy=SeededEntropy(7), now=NOW)
    assert np.array_equal(result.pooled, expected)
    assert [share.owner for share in result.header.shares] == OWNERS
    assert request.price == noise.price


def test_a_masked_sum_is_opened_to_the_sum_of_what_was_noised() -> None:
    owners = [f"site-{place}" for place in range(5)]
    study = make_study("latent", owners=owners, components={"count": 2}, epsilon="1e6")
    entropy = SeededEntropy(3)
    parties = make_parties(study, Aggregation(1, 4, 1), entropy=entropy)
    schema = parties.study.table
    sums = {
        name: accumulate_moments(schema, read_frame(make_rows(100, seed), schema))
        for seed, name in enumerate(owners)
    }
    result, _ = run_study(parties, sums, entropy=entropy, now=NOW)
    exact = sum(each.packed for each in sums.values())
    noise = calibrate(parties.study)
    assert np.abs(result.pooled - exact).max() < 60 * noise.law.width
    assert result.header.n_rows == 500
    assert [*parties.secrets] == owners[:4]


def test_a_study_whose_deadline_has_passed_does_not_begin() -> None:
    late = make_study("latent", owners=OWNERS, deadline="2026-04-30T00:00:00+00:00")
    parties = make_parties(late, None, entropy=SeededEntropy(1))
    with pytest.raises(StudyError, match="deadline"):
        run_study(parties, {}, entropy=SeededEntropy(1), now=NOW)


FALSE_ALARMS = 0.0  # all noise has a seed


def test_draws_differ_by_noise_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    request = ExperimentRequest(
        command="demo",
        study=make_study("latent", owners=["alpha", "beta"]),
        data=save_rows(make_rows(900), tmp_path / "rows.parquet"),
        target="ill",
        seed=3,
        split="iid",
        output=tmp_path / "unused",
    )

    def draw(seed: int) -> list[Draw]:
        seed_noise(monkeypatch, seed=seed)
        return draw_again(request, count=3, on_draw=lambda: told.append(seed))

    told: list[int] = []
    draws = draw(1)
    assert told == [1, 1, 1]
    assert draw(1) == draws
    assert draw(2) != draws
    assert len({each.utility.tstr_accuracy for each in draws}) > 1
    assert len({(each.utility.trtr_accuracy, each.utility.majority) for each in draws}) == 1
    for each in draws:
        assert list(each.at_home) == ["alpha", "beta"]
        assert all(0.5 < accuracy <= 1 for accuracy in each.at_home.values())
    assert not request.output.exists()


NONE = {"trust": None, "colluders": None, "openers": None, "spares": None}


def test_options_come_before_what_the_study_says() -> None:
    plain, masked = demo_study(), make_masked_study(5, 3).study
    assert choose_aggregation(plain, **NONE) is None
    assert choose_aggregation(masked, **NONE) == Aggregation(1, 3, 0)
    assert choose_aggregation(masked, **{**NONE, "colluders": 2}) == Aggregation(2, 3, 0)
    assert choose_aggregation(masked, **{**NONE, "trust": "owner"}) is None
    asked = {"trust": "aggregate", "colluders": 1, "openers": 4, "spares": 1}
    assert choose_aggregation(plain, **asked) == Aggregation(1, 4, 1)


@pytest.mark.parametrize(
    "changes",
    [{"colluders": 1}, {"spares": 0}, {"trust": "aggregate"}, {"trust": "owner", "openers": 2}],
)
def test_a_number_too_few_or_out_of_place_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(SettingError, match="--colluders"):
        choose_aggregation(demo_study(), **{**NONE, **changes})


def test_a_simulation_replaces_the_owners_of_a_masked_study_with_its_own() -> None:
    masked = make_masked_study(5, 3).study
    assert with_owners(masked, 4).n_honest_owners is None
    draft = yaml.safe_load(write_draft(with_owners(masked, 4), Aggregation(2, 3)))
    assert draft["privacy"]["trust"] == "aggregate"
    assert draft["privacy"]["colluders"] == 2
    assert draft["owners"] == ["owner-1", "owner-2", "owner-3", "owner-4"]
    assert "identities" not in draft


def test_openers_alone_are_given_a_key_and_come_back() -> None:
    services = yaml.safe_load(
        compose_text(Topology(demo_study(), None, aggregation=Aggregation(1, 2)))
    )["services"]
    asked = [
        services[f"owner-{n}{suffix}"].get("environment", {}).get("OPENER")
        for n in (1, 2, 3)
        for suffix in ("", "-key")
    ]
    assert asked == ["--opener"] * 4 + [None] * 2
    assert "identity rand-hie $$OPENER" in services["owner-3-key"]["command"][0]
    assert "--digest" in services["owner-3"]["command"][0]
    assert "study assemble" in services["study"]["command"][0]
    plain = compose_text(Topology(demo_study(), None))
    for word in ("OPENER", "identity", "assemble", "digest"):
        assert word not in plain


def test_an_interrupted_simulation_says_that_nobody_was_charged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dppca.deploy.simulation.experiment.simulate", stopped)
    with pytest.raises(SystemExit) as left:
        run(cli, ["demo"])
    assert left.value.code == 130
    assert capsys.readouterr().err.strip() == "error: interrupted: no simulation charges anybody"
