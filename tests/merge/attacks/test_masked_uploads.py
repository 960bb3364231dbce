"""Owners that lie about a masked upload: the curator stores none, and tells whose it is."""

import hashlib
from dataclasses import replace

from dppca.common.kernel.aggregation.contribution import MaskedRelease
from dppca.common.kernel.aggregation.sum_messages import Upload
from dppca.common.kernel.identity.tls import Role
from dppca.common.kernel.signing import Purpose, sign
from tests.support.callers import refused
from tests.support.census import header_of
from tests.support.federations import MaskedHub, MaskedSites
from tests.support.masked import make_masked_release
from tests.support.party import Party, upload

UPLOAD = ("INVALID_ARGUMENT", "UploadError")
UNSIGNED = ("INVALID_ARGUMENT", "SignatureError")


def with_content(release: MaskedRelease, content: bytes, **fields: object) -> MaskedRelease:
    """The release with other bytes, and a receipt that names them; fields of it as given."""
    changed = {**fields, "payload_sha256": hashlib.sha256(content).hexdigest()}
    claims = replace(release.receipt.claims, **changed)
    return replace(release, content=content, receipt=replace(release.receipt, claims=claims))


def send(party: Party, release: MaskedRelease) -> tuple[str, str]:
    said = header_of(release, ledger_length=party.next_ledger_length())
    return refused(lambda: party.send(upload(said, release.payload())))


def test_an_upload_that_is_not_what_was_signed_is_not_stored(
    hub: MaskedHub, sites: MaskedSites
) -> None:
    release, terms = make_masked_release(sites.made, "owner-3"), sites.made.terms
    whole = Upload.from_bytes(release.content, terms)

    def resigned(changed: Upload, signer: str = "owner-3") -> MaskedRelease:
        statement = changed.statement.to_bytes()
        signature = sign(sites.made.keys[signer], Purpose.UPLOAD, statement)
        content = replace(changed, signature=signature).to_bytes()
        return with_content(
            release, content, statement_sha256=hashlib.sha256(statement).hexdigest()
        )

    said = whole.statement
    swapped = (whole.seals[1], whole.seals[0])
    cases = {
        "a word of the vector": with_content(release, release.content[:-8] + bytes(8)),
        "a seal": with_content(release, replace(whole, seals=swapped).to_bytes()),
        "another's signature": resigned(whole, "owner-4"),
        "another's name": resigned(replace(whole, statement=replace(said, owner="owner-4"))),
        "another's name, and its key": resigned(
            replace(whole, statement=replace(said, owner="owner-4")), "owner-4"
        ),
        "another study": resigned(replace(whole, statement=replace(said, terms=bytes(32)))),
        "another vector": resigned(
            replace(whole, statement=replace(said, payload_sha256=bytes(32)))
        ),
        "other seals": resigned(
            replace(whole, statement=replace(said, seals_sha256=said.seals_sha256[::-1]))
        ),
        "another statement in the receipt": with_content(
            release, release.content, statement_sha256="0" * 64
        ),
        "a vector cut short": with_content(release, release.content[:-8]),
        "one kind for another": with_content(release, bytes(len(release.content))),
    }
    expected = dict.fromkeys(cases, UPLOAD) | {"another's signature": UNSIGNED}
    party = sites["owner-3"].party
    found = {what: send(party, case) for what, case in cases.items()}
    assert found == expected
    blobs = hub.curator.state / "blobs"
    assert not any((blobs / hashlib.sha256(c.content).hexdigest()).exists() for c in cases.values())
    assert list(sites.wait(wait_s=0).contributed) == []
    assert not sites["owner-3"].contribute().already_stored


def test_an_owner_with_another_key_than_the_study_names_is_refused(
    hub: MaskedHub, sites: MaskedSites
) -> None:
    curator = hub.curator
    impostor = curator.connect(curator.authority.issue(Role.OWNER, "owner-3"))
    release = make_masked_release(sites.made, "owner-3")
    impostor.ledger_length = 1000
    assert send(impostor, release) == UNSIGNED
    assert list(sites.wait(wait_s=0).contributed) == []


def test_an_upload_of_an_older_study_is_refused(hub: MaskedHub, sites: MaskedSites) -> None:
    older = hub.join()
    old = make_masked_release(older.made, "owner-3")
    party = sites["owner-3"].party
    inside = with_content(make_masked_release(sites.made, "owner-3"), old.content)
    assert send(party, inside) == UPLOAD
