"""A study file with its owners' keys: what is put together, and what is refused."""

import json
from typing import Any

import pytest
import yaml

from dppca.common.kernel.errors import StudyError
from dppca.curator.study.assembly import assemble_study, fewest_openers, read_draft
from tests.support.masked import make_masked_study, masked_document
from tests.support.studies import study_document

MADE = make_masked_study(3, 2)
WHOLE = masked_document(MADE.keys, MADE.secrets)
DRAFT = "# our words\n" + yaml.safe_dump(
    {name: value for name, value in WHOLE.items() if name not in ("identities", "openers")}
)


def part(owner: str, **changes: Any) -> tuple[str, str]:
    document: dict[str, Any] = {"identities": {owner: WHOLE["identities"][owner]}}
    if owner in WHOLE["openers"]:
        document["openers"] = {owner: WHOLE["openers"][owner]}
    return f"{owner}.yaml", yaml.safe_dump({**document, **changes})


def answer(owner: str, **changes: Any) -> tuple[str, str]:
    document = {
        "command": "identity",
        "study": "study",
        "owner": owner,
        "key": WHOLE["identities"][owner],
        "opener": WHOLE["openers"].get(owner),
        **changes,
    }
    return f"{owner}.json", json.dumps(document)


MADE_OF = WHOLE["schema"]["attributes"]
PARTS = [part("owner-1"), answer("owner-2"), part("owner-3")]


def test_lines_and_json_make_the_study_and_a_persons_words_stay() -> None:
    whole, study = assemble_study(DRAFT, PARTS)
    assert study == MADE.study
    assert whole.startswith(DRAFT)
    assert assemble_study(DRAFT.rstrip("\n"), PARTS)[1] == study
    assert assemble_study(json.dumps(yaml.safe_load(DRAFT)), PARTS)[1] == study, "JSON is YAML, too"


def test_a_draft_without_keys_is_a_study_but_for_them() -> None:
    for text in (DRAFT, json.dumps(yaml.safe_load(DRAFT))):
        draft = read_draft(text)
        assert draft is not None
        left = {"identities": MADE.study.identities, "openers": MADE.study.openers}
        assert draft.model_copy(update=left) == MADE.study
        assert fewest_openers(draft) == len(WHOLE["openers"])
    assert read_draft(yaml.safe_dump(WHOLE)) is None
    assert read_draft(yaml.safe_dump(study_document(MADE_OF))) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"open_by": None}, "needs open_by"),
        ({"privacy": {**WHOLE["privacy"], "colluders": 2}}, "less colluders 2 must be 2 or more"),
        ({"spares": 9}, "1 colluders and 9 spares need 20"),
        ({"owners": ["owner-1", "owner-1", "owner-3"]}, "owners must differ"),
        ({"owners": ["owner-1", ["a"]]}, "owners"),
        ({"owners": None}, "owners"),
    ],
)
def test_whatever_else_is_wrong_with_a_draft_is_said_at_once(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(StudyError, match=message):
        read_draft(yaml.safe_dump({**yaml.safe_load(DRAFT), **changes}))


@pytest.mark.parametrize(
    ("text", "parts", "message"),
    [
        (DRAFT, PARTS[:2], "every owner and nobody else: owner-3"),
        (DRAFT, [*PARTS, part("owner-1")], "owner-1.yaml: owner-1 has come before"),
        (yaml.safe_dump(WHOLE), PARTS, "has identities and openers already"),
        (DRAFT, [*PARTS[:2], ("x", "key: value")], "x is not what"),
        (DRAFT, [*PARTS[:2], ("x", "identities: [a]")], "x: identities is not a list of owners"),
        (DRAFT, [*PARTS[:2], ("x", "- a")], "x is not a list of fields"),
        (DRAFT, [*PARTS[:2], ("x", "a: {")], "x is not YAML"),
        (DRAFT, [*PARTS[:2], answer("owner-3", study="other")], "for study other, not for study"),
        (DRAFT, [*PARTS[:2], answer("owner-3", key="AAAA")], "the key of owner-3"),
        ("a: {", PARTS, "the study file is not YAML"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    text: str, parts: list[tuple[str, str]], message: str
) -> None:
    with pytest.raises(StudyError, match=message):
        assemble_study(text, parts)
