"""Studies with ``trust: aggregate``: what a document says, and what is refused."""

import json
from typing import Any

import pytest

from dppca.common.kernel.aggregation.terms import Terms
from dppca.common.kernel.errors import StudyError
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Trust, study_from_canonical, study_from_mapping
from tests.support.masked import make_masked_study, masked_document
from tests.support.studies import make_study

MADE = make_masked_study()
BINARY = [{"name": name, "type": "binary", "values": ["no", "yes"]} for name in "ab"]


def document(**changes: Any) -> dict[str, Any]:
    return masked_document(MADE.keys, MADE.secrets, **changes)


def test_a_document_is_read_back_to_the_same_bytes() -> None:
    study = MADE.study
    again = study_from_canonical(study.canonical_bytes())
    assert (again, again.digest) == (study, study.digest)
    assert study.trust is Trust.AGGREGATE
    assert study.n_honest_owners == 3
    assert (
        study_from_mapping(document(quorum=3, deadline="2099-01-01T00:00:00Z")).n_honest_owners == 2
    )


def test_trust_is_left_out_of_the_canonical_form_where_each_owner_adds_all_of_the_noise() -> None:
    silent, said = make_study(BINARY), make_study(BINARY, trust="owner")
    assert silent == said
    assert silent.digest == said.digest
    assert (silent.trust, silent.n_honest_owners) == (Trust.OWNER, None)
    document = json.loads(silent.canonical_bytes())
    assert "trust" not in document["privacy"]
    assert {"identities", "openers", "spares", "open_by"}.isdisjoint(document)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "version"),
        ({"colluders": 0}, "colluders"),
        ({"colluders": 2}, "2 openers; 2 colluders and 0 spares need 3"),
        ({"spares": 1}, "2 openers; 1 colluders and 1 spares need 4"),
        ({"quorum": 2, "deadline": "2099-01-01T00:00:00Z"}, "must be 2 or more"),
        ({"open_by": None}, "needs open_by"),
        ({"deadline": "2100-01-01T00:00:00Z"}, "later than the deadline"),
        ({"covariance": "within"}, "trust: owner"),
        ({"identities": {}}, "every owner"),
        ({"owners": ["owner-1", "owner-2", "owner-3"]}, "nobody else: owner-4"),
        ({"openers": {"x": {"key": "", "signature": ""}}}, "openers names x"),
        ({"openers": {"owner-1": {"key": "a b", "signature": ""}}}, "base64"),
        ({"openers": {"owner-1": {"key": "YR==", "signature": ""}}}, "one form"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError, match=message):
        study_from_mapping(document(**changes))


@pytest.mark.parametrize("name", ["identities", "openers", "spares", "open_by"])
def test_what_belongs_to_masked_sums_is_refused_elsewhere(name: str) -> None:
    said = {**document(), "spares": 1}[name]
    with pytest.raises(StudyError, match=f"{name}"):
        make_study(BINARY, **{name: said})


def test_terms_are_those_of_the_study() -> None:
    terms = MADE.terms
    assert terms.study == MADE.study.digest
    assert terms.openers == ("owner-1", "owner-2")
    assert (terms.honest, terms.quorum, terms.n_entries) == (
        MADE.study.n_honest_owners,
        4,
        MADE.study.table.layout.n_entries,
    )
    with pytest.raises(StudyError, match="trust: aggregate"):
        Terms.from_study(make_study(BINARY))


def test_noise_too_narrow_for_shares_is_refused() -> None:
    assert calibrate(MADE.study).n_honest_owners == 3
    narrow = document()
    narrow["privacy"] = {
        "mechanism": "gaussian",
        "scale": str(8 * 4.0**-MADE.study.table.resolution_bits),
        "delta": "1e-6",
        "trust": "aggregate",
        "colluders": 1,
    }
    with pytest.raises(StudyError, match="together"):
        calibrate(study_from_mapping(narrow))
