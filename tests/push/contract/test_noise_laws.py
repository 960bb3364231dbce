"""Nobody asks which law a release's noise has: what depends on it is a method of the law."""

import ast
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
import yaml
from pydantic import Field

from dppca.common.kernel import study
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.gaussian_law import GaussianLaw
from dppca.common.kernel.privacy.laplace_law import LaplaceLaw
from dppca.common.kernel.privacy.laws import LAWS, choose_law
from dppca.common.shell.dictionaries.dictionary import Dictionary, Entry, EntryType
from dppca.common.verification.weights import plan_study_weights
from dppca.curator.planning.assumptions import power_law
from dppca.curator.planning.plan import StudyPlan, make_plan
from dppca.curator.planning.proposals import propose_for_draft
from dppca.curator.planning.study_draft import Choices, draft_study
from dppca.owner.release.weights import request_weights
from tests.support.checkout import ROOT
from tests.support.studies import make_study
from tools.syntax import nodes

SAYS_WHAT_LAWS_ARE = {"common/kernel/privacy/laws.py", "common/kernel/study.py"}
CLASSES = {law.__name__ for law in LAWS.values()} | {"LaplacePrivacy", "GaussianPrivacy"}


def product() -> Iterator[Path]:
    for room in ("common", "owner", "curator", "deploy"):
        for path in sorted((ROOT / room).rglob("*.py")):
            if str(path.relative_to(ROOT)) not in SAYS_WHAT_LAWS_ARE:
                yield path


def names_a_law(node: ast.expr) -> bool:
    """Whether an expression is the name or the class of one law, or holds it."""
    return any(
        (isinstance(each, ast.Constant) and each.value in LAWS)
        or (isinstance(each, ast.Name) and each.id in CLASSES)
        or (isinstance(each, ast.Attribute) and each.attr in CLASSES)
        for each in ast.walk(node)
    )


def questions(source: Iterable[ast.AST]) -> list[int]:
    """Lines on which a law is asked for by name, by type, or by the number that only it has."""
    found = []
    for node in source:
        match node:
            case ast.Compare(left=left, comparators=others):
                asks = any(map(names_a_law, (left, *others)))
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass" | "getattr" | "hasattr")):
                asks = any(map(names_a_law, node.args)) or any(
                    isinstance(each, ast.Constant) and each.value in ("scale", "variance")
                    for each in node.args[1:]
                )
            case ast.match_case(pattern=pattern):
                inside = (each for each in ast.walk(pattern) if isinstance(each, ast.expr))
                asks = any(map(names_a_law, inside))
            case ast.Dict(keys=keys):
                asks = any(key is not None and names_a_law(key) for key in keys)
            case ast.IfExp(body=one, orelse=other):
                asks = names_a_law(one) and names_a_law(other)
            case ast.Attribute(value=ast.Attribute(attr="law"), attr="scale" | "variance"):
                asks = True
            case _:
                asks = False
        if asks:
            found.append(getattr(node, "lineno", 0))
    return found


def test_no_module_asks_which_law_it_has() -> None:
    asking = {
        str(path.relative_to(ROOT)): lines
        for path in product()
        if (lines := questions(nodes(path)))
    }
    assert not asking


@pytest.mark.parametrize(
    "source", ["LaplaceLaw if delta is None else GaussianLaw", "law.name == 'laplace'"]
)
def test_a_question_is_seen(source: str) -> None:
    assert questions(ast.walk(ast.parse(source))) == [1]


class Mirror(LaplaceLaw):
    """Laplace noise under another name: what a third law meets."""

    name: ClassVar[str] = "mirror"


class MirrorPrivacy(study.LaplacePrivacy):
    """The form in which a study asks for it."""

    mechanism: Literal["mirror"]  # type: ignore[assignment] # another name is the point


@pytest.fixture
def third(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(LAWS, Mirror.name, Mirror)
    forms = study.LaplacePrivacy | study.GaussianPrivacy | MirrorPrivacy
    monkeypatch.setattr(study, "Privacy", Annotated[forms, Field(discriminator="mechanism")])
    return Mirror.name


def test_a_third_law_is_chosen_by_its_name_alone(third: str) -> None:
    assert choose_law(third, None) is Mirror
    assert choose_law(None, None) is LaplaceLaw
    assert choose_law(None, Decimal("1e-9")) is GaussianLaw
    for name, delta, why in (
        (third, Decimal("1e-9"), "takes no delta"),
        ("gaussian", None, "needs a delta"),
        ("other", None, "no mechanism is called 'other': there are laplace, gaussian, mirror"),
    ):
        with pytest.raises(SettingError, match=why):
            choose_law(name, delta)


def test_a_third_law_is_drafted_and_planned_with(third: str) -> None:
    columns = tuple(
        Entry(name=name, kind=EntryType.NUMBER, lower="0", upper="99") for name in ("age", "hours")
    )
    text = draft_study(
        Dictionary(form="CSV dictionary", entries=columns, omitted=()),
        Choices(name="s", owners=("a", "b"), epsilon="1", rows_per_person=1, mechanism=third),
        source="columns.csv",
    )
    assert "  mechanism: mirror\n" in text
    proposed = propose_for_draft(
        yaml.safe_load(text)["schema"],
        epsilon=Decimal(1),
        delta=None,
        owner_rows=[900, 900],
        mechanism=third,
    )
    assert proposed is not None


def plan_of(*, delta: Decimal | None) -> StudyPlan:
    asked = make_study()
    eigenvalues = power_law(asked.table.layout, 1, 0.5)
    rows = dict.fromkeys(asked.owners, 500)
    return make_plan(asked, rows, eigenvalues, delta=delta, grid=[])


def test_a_third_law_is_forecast_beside_the_others_and_no_delta_is_blamed(third: str) -> None:
    plan = plan_of(delta=None)
    assert {line.mechanism for line in plan.forecasts} == {"laplace", third}
    assert plan.recommended in ("laplace", third)
    assert "delta" not in plan.reason
    assert {line.mechanism for line in plan_of(delta=Decimal("1e-6")).forecasts} == set(LAWS)


def test_weights_are_trained_with_a_third_law_and_have_a_request_of_their_own(
    third: str,
) -> None:
    asked: dict[str, Any] = {
        "data_set": "survey",
        "target": "sex",
        "epsilon": "1",
        "delta": None,
        "C": 0.01,
    }
    latent = make_study()
    usual, named, other = (
        request_weights(latent, **asked, mechanism=name) for name in (None, "laplace", third)
    )
    assert usual.digest == named.digest != other.digest
    plan = plan_study_weights(latent, other.terms, n_rows=500, n_components=2)
    assert type(plan.calibration.law) is Mirror
