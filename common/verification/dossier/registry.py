"""The entry of the public registry of deployments, in its own YAML.

The names are those of the registry's schema (github.com/opendp/deployments-registry-data); the
values are facts, or answers. An optional field without one is left out, with a comment that names
it. Text is quoted as JSON quotes it, which YAML reads alike.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from dppca.common.verification.dossier.facts import PRODUCTS, Facts

_ADVANCED = ("sources", "data_product_sector")
"""Optional fields of the first tier, without which an entry may still be of the third."""


def registry_entry(facts: Facts) -> dict[str, Any]:
    """Return the entry; None for an optional field that nobody answered."""
    report, study, texts = facts.report, facts.study, facts.answers.texts
    deployment: dict[str, dict[str, Any]] = {
        "basic": {
            "name": facts.title,
            "data_curators": list(facts.answers.lists["curators"]),
            "intended_use": texts["purpose"],
            "data_product_type": PRODUCTS[report.kind],
            "data_product_region": texts["region"],
            "description": facts.product,
            "publication_date": texts["published"],
            "data_product_sector": texts.get("sector"),
        },
        "dp_variant": {
            "variant_name": "Pure DP" if facts.is_pure else "Approximate DP",
            "data_domain": "Tables with the columns "
            + "; ".join(f"{name}: {values}" for name, values, _ in facts.columns),
            "unprotected_quantities": facts.unprotected,
        },
        "privacy_loss": {
            "privacy_unit": facts.unit,
            "privacy_unit_details": facts.adjacent,
            "privacy_parameters": {"epsilon": float(facts.epsilon), "delta": float(facts.delta)}
            if facts.delta
            else {"epsilon": float(facts.epsilon)},
            "privacy_parameters_details": facts.parameters,
        },
        "deployment_model": {
            "model_name": "Federated",
            "model_name_details": facts.trust,
            "actors": facts.actors,
            "release_type": "One release" if report.continues is None else "Many releases",
            "release_type_details": texts.get("plans"),
            "data_source_type": texts.get("rows_are"),
            "data_source_type_details": None,
            "access_type": "Non-interactive",
            "access_type_details": "Files are published; nobody queries the rows.",
        },
        "accounting": {
            "post_processing": "All of the file is computed from noised integers alone.",
            "composition": facts.composition,
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": texts.get("preparation"),
            "mechanisms": facts.noise,
            "justification": texts.get("justification"),
        },
        "administrative": {
            "sources": texts.get("sources"),
            "notes": facts.origin,
            "registry_authors": list(facts.answers.lists["authors"]),
        },
    }
    open_fields = [
        name
        for group in deployment.values()
        for name, value in group.items()
        if value is None and name not in (*_ADVANCED, "data_source_type_details")
    ]
    tier = 2 if open_fields else 3
    return {"url_slug": study.name, "status": "Draft", "tier": tier, "deployment": deployment}


def registry_text(entry: Mapping[str, Any]) -> str:
    """Return the YAML of an entry."""
    return "\n".join(_lines(entry, "")) + "\n"


def _lines(values: Mapping[str, Any], indent: str) -> Iterator[str]:
    for name, value in values.items():
        if value is None:
            yield f"{indent}# {name}: not answered"
        elif isinstance(value, Mapping):
            yield f"{indent}{name}:"
            yield from _lines(value, indent + "  ")
        elif isinstance(value, list):
            yield f"{indent}{name}:"
            yield from (f"{indent}  - {json.dumps(each, ensure_ascii=False)}" for each in value)
        elif isinstance(value, float):
            yield f"{indent}{name}: {_number(value)}"
        else:
            yield f"{indent}{name}: {json.dumps(value, ensure_ascii=False)}"


def _number(value: float) -> str:
    """Return a number that every YAML reads as one: 1e-09 needs its point."""
    text = repr(value)
    digits, e, power = text.partition("e")
    return text if not e or "." in digits else f"{digits}.0e{power}"
