"""Simulated studies with ``trust: aggregate``: settings, draft, and the compose file."""

from __future__ import annotations

import pytest
import yaml

from dppca.common.errors import SettingError
from dppca.deploy.simulation.aggregation import Aggregation, choose_aggregation, write_draft
from dppca.deploy.simulation.containers.topology import Topology, compose_text
from dppca.deploy.simulation.demo import demo_study
from dppca.deploy.simulation.experiment import with_owners
from tests.support.masked import make_masked_study

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
