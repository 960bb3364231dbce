"""The table of kinds has every kind of release and every field that may change the noise.

A new field of a study, a schema or a model's terms, a new law, trust, kind of release or method
that releases fails here until the table says how the self-test varies it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import combinations, product
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.privacy.laws import JOINT_LAWS, LAWS
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study, Trust, study_from_mapping
from dppca.common.verification.weights import WeightTerms
from dppca.owner.ledger.entries import ReleaseKind
from dppca.owner.models.catalogue import METHODS
from dppca.owner.selftest.every_kind import study_of
from dppca.owner.selftest.joint_noise import joint_study
from dppca.owner.selftest.kinds import (
    FIELDS,
    MAKES,
    ROWS,
    SAID,
    ReleaseForm,
    all_kinds,
    can_meet,
    dimensions,
    kinds,
    laws_of,
)
from dppca.owner.selftest.releases import make_parties, make_study

FALSE_ALARMS = 0.0
PARTIES = make_parties()


def models_of(kind: type[BaseModel]) -> set[type[BaseModel]]:
    """All classes that a document of a class is made of."""
    found, todo = set[type[BaseModel]](), [kind]
    while todo:
        each = todo.pop()
        if each in found:
            continue
        found.add(each)
        for field in each.model_fields.values():
            todo += _classes(field.annotation)
    return found


def _classes(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _classes(part)


def values_of(model: BaseModel) -> Iterator[tuple[str, object]]:
    """Each field of a document and of all that it is made of, with its value."""
    for name in type(model).model_fields:
        value = getattr(model, name)
        yield f"{type(model).__name__}.{name}", value
        parts: Sequence[object] = ()
        if isinstance(value, Mapping):
            parts = list(value.values())
        elif isinstance(value, tuple | BaseModel):
            parts = value if isinstance(value, tuple) else (value,)
        for part in parts:
            if isinstance(part, BaseModel):
                yield from values_of(part)


def test_every_field_of_a_study_and_of_a_model_is_in_the_table() -> None:
    known = {
        f"{model.__name__}.{field}" for model in models_of(Study) for field in model.model_fields
    } | {f"WeightTerms.{field.name}" for field in fields(WeightTerms)}
    assert set(FIELDS) == known


def test_every_kind_of_release_trust_and_method_is_in_the_table() -> None:
    releasing = {each.name for each in METHODS.values() if each.label is Label.RELEASED}
    assert set(MAKES) == set(ReleaseForm)
    assert {kind for kind, _, _ in MAKES.values()} == set(ReleaseKind)
    assert {trust for _, trust, _ in MAKES.values()} - {None} == set(Trust)
    assert {method for _, _, method in MAKES.values()} - {None} == releasing
    assert {(each.form, each.law) for each in all_kinds()} == set(product(ReleaseForm, LAWS))


def test_a_field_that_the_table_varies_has_two_values_in_the_cases() -> None:
    found = defaultdict[str, set[str]](set)
    for kind in (each for each in all_kinds() if each.levels.get("size") == "small"):
        for name, value in values_of(study_of(kind, PARTIES)):
            found[name].add(repr(value))
    named = {dimension for form in ReleaseForm for dimension in dimensions(form)} | {"law", "form"}
    varied = {
        name
        for name, dimension in FIELDS.items()
        if dimension.removeprefix("-") in named and name.split(".")[0] != "WeightTerms"
    }
    once = {name for name in varied if len(found[name]) < 2}
    assert once <= {f"{law}Privacy.mechanism" for law in ("Laplace", "Gaussian")}
    sorts = {each.__name__ for each in models_of(Study)}
    joint = {type(joint_study(law).privacy).__name__ for law in JOINT_LAWS}
    assert sorts - {name.split(".")[0] for name in found} == {"GrownTrees", "PinnedRoles", *joint}


def test_a_field_that_the_table_does_not_vary_has_a_reason() -> None:
    named = {dimension for form in ReleaseForm for dimension in dimensions(form)} | {"law", "form"}
    reasons = {each for each in FIELDS.values() if each.removeprefix("-") not in named}
    assert all(len(each.split()) > 1 for each in reasons), reasons


@pytest.mark.parametrize("said", sorted(SAID))
def test_no_noise_depends_on_what_the_table_says_changes_none(said: str) -> None:
    plain = make_study(
        "plain",
        {"mechanism": "laplace", "epsilon": "1"},
        [{"name": name, "type": "binary", "values": ["no", "yes"]} for name in "abc"],
        changes={"owners": ["owner-1", "owner-2"]},
    )
    document = plain.model_dump(mode="json", by_alias=True, exclude_none=True)
    document.pop("identities", None)
    other = study_from_mapping({**document, **SAID[said]})
    assert (other == plain) is (said == "no more")
    assert calibrate(other) == calibrate(plain)


@pytest.mark.parametrize("form", list(ReleaseForm))
def test_any_two_levels_that_can_meet_do_so_in_a_case(form: ReleaseForm) -> None:
    levels: dict[str, Any] = {"law": LAWS, **dimensions(form)}
    met = {
        pair
        for each in kinds(form)
        for pair in combinations([("law", each.law), *each.levels.items()], 2)
    }
    possible = {
        ((first, a), (second, b))
        for first, second in combinations(levels, 2)
        for a, b in product(levels[first], levels[second])
        if can_meet((first, a), (second, b))
    }
    assert possible - met == set()


@pytest.mark.parametrize("form", [ReleaseForm.CONTRIBUTION, ReleaseForm.MASKED])
def test_every_coding_is_released_with_every_law_and_number_of_rows(form: ReleaseForm) -> None:
    found = {(each.levels["coding"], each.law, each.levels["rows"]) for each in kinds(form)}
    codings = dimensions(form)["coding"]
    assert found == {each for each in product(codings, LAWS, ROWS) if each[1] in laws_of(each[0])}
    assert {each.rows_of_person for each in kinds(form)} == {
        number for numbers in ROWS.values() for number in numbers
    }
