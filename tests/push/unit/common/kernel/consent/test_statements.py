import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.kernel.consent.statement_kinds import StatementKind
from dppca.common.kernel.consent.statement_terms import StatementTerms
from dppca.common.kernel.consent.statements import (
    encoded,
    find_signer,
    read_approval,
    read_facts,
    read_signable,
    write_approval,
    write_statement,
)
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.errors import SignatureError
from tests.support.examples import examples
from tests.support.people import ANNA

FACTS = canonical_json({"salt": "ab" * 32, "policy_sha256": "1" * 64})
STATED: dict[str, Any] = {
    **{key: None for key in StatementTerms.model_fields if key != "also"},
    "version": 1,
    "kind": StatementKind.POLICY,
    "owner": "hospital",
    "authority": "2" * 64,
    "roles_sha256": "3" * 64,
    "release_id": "4" * 32,
    "proposed": "2026-01-02T03:00:00+00:00",
    "expires": "2026-01-16T03:00:00+00:00",
}
TERMS = StatementTerms.model_validate(STATED)
CONTENT = write_statement(TERMS, FACTS)


def test_a_statement_is_read_as_it_was_written() -> None:
    found = read_signable(CONTENT)
    assert (found.terms, write_statement(found.terms, FACTS)) == (TERMS, CONTENT)
    assert read_facts(FACTS, found)["salt"] == "ab" * 32
    assert encoded(CONTENT).startswith(b"DSSEv1 28 application/vnd.in-toto+json ")


@pytest.mark.parametrize(
    "changed",
    [
        {"version": 2},
        {"version": True},
        {"version": 1.0},
        {"kind": "everything"},
        {"epsilon": 1},
        {"epsilon": "1e3"},
        {"epsilon": "NaN"},
        {"colluders": 1.0},
        {"authority": "A" * 64},
        {"proposed": "2026-01-02T03:00:00"},
        {"proposed": "2026-01-02T03:04:00+00:00"},
        {"proposed": "2026-01-02T03:00:00+01:00"},
        {"expires": "2026-01-02T03:00:00+00:00"},
        {"expires": "2026-04-03T03:00:00+00:00"},
        {"more": None},
        {"also": None},
        {"also": {"opening": True, "rows": None}},
    ],
    ids=str,
)
def test_other_terms_are_refused(changed: dict[str, Any]) -> None:
    document = json.loads(CONTENT)
    document["predicate"] |= changed
    with pytest.raises(SignatureError):
        read_signable(canonical_json(document))


def test_a_statement_is_open_for_ninety_days_at_most() -> None:
    assert StatementTerms.model_validate({**STATED, "expires": "2026-04-02T03:00:00+00:00"})


@pytest.mark.parametrize("key", sorted(STATED))
def test_no_key_may_be_left_out(key: str) -> None:
    document = json.loads(CONTENT)
    del document["predicate"][key]
    with pytest.raises(SignatureError):
        read_signable(canonical_json(document))


@pytest.mark.parametrize(
    "content",
    [
        CONTENT + b" ",
        CONTENT.replace(b'{"_type"', b'{ "_type"'),
        CONTENT.replace(b'"version":1', b'"version":1,"version":1'),
        CONTENT.replace(b'"colluders":null', b'"colluders":9007199254740993.0'),
        CONTENT.replace(b'"colluders":null', b'"colluders":NaN'),
        CONTENT.replace(b'"name":"facts"', b'"name":"rows"'),
        json.dumps(json.loads(CONTENT), sort_keys=False, separators=(",", ":")[::1]).encode()[:-1],
        b"{}",
        b"[" * 10_000,
        b"\xff\xfe",
        b" " * (1 << 15),
    ],
)
def test_a_statement_has_one_form(content: bytes) -> None:
    with pytest.raises(SignatureError):
        read_signable(content)


@settings(max_examples=examples(40))
@given(st.integers(0, len(CONTENT) - 1), st.integers(1, 255))
def test_a_changed_byte_is_another_statement_or_none(place: int, change: int) -> None:
    content = bytearray(CONTENT)
    content[place] ^= change
    signature = ANNA.sign(encoded(CONTENT))
    with pytest.raises(SignatureError):
        find_signer(read_signable(bytes(content)), signature)


@pytest.mark.parametrize(
    "facts",
    [
        FACTS + b" ",
        canonical_json({"policy_sha256": "1" * 64}),
        canonical_json({"salt": "ab" * 31}),
        canonical_json(["salt"]),
        b'{"salt": "' + b"ab" * 32 + b'"}',
        b"[" * 10_000,
    ],
)
def test_facts_are_those_that_the_statement_names_in_their_one_form(facts: bytes) -> None:
    for other in (facts, FACTS.replace(b"1", b"2")):
        with pytest.raises(SignatureError):
            read_facts(other, read_signable(CONTENT))
    with pytest.raises(SignatureError):
        read_facts(facts, read_signable(write_statement(TERMS, facts)))


def test_an_envelope_has_a_statement_and_signatures() -> None:
    statement, signatures = read_approval(write_approval(CONTENT, [b"one", b"two"]))
    assert (statement.content, signatures) == (CONTENT, (b"one", b"two"))


@settings(max_examples=examples(60))
@given(st.binary(max_size=300))
def test_hostile_bytes_are_neither_envelope_nor_statement(content: bytes) -> None:
    for read in (read_approval, read_signable):
        with pytest.raises(SignatureError):
            read(content)


@pytest.mark.parametrize(
    "changed",
    [
        {"payloadType": "text/plain"},
        {"payload": "!"},
        {"payload": 1},
        {"signatures": []},
        {"signatures": {}},
        {"signatures": [{"sig": "!"}]},
        {"signatures": [{"keyid": ""}]},
        {"signatures": [{"sig": "AA==", "cert": ""}]},
        {"signatures": [{"sig": "AA=="}] * 101},
        {"signatures": [1]},
        {"more": 1},
    ],
    ids=str,
)
def test_other_envelopes_are_refused(changed: dict[str, Any]) -> None:
    document = json.loads(write_approval(CONTENT, [b"one"])) | changed
    with pytest.raises(SignatureError):
        read_approval(json.dumps(document).encode())
