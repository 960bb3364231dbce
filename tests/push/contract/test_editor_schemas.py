"""Editors are told what the models take: what is right passes, what is wrong is marked."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from dppca.common.kernel.documents.yaml_text import load_yaml
from dppca.curator.commands.study_template import TEMPLATE
from tools.file_reference import policy_schema, site_schema, study_schema

SITE = {"version": 1, "name": "hospital", "curator": "hub.example:7443"}
POLICY = {
    "populations": {"patients": {"who": "Patients", "epsilon": "3.0", "delta": "0"}},
    "data_sets": {"survey": {"path": "survey.csv", "population": "patients"}},
}


def faults(text: str, document: object) -> list[str]:
    schema = json.loads(text)
    Draft202012Validator.check_schema(schema)
    return [error.json_path for error in Draft202012Validator(schema).iter_errors(document)]


def template(**attribute: object) -> Any:
    document: Any = load_yaml(TEMPLATE)
    document["schema"]["attributes"][0] |= attribute
    return document


def test_what_is_right_passes() -> None:
    days = {"name": "day", "type": "date", "lower": "2020-01-01", "upper": "2020-12-31"}
    pain = {"name": "pain", "type": "ordinal", "levels": [1, 2, 3]}
    document = template()
    document["schema"]["attributes"] += [days, pain]
    assert faults(study_schema(), document) == []
    assert faults(site_schema(), SITE) == []
    assert faults(policy_schema(), POLICY) == []


@pytest.mark.parametrize(
    ("text", "document"),
    [
        (study_schema(), {**template(), "ownrs": ["a"]}),
        (study_schema(), template(upper="high")),
        (study_schema(), template(centre=0, type="ordinal")),
        (study_schema(), {**template(), "privacy": {"mechanism": "wishart"}}),
        (site_schema(), {**SITE, "curatr": "x:1"}),
        (
            policy_schema(),
            {"data_sets": {"survey": {"paths": "survey.csv", "population": "patients"}}},
        ),
        (policy_schema(), {"data_sets": {"survey": {"path": "survey.csv"}}}),
    ],
)
def test_what_is_wrong_is_marked(text: str, document: object) -> None:
    assert faults(text, document)
