"""Evidence of a masked sum: what does not belong together is found, whatever a curator signs."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dppca.common.kernel.aggregation.sum_messages import SignedOpening
from dppca.common.kernel.attestation.components import (
    VerifiedReceipt,
    check_components,
    sign_result,
)
from dppca.common.kernel.attestation.envelopes import unchecked_predicate, write_signed
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.results import largest_envelope
from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.attestation.sums import SumEvidence, require_sum
from dppca.common.kernel.attestation.verify import verify_result
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.errors import AlteredError, ReceiptError, SettingError, SignatureError
from dppca.common.kernel.identity.tls import Role
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.release import draw
from dppca.common.kernel.signing import Purpose, sign
from dppca.common.verification.files import verify_file
from dppca.curator.cli import cli
from dppca.owner.records.table import moments_of_table, open_table
from tests.support.census import sign_document
from tests.support.certificates import Authority, sign_release
from tests.support.envelopes import claim
from tests.support.masked import CertifiedStudy, MaskedRound, carry_out, make_masked_study
from tests.support.sites import make_proved_site
from tests.support.studies import CENSUS

N_ROWS = 1000


def _carry_out(
    authority: Authority, *came: int, present: Any = None, **changes: Any
) -> MaskedRound:
    fields = {"attributes": CENSUS, "resolution_bits": 6, "components": {"count": 2}}
    parties = CertifiedStudy(make_masked_study(**fields, **changes), authority)
    rng = np.random.default_rng(4)
    size = parties.study.table.layout.n_entries
    sums = {f"owner-{place}": rng.integers(-N_ROWS, N_ROWS, size) for place in came}
    return carry_out(parties, sums, n_rows=N_ROWS, present=present)


@pytest.fixture(scope="module")
def plain(authority: Authority) -> MaskedRound:
    """Four owners, two of them openers; all came."""
    return _carry_out(authority, 1, 2, 3, 4)


def _spare(authority: Authority, *came: int) -> MaskedRound:
    """Six owners, four of them openers, of whom the third is gone for good."""
    return _carry_out(
        authority,
        *came,
        present=("owner-1", "owner-2", "owner-4"),
        n_owners=6,
        n_openers=4,
        spares=1,
        quorum=4,
        deadline="2099-01-01T00:00:00Z",
    )


@pytest.fixture(scope="module")
def spare(authority: Authority) -> MaskedRound:
    return _spare(authority, 1, 2, 3, 5, 6)


@pytest.fixture(scope="module")
def other_set(authority: Authority) -> MaskedRound:
    """The study of `spare`, with another owner less."""
    return _spare(authority, 1, 2, 3, 4, 5)


def _check(
    done: MaskedRound, change: Callable[[Any], None] = lambda _: None, **given: Any
) -> VerifiedReceipt:
    """Check the receipt that a curator made and signed, after a change of its document."""
    document = unchecked_predicate(done.signed(**given).envelope)
    change(document)
    curator = make_signer(done.parties.authority.issue(Role.CURATOR, "hub"))
    return check_components(claim(document, curator), KnownParties(done.parties.authority.pem))


def _with_statement(evidence: SumEvidence, place: int, **changes: Any) -> SumEvidence:
    statements = list(evidence.statements)
    statements[place] = replace(statements[place], **changes)
    return replace(evidence, statements=tuple(statements))


def _signed_again(done: MaskedRound, opening: SignedOpening, name: str) -> SignedOpening:
    return replace(
        opening, signature=sign(done.parties.masked.keys[name], Purpose.OPENING, opening.signed())
    )


@pytest.mark.parametrize("name", ["plain", "spare"])
def test_what_was_signed_of_a_sum_holds(name: str, request: pytest.FixtureRequest) -> None:
    done = request.getfixturevalue(name)
    checked = _check(done)
    assert (checked.document["version"], checked.evidence) == (2, done.evidence)
    assert checked.guarantee.epsilon == "1"
    study = done.parties.study
    assert checked.document["mechanism"] == {
        **checked.document["mechanism"],
        "trust": "aggregate",
        "colluders": 1,
        "quorum": 4,
        "honest": 3,
        "share_variance": -(-done.parties.calibration.law.parameters()["variance"] // 3) + 1,
    }
    assert {release.receipt.label for release in checked.releases} == {"masked"}
    assert len(done.signed().envelope) < largest_envelope(study)


def test_evidence_belongs_to_masked_sums(
    plain: MaskedRound, tmp_path_factory: pytest.TempPathFactory
) -> None:
    parties = plain.parties
    with pytest.raises(SettingError, match="belongs to trust: aggregate"):
        sign_result(
            plain.result,
            parties.study,
            parties.calibration,
            plain.releases,
            make_signer(parties.authority.issue(Role.CURATOR, "hub")),
        )
    with pytest.raises(ReceiptError, match="lacks a field"):
        _check(plain, lambda document: document.pop("sum"))
    with pytest.raises(ReceiptError, match="version"):
        _check(plain, lambda document: document.update(version=1))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("guarantee", "epsilon"), "0.5"),
        (("guarantee", "assumptions"), []),
        (("mechanism", "honest"), 4),
        (("mechanism", "share_variance"), 64),
        (("mechanism", "colluders"), 2),
        (("mechanism", "trust"), "owner"),
        (("sum", "terms"), "0" * 64),
    ],
)
def test_a_claim_that_does_not_follow_is_named(
    plain: MaskedRound, place: tuple[str, str], value: object
) -> None:
    def change(document: Any) -> None:
        document[place[0]][place[1]] = value

    with pytest.raises(ReceiptError, match=r"\.".join(place)):
        _check(plain, change)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("honest", 4),
        ("colluders", 2),
        ("quorum", 3),
        ("share_variance", 64),
        ("trust", "owner"),
        ("label", "released"),
        ("parameters", {"variance": 64}),
        ("charged_rho", "0.001"),
    ],
)
def test_an_owner_that_signs_other_noise_is_found(
    plain: MaskedRound, field: str, value: object
) -> None:
    receipt = {**plain.releases[0].receipt.document(), field: value}
    with pytest.raises(ReceiptError, match=f"receipt of owner-1.*{field}"):
        _check_with_receipt(plain, receipt)


def test_an_owner_that_signs_the_receipt_of_an_unmasked_release_is_found(
    plain: MaskedRound,
) -> None:
    receipt = plain.releases[0].receipt.document()
    fields = {"trust", "colluders", "quorum", "honest", "share_variance", "statement_sha256"}
    plainly = {key: value for key, value in receipt.items() if key not in fields}
    with pytest.raises(ReceiptError, match=r"receipt of owner-1 is not of a masked"):
        _check_with_receipt(plain, {**plainly, "label": "released", "version": 1})


def _check_with_receipt(done: MaskedRound, receipt: dict[str, Any]) -> None:
    """Check what a curator signed of a receipt that owner-1 signed."""
    envelope = sign_document(receipt, make_signer(done.parties.credentials["owner-1"]))
    first, *others = done.releases
    _check(done, releases=[replace(first, envelope=envelope), *others])


@pytest.mark.parametrize("changes", [{"payload_sha256": bytes(32)}, {"seals_sha256": (bytes(32),)}])
def test_another_statement_of_the_same_owner_is_not_of_its_receipt(
    plain: MaskedRound, changes: dict[str, Any]
) -> None:
    other = replace(plain.evidence.statements[0].statement, **changes)
    signature = sign(plain.parties.masked.keys["owner-1"], Purpose.UPLOAD, other.to_bytes())
    evidence = _with_statement(plain.evidence, 0, statement=other, signature=signature)
    with pytest.raises(ReceiptError, match="statement of owner-1"):
        _check(plain, evidence=evidence)


def test_receipts_and_statements_are_of_the_same_owners(plain: MaskedRound) -> None:
    fewer = replace(plain.evidence, statements=plain.evidence.statements[:-1])
    with pytest.raises(ReceiptError, match="other owners than it has receipts of"):
        _check(plain, evidence=fewer)
    renamed = replace(plain.evidence.statements[3].statement, owner="owner-9")
    with pytest.raises(ReceiptError, match="other owners than it has receipts of"):
        _check(plain, evidence=_with_statement(plain.evidence, 3, statement=renamed))


def test_a_certificate_for_another_key_than_the_studys_does_not_count(plain: MaskedRound) -> None:
    """Whoever holds the authority's key can certify any party; the study names its keys."""
    first, *others = plain.releases
    puppet = plain.parties.authority.issue(Role.OWNER, "owner-1")
    releases = [sign_release("owner-1", first.receipt, puppet), *others]
    with pytest.raises(SignatureError, match="owner-1 was signed by another key than the study"):
        _check(plain, releases=releases)


def test_every_stream_is_opened_once(plain: MaskedRound, spare: MaskedRound) -> None:
    first, second = plain.evidence.openings
    for openings in ((first,), (first, second, second), ()):
        with pytest.raises(ReceiptError, match="every stream of masks opened once"):
            _check(plain, evidence=replace(plain.evidence, openings=openings))
    several = max(spare.evidence.openings, key=lambda opening: len(opening.streams))
    twice = _signed_again(spare, replace(several, streams=several.streams[:1]), several.opener)
    with pytest.raises(ReceiptError, match="every stream of masks opened once"):
        _check(spare, evidence=replace(spare.evidence, openings=(*spare.evidence.openings, twice)))


def test_openings_and_votes_are_for_the_set_that_the_receipt_names(
    spare: MaskedRound, other_set: MaskedRound
) -> None:
    mixed = replace(spare.evidence, openings=other_set.evidence.openings)
    with pytest.raises(SignatureError, match="opening of owner-"):
        _check(spare, evidence=mixed)
    mixed = replace(spare.evidence, votes=other_set.evidence.votes)
    with pytest.raises(SignatureError, match="vote of owner-"):
        _check(spare, evidence=mixed)

    def say(document: Any) -> None:
        digest = other_set.evidence.openings[0].set_digest
        document["sum"]["set_digest"] = digest

    with pytest.raises(ReceiptError, match="another set"):
        _check(spare, say, evidence=replace(mixed, openings=other_set.evidence.openings))


def test_votes_of_enough_openers_are_needed_each_once(spare: MaskedRound) -> None:
    votes = spare.evidence.votes
    assert len(votes) == 3 == spare.parties.terms.votes_needed
    for few in (votes[:2], (votes[0], *votes[:2]), ()):
        with pytest.raises(ReceiptError, match="3 must have voted"):
            _check(spare, evidence=replace(spare.evidence, votes=few))
    last = spare.parties.vote(spare.uploads, "owner-3")
    assert _check(spare, evidence=replace(spare.evidence, votes=(last, *votes)))


def test_a_set_below_the_quorum_is_refused_even_if_it_was_opened(spare: MaskedRound) -> None:
    def drop(document: Any) -> None:
        for release in document["releases"][3:]:
            del document["sum"]["statements"][release["owner"]]
        document["missing"] = sorted(
            {*document["missing"], *(each["owner"] for each in document["releases"][3:])}
        )
        del document["releases"][3:]

    with pytest.raises(ReceiptError, match="3 releases; the study needs 4"):
        _check(spare, drop)


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.update(openings=[{**found["openings"][0], "streams": [-1]}]),
        lambda found: found.update(openings=[{**found["openings"][0], "streams": [1 << 40]}]),
        lambda found: found.update(openings=[{**found["openings"][0], "streams": ["0"]}]),
        lambda found: found.update(openings=[{**found["openings"][0], "total_sha256": "zz"}]),
        lambda found: found.update(openings=[{**found["openings"][0], "opener": "é"}]),
        lambda found: found.update(votes=[{}]),
        lambda found: found.update(votes=None),
        lambda found: found.update(set_digest="0"),
        lambda found: found.update(statements=[]),
        lambda found: found.update(statements={}),
        lambda found: found["statements"]["owner-1"].update(payload_sha256=7),
        lambda found: found["statements"]["owner-1"].update(payload_sha256="00"),
        lambda found: found["statements"]["owner-1"].update(seals_sha256="00"),
        lambda found: found.update(more=1),
        lambda found: found["statements"]["owner-1"].update(more=1),
    ],
)
def test_evidence_of_another_form_is_refused(
    plain: MaskedRound, change: Callable[[Any], None]
) -> None:
    with pytest.raises((ReceiptError, SignatureError)):
        _check(plain, lambda document: change(document["sum"]))


def _other_colluders(study: Any) -> None:
    study["privacy"]["colluders"] = 2


def _other_opener(study: Any) -> None:
    study["openers"]["owner-3"] = study["openers"].pop("owner-2")


@pytest.mark.parametrize("change", [_other_colluders, _other_opener])
def test_evidence_is_of_one_document_and_of_no_other(
    plain: MaskedRound, change: Callable[[Any], None]
) -> None:
    """A curator that shows another document, with its digest: by what the owners signed."""

    def show(document: Any) -> None:
        change(document["study"])
        content = canonical_json(document["study"])
        document["study_digest"] = hashlib.sha256(content).hexdigest()

    with pytest.raises((ReceiptError, SignatureError, AlteredError)):
        _check(plain, show)


@pytest.fixture
def folder(plain: MaskedRound, tmp_path: Path) -> Path:
    """What a curator keeps, each file named by its digest."""
    contents = [each.payload() for each in plain.contributed.values()]
    for content in (*contents, *(opening.total for opening in plain.openings)):
        (tmp_path / hashlib.sha256(content).hexdigest()).write_bytes(content)
    return tmp_path


def _require_sum(done: MaskedRound, folder: Path, **given: Any) -> None:
    checked = _check(done, **given)
    require_sum(done.parties.study, checked.releases, checked.evidence, done.result.pooled, folder)


def test_the_pooled_sum_is_that_of_what_the_owners_and_openers_signed(
    plain: MaskedRound, folder: Path
) -> None:
    _require_sum(plain, folder)
    pooled = plain.result.pooled.copy()
    pooled[3] += 1
    with pytest.raises(AlteredError, match="array pooled"):
        _require_sum(replace(plain, result=replace(plain.result, pooled=pooled)), folder)


def test_a_file_that_is_missing_or_has_another_content_is_named(
    plain: MaskedRound, folder: Path
) -> None:
    upload = folder / hashlib.sha256(plain.contributed["owner-2"].payload()).hexdigest()
    total = folder / hashlib.sha256(plain.openings[1].total).hexdigest()
    for path, what in ((upload, "the contribution of owner-2"), (total, "the sum of owner-2")):
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(AlteredError, match=what):
            _require_sum(plain, folder)
        path.unlink()
        with pytest.raises(SettingError, match=what):
            _require_sum(plain, folder)
        path.write_bytes(content)
    _require_sum(plain, folder)


def test_an_upload_that_its_receipt_names_but_its_statement_does_not_is_found(
    plain: MaskedRound, folder: Path
) -> None:
    """An owner may sign a receipt of other bytes than it stated: the sum would not be of those."""
    mine = plain.contributed["owner-1"]
    for content, what in (
        (plain.contributed["owner-2"].payload(), "not what the receipt says of it"),
        (mine.payload()[:-8] + bytes(8), "masked vector of owner-1"),
        (b"dppca masked upload 1\n", "contribution of owner-1"),
    ):
        digest = hashlib.sha256(content).hexdigest()
        (folder / digest).write_bytes(content)
        claims = replace(mine.receipt.claims, payload_sha256=digest)
        lying = replace(mine, receipt=replace(mine.receipt, claims=claims))
        releases = [plain.parties.release("owner-1", lying), *plain.releases[1:]]
        with pytest.raises(AlteredError, match=what):
            _require_sum(plain, folder, releases=releases)


def test_openings_that_do_not_fit_the_uploads_leave_guards(
    plain: MaskedRound, folder: Path
) -> None:
    first, second = plain.openings
    total = bytes(len(first.total))
    (folder / hashlib.sha256(total).hexdigest()).write_bytes(total)
    liar = _signed_again(plain, replace(first, total=total).without_total(), "owner-1")
    openings = (liar, second.without_total())
    with pytest.raises(AlteredError, match="guards"):
        _require_sum(plain, folder, evidence=replace(plain.evidence, openings=openings))


def test_the_sum_of_unmasked_contributions_can_be_checked_too(tmp_path: Path) -> None:
    proved = make_proved_site(tmp_path)
    checked, result = verify_result(proved.signed, KnownParties(proved.ca))

    def check() -> None:
        require_sum(proved.study, checked.releases, None, result.pooled, tmp_path)

    with pytest.raises(SettingError, match="the contribution of owner-1"):
        check()
    for seed, name in enumerate(("owner-1", "owner-2")):
        rows = proved.site.folder / "rows.csv" if seed == 0 else tmp_path / f"{name}.csv"
        drawn = draw(
            proved.study,
            checked.calibration,
            moments_of_table(open_table(rows, proved.study.table), proved.study.table),
            release_id=hashlib.sha256(name.encode()).digest()[:16],
            ledger_sequence=1,
            entropy=SeededEntropy(seed),
        )
        content = drawn.payload()
        (tmp_path / hashlib.sha256(content).hexdigest()).write_bytes(content)
    check()
    pooled = result.pooled.copy()
    pooled[0] += 1
    with pytest.raises(AlteredError, match="array pooled"):
        require_sum(proved.study, checked.releases, None, pooled, tmp_path)


def test_the_command_adds_up_what_was_sent_and_says_so(
    plain: MaskedRound, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    where = tmp_path_factory.mktemp("file")
    path, ca = where / "masked.npz", where / "ca.pem"
    write_signed(path, plain.signed())
    ca.write_bytes(plain.parties.authority.pem)

    def run(*options: str) -> Any:
        arguments = ["verify", str(path), "--ca", str(ca), *options]
        return CliRunner().invoke(cli, arguments, standalone_mode=False)

    said = run().output
    assert "opened by owner-1, owner-2" in said
    assert "3 of them make all of it (4 owners at least, 1 of whom may collude)" in said
    assert "added up again" not in said
    assert "with any 2: epsilon 1.25; with all other owners: epsilon 1.81" in said
    report = json.loads(run("--uploads", str(folder), "--json").output)
    assert (report["added_up"], report["opened_by"]) == (True, ["owner-1", "owner-2"])
    assert "added up again" in run("--uploads", str(folder)).output
    (folder / hashlib.sha256(plain.openings[0].total).hexdigest()).write_bytes(b"")
    assert isinstance(run("--uploads", str(folder)).exception, AlteredError)


def test_only_components_are_added_up(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="--uploads"):
        verify_file(tmp_path / "rows.parquet", ca=None, uploads=tmp_path)
