"""Envelopes: what is signed, what is refused before it is read, and who else can check them."""

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from dppca.common.kernel.attestation.envelopes import (
    PAYLOAD_TYPE,
    Claim,
    SignedFile,
    envelope_path,
    open_envelope,
    read_envelope,
    read_signed,
    sign_statement,
    signing,
    signing_certificate,
    unchecked_predicate,
    write_signed,
)
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.signatures import Signer, make_signer
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.durable.files import digest_file
from dppca.common.kernel.errors import AlteredError, ReceiptError, SettingError, SignatureError
from dppca.common.kernel.identity.tls import Identity, Role
from tests.support.certificates import Authority
from tests.support.envelopes import claim

CLAIMS = {"label": "released", "number": 1}
CONTENT = b"rows"


@pytest.fixture(scope="module")
def owner(authority: Authority) -> Signer:
    return make_signer(authority.issue(Role.OWNER, "owner-1"))


def _open(
    envelope: bytes, ca: bytes | None = None, kind: Claim = Claim.ROWS, *, as_written: bool = False
) -> Any:
    parties = KnownParties(ca)
    return open_envelope(envelope, kind, parties, what="the envelope", as_written=as_written)


def _rows(owner: Signer, content: bytes = CONTENT) -> bytes:
    return claim(CLAIMS, owner, content, kind=Claim.ROWS, name="rows.parquet")


def test_an_envelope_is_the_same_each_time_and_says_what_was_signed(
    authority: Authority, owner: Signer
) -> None:
    assert _rows(owner) == _rows(owner)
    found = _open(_rows(owner), authority.pem)
    assert (found.name, found.predicate) == ("rows.parquet", CLAIMS)
    assert found.signed_by == Identity("owner-1", Role.OWNER)
    found.require_digest(hashlib.sha256(CONTENT).hexdigest())
    with pytest.raises(AlteredError, match="owner owner-1 signed"):
        found.require_digest(hashlib.sha256(b"other").hexdigest())


def test_a_signature_is_checked_by_hand_without_our_code(owner: Signer) -> None:
    """By the standards alone, as any tool of DSSE and in-toto does; a guide does it by OpenSSL."""
    document = json.loads(_rows(owner))
    payload, kind = base64.b64decode(document["payload"]), document["payloadType"].encode()
    (entry,) = document["signatures"]
    encoded = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    key = x509.load_pem_x509_certificate(entry["cert"].encode()).public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    signature, algorithm = base64.b64decode(entry["sig"]), ec.ECDSA(hashes.SHA256())
    key.verify(signature, encoded, algorithm)
    with pytest.raises(InvalidSignature):
        key.verify(signature, encoded + b" ", algorithm)
    statement = json.loads(payload)
    assert kind.decode() == PAYLOAD_TYPE == "application/vnd.in-toto+json"
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    digest = hashlib.sha256(CONTENT).hexdigest()
    assert statement["subject"] == [{"name": "rows.parquet", "digest": {"sha256": digest}}]
    assert statement["predicateType"].startswith("urn:dppca:predicate:")


@pytest.mark.parametrize("curve", [ec.SECP256R1, ec.SECP384R1, ec.SECP521R1])
def test_every_curve_of_the_library_signs(authority: Authority, curve: Any) -> None:
    key = ec.generate_private_key(curve())
    signer = replace(make_signer(authority.issue(Role.OWNER, "owner-1", key=key)), key=key)
    assert _rows(signer) == _rows(signer)
    assert _open(_rows(signer), authority.pem).predicate == CLAIMS


def test_a_curve_that_the_library_lacks_cannot_sign(owner: Signer) -> None:
    with pytest.raises(SettingError, match="curve"):
        _rows(replace(owner, key=ec.generate_private_key(ec.BrainpoolP256R1())))


def _with(envelope: bytes, **changes: Any) -> bytes:
    return canonical_json({**json.loads(envelope), **changes})


def _entry(envelope: bytes, **changes: Any) -> bytes:
    (entry,) = json.loads(envelope)["signatures"]
    return _with(envelope, signatures=[{**entry, **changes}])


def _payload(envelope: bytes, change: Callable[[Any], Any]) -> bytes:
    statement = json.loads(base64.b64decode(json.loads(envelope)["payload"]))
    changed = canonical_json(change(statement))
    return _with(envelope, payload=base64.b64encode(changed).decode())


FOREIGN = {"keyid": "", "sig": base64.b64encode(b"1" * 64).decode()}
NOT_ENVELOPES: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda _: b"",
    "no JSON": lambda _: b"{",
    "a list": lambda _: b"[]",
    "deep": lambda _: b"[" * 40,
    "very deep": lambda _: b"[" * 100_000,
    "many numbers": lambda _: b"[" + b"1," * 1000 + b"1]",
    "too long": lambda _: b" " * ((1 << 27) + 1),
    "no signature": lambda made: _with(made, signatures=[]),
    "signatures of others alone": lambda made: _with(made, signatures=[FOREIGN]),
    "signatures that are words": lambda made: _with(made, signatures=["cert"]),
    "another signature": lambda made: _entry(made, sig=base64.b64encode(b"other").decode()),
    "no certificate": lambda made: _entry(made, cert=""),
    "a certificate that is a number": lambda made: _entry(made, cert=1),
    "other claims": lambda made: _payload(made, lambda s: {**s, "predicate": {"label": "other"}}),
    "another kind of payload": lambda made: _with(made, payloadType="text/plain"),
}


@pytest.mark.parametrize("what", NOT_ENVELOPES)
def test_what_is_no_envelope_of_a_signature_is_refused(owner: Signer, what: str) -> None:
    with pytest.raises(SignatureError):
        _open(NOT_ENVELOPES[what](_rows(owner)))


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ({}, "no statement"),
        ([], "no statement"),
        ({"_type": "other"}, "no statement"),
        ({"subject": []}, "no statement"),
        ({"subject": [{"name": "a", "digest": {"sha256": "00"}}]}, "no statement"),
        ({"subject": [{"name": "a", "digest": {"sha512": "00"}}]}, "no statement"),
        ({"predicate": []}, "no statement"),
        ({"predicateType": "urn:dppca:predicate:synthetic-rows:2"}, "another kind of file"),
        ({"predicateType": Claim.COMPONENTS.value}, "another kind of file"),
    ],
    ids=str,
)
def test_a_statement_of_something_else_is_refused_whoever_signed_it(
    owner: Signer, monkeypatch: pytest.MonkeyPatch, statement: Any, says: str
) -> None:
    true = json.loads(base64.b64decode(json.loads(_rows(owner))["payload"]))
    told = {**true, **statement} if statement else statement
    monkeypatch.setattr(
        "dppca.common.kernel.attestation.envelopes.canonical_json",
        lambda document: canonical_json(told if "_type" in document else document),
    )
    envelope = sign_statement("rows.parquet", "0" * 64, Claim.ROWS, CLAIMS, owner)
    monkeypatch.undo()
    with pytest.raises(ReceiptError, match=says):
        _open(envelope)


def test_what_another_tool_writes_of_the_same_statement_is_taken(
    authority: Authority, owner: Signer
) -> None:
    document = json.loads(_rows(owner))
    spread = json.dumps({**document, "note": "kept"}, indent=2).encode()
    assert _open(spread, authority.pem) == _open(_rows(owner), authority.pem)
    other_name = json.dumps(
        {**document, "signatures": [{**document["signatures"][0], "keyid": "k"}]}
    )
    assert _open(other_name.encode(), authority.pem).predicate == CLAIMS


@pytest.mark.parametrize(
    "change",
    [
        lambda entries: [{k: v for k, v in entries[0].items() if k != "keyid"}],
        lambda entries: [{**entries[0], "keyid": ""}],
        lambda entries: [{**entries[0], "keyid": None}],
        lambda entries: [*entries, FOREIGN],
        lambda entries: [FOREIGN, *entries],
        lambda entries: [*entries, FOREIGN, {**FOREIGN, "keyid": "x"}],
        lambda entries: entries * 2,
    ],
    ids=["no keyid", "an empty one", "null", "one behind", "one before", "two", "twice the same"],
)
def test_a_keyid_may_be_missing_and_others_may_sign_too(
    authority: Authority, owner: Signer, change: Callable[[Any], Any]
) -> None:
    made = _rows(owner)
    bent = _with(made, signatures=change(json.loads(made)["signatures"]))
    assert _open(bent, authority.pem) == _open(made, authority.pem)
    assert unchecked_predicate(bent) == CLAIMS
    assert signing_certificate(bent) == owner.certificate
    with pytest.raises(SignatureError, match="damaged"):
        _open(bent, authority.pem, as_written=True)


def _signed(payload: bytes, owner: Signer) -> bytes:
    """An envelope of any payload, as an owner with its own tools can make it."""
    kind = PAYLOAD_TYPE.encode()
    encoded = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    signature = owner.key.sign(encoded, ec.ECDSA(hashes.SHA256()))
    return _entry(
        _with(_rows(owner), payload=base64.b64encode(payload).decode()),
        sig=base64.b64encode(signature).decode(),
    )


BENT: dict[str, Callable[[Any], bytes]] = {
    "blanks": lambda said: json.dumps(said, indent=4).encode(),
    "a key twice": lambda said: canonical_json(said)[:-1] + b',"predicate":{"number":1}}',
    "another key": lambda said: canonical_json({**said, "evil": "x" * 2000}),
    "keys in another order": lambda said: json.dumps(
        dict(reversed(said.items())), separators=(",", ":")
    ).encode(),
    "escapes": lambda said: canonical_json(said).replace(b"rows.par", rb"\u0072ows.par"),
    "more in the subject": lambda said: canonical_json(
        {**said, "subject": [{**said["subject"][0], "uri": "http://x"}]}
    ),
    "another digest": lambda said: canonical_json(
        {**said, "subject": [{"name": "a", "digest": {**said["subject"][0]["digest"], "md5": "0"}}]}
    ),
    "no number": lambda said: canonical_json(said).replace(b'"number":1', b'"number":NaN'),
    "half a character": lambda said: canonical_json(said).replace(b"rows.par", rb"\ud800.par"),
    "a line behind": lambda said: canonical_json(said) + b"\n",
}


@pytest.mark.parametrize("what", BENT)
def test_a_statement_inside_others_is_taken_only_as_it_is_written(
    authority: Authority, owner: Signer, what: str
) -> None:
    said = json.loads(base64.b64decode(json.loads(_rows(owner))["payload"]))
    assert _open(_signed(canonical_json(said), owner), authority.pem, as_written=True)
    bent = _signed(BENT[what](said), owner)
    with pytest.raises(ReceiptError, match="another form"):
        _open(bent, authority.pem, as_written=True)


@pytest.mark.parametrize("field", ["payload", "sig"])
def test_base64_inside_others_is_taken_in_one_form(
    authority: Authority, owner: Signer, field: str
) -> None:
    made = json.loads(_rows(owner))
    place = made if field == "payload" else made["signatures"][0]
    place[field] = place[field][:8] + "\n  " + place[field][8:]
    bent = json.dumps(made).encode()
    with pytest.raises(SignatureError, match="damaged"):
        _open(bent, authority.pem, as_written=True)


def test_a_file_has_its_envelope_before_it_has_its_name(owner: Signer, tmp_path: Path) -> None:
    path, order = tmp_path / "rows.csv", []
    with signing(path, Claim.ROWS, CLAIMS, owner, mode=0o600) as draft:
        draft.write_bytes(CONTENT)
        order.append(sorted(each.name for each in tmp_path.iterdir()))
    assert order == [[draft.name]]
    assert _open(read_envelope(path)).sha256 == digest_file(path)
    envelope = read_envelope(path)

    def fail() -> None:
        with signing(path, Claim.ROWS, {"other": 1}, owner, mode=0o600) as draft:
            draft.write_bytes(b"other")
            raise MemoryError

    with pytest.raises(MemoryError):
        fail()
    assert read_signed(path) == SignedFile(CONTENT, envelope)


def test_killed_between_envelope_and_file_the_same_command_mends_it(
    owner: Signer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.csv"
    write_signed(path, SignedFile(CONTENT, _rows(owner)))

    def write() -> None:
        with signing(path, Claim.ROWS, CLAIMS, owner, mode=0o600) as draft:
            draft.write_bytes(b"new rows")

    with monkeypatch.context() as patched:
        rename, names = Path.replace, []

        def die(draft: Path, target: Path) -> Path:
            names.append(target.name)
            if target == path:
                raise KeyboardInterrupt
            return rename(draft, target)

        patched.setattr(Path, "replace", die)
        with pytest.raises(KeyboardInterrupt):
            write()
    assert names == [envelope_path(path).name, path.name]
    with pytest.raises(AlteredError):
        _open(read_envelope(path)).require_digest(digest_file(path))
    write()
    _open(read_envelope(path)).require_digest(digest_file(path))
    assert path.read_bytes() == b"new rows"
