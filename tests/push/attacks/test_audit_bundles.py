"""Bundles for an auditor that somebody bent, with or without the site's key."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dppca.common.kernel.attestation.envelopes import SUFFIX, Claim, sign_file, write_signed
from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.consent.statement_terms import Also, AlsoRows
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.errors import (
    AlteredError,
    ChainError,
    DppcaError,
    NotApprovedError,
    ReceiptError,
    SettingError,
    SignatureError,
)
from dppca.common.kernel.identity.tls import Role
from dppca.common.verification.audit import form
from dppca.common.verification.cli import cli
from dppca.owner.cli import cli as owner
from tests.support.audits import AuditedSite, add_model, entry_of, make_audited_site, parsed
from tests.support.certificates import Authority, new_authority
from tests.support.commands import answer_of, run_here

Bend = Callable[[dict[str, Any]], Any]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> AuditedSite:
    """A site with everything signed; tests that change it take a copy."""
    return make_audited_site(tmp_path_factory.mktemp("audited") / "site", authority)


@pytest.fixture(scope="module")
def bundle(audited: AuditedSite, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its first export."""
    return audited.export(tmp_path_factory.mktemp("bundle") / "first")


@pytest.fixture(scope="module")
def beforehand(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> AuditedSite:
    also = Also(opening=True, rows=AlsoRows(forms=("coded",), number=5))
    return make_audited_site(tmp_path_factory.mktemp("also") / "site", authority, also=also)


@pytest.fixture
def fresh(tmp_path: Path, authority: Authority) -> AuditedSite:
    """A site for one test, which changes it."""
    return make_audited_site(tmp_path / "site", authority)


def _swap(document: dict[str, Any]) -> None:
    entries = document["entries"]
    entries[5], entries[6] = entries[6], entries[5]


def _of(kind: str, which: int = 0, /, **changes: Any) -> Bend:
    return lambda document: entry_of(document, kind, which).update(changes)


def _without(kind: str, key: str, which: int = 0) -> Bend:
    return lambda document: entry_of(document, kind, which).pop(key)


def _twice(kind: str) -> Bend:
    return lambda document: document["entries"].append(dict(entry_of(document, kind)))


FORMS: dict[str, tuple[Bend, str]] = {
    "another version": (lambda d: d.update(version=2), "one form"),
    "a key too many": (lambda d: d.update(rows=[]), "one form"),
    "a key too few": (lambda d: d.pop("receipts"), "one form"),
    "entries are no list": (lambda d: d.update(entries={}), "one form"),
    "a number is text": (lambda d: d["look"].update(number="1"), "one form"),
    "a number is a truth": (lambda d: d["look"].update(number=True), "one form"),
    "entries swapped": (_swap, "entry 6: it does not follow"),
    "an entry out of the middle": (lambda d: d["entries"].pop(7), "entry 8: it does not follow"),
    "the last entry": (lambda d: d["entries"].pop(), "another ledger than the one"),
    "an amount changed": (_of("sent", release_id="ab"), "does not have its hash"),
}
"""Changes without new hashes."""
MEANINGS: dict[str, tuple[Bend, str]] = {
    "a kind that no ledger has": (_of("offer", kind="gift"), "no entry of a ledger"),
    "a key of another kind": (_of("offer", n_rows=3), "other keys"),
    "a key that is null": (_of("reserve", reading_sha256=None), "other keys"),
    "an amount with a sign": (_of("reserve", charged_epsilon="-1"), "no entry of a ledger"),
    "an amount without end": (_of("reserve", charged_epsilon="9" * 40), "its amounts are none"),
    "rows are a fraction": (_of("commit", n_rows=10.5), "no entry of a ledger"),
    "facts are sent along": (_of("proposed", facts="{}"), "no entry of a ledger"),
    "reading is sent along": (_of("reserve", reading_sha256="a" * 64), "withholds something"),
    "more is withheld": (_of("sent", withheld=["release_id"]), "withholds something"),
    "random bytes beside": (_of("reserve", salt="0" * 32), "withholds something"),
    "a release sent twice": (_twice("sent"), "sent before"),
    "a release committed twice": (_twice("commit"), "committed before"),
    "a study charged twice": (_twice("reserve"), "was reserved or recovered before"),
    "above its budget": (_of("reserve", budget_epsilon="0.5"), "above its budget"),
    "a number had left": (_of("reserve", promise="people added"), "promise hides has left"),
    "another relation": (_of("reserve", relation="none"), "its amounts are none"),
    "no price if replaced": (_of("reserve", relation="add-or-remove-one"), "its amounts are none"),
    "no receipt": (lambda d: d["receipts"].clear(), "another number of receipts"),
    "another receipt": (lambda d: d["receipts"][0].update(label="x"), "its digest"),
    "another charge": (_of("reserve", delta="0.1"), "its receipt says otherwise in delta"),
    "another number of rows": (_of("commit", n_rows=11), "its receipt says otherwise in n_rows"),
    "no statement": (_of("proposed", statement="{}"), r"damaged in it \(SignatureError\)"),
    "a statement twice": (_twice("proposed"), "proposed before"),
    "no signature": (_of("approved", signature="AA=="), r"damaged in it \(SignatureError\)"),
    "a signature twice": (_twice("approved"), "was used or withdrawn before"),
    "of no statement": (_of("approved", proposal="a" * 64), r"damaged in it \(KeyError\)"),
    "signed too late": (_of("approved", time="2027-01-02T03:04:05+00:00"), "had expired"),
    "proposed another day": (_of("proposed", time="2026-02-02T03:04:05+00:00"), "another hour"),
    "roles gone": (lambda d: d["roles"].clear(), r"damaged in it \(KeyError\)"),
    "roles twice": (lambda d: d["roles"].append(d["roles"][0]), "the same ones twice"),
    "roles of fewer": (lambda d: d["roles"][0].update(needed=1), r"\(KeyError\)"),
    "roles of another site": (lambda d: d["roles"][0].update(owner="clinic"), "another site"),
    "no roles": (lambda d: d["roles"][0].update(needed=0), "roles that are none"),
    "exports from 2": (lambda d: d["look"].update(number=2), "export 1 .* does not follow"),
    "an export before": (lambda d: d["look"].update(previous="a" * 64), "does not follow"),
}
"""Changes after which somebody with the site's key computed all hashes again."""


@pytest.mark.parametrize("what", FORMS)
def test_another_form_is_refused_though_the_site_signed_it(
    audited: AuditedSite, bundle: Path, tmp_path: Path, what: str
) -> None:
    bend, said = FORMS[what]
    with pytest.raises(ReceiptError, match=said):
        audited.check(audited.bent(bundle, bend, tmp_path / "bent", again=False))


@pytest.mark.parametrize("what", MEANINGS)
def test_what_no_ledger_says_is_refused_though_the_hashes_fit(
    audited: AuditedSite, bundle: Path, tmp_path: Path, what: str
) -> None:
    bend, said = MEANINGS[what]
    with pytest.raises(ReceiptError, match=said):
        audited.check(audited.bent(bundle, bend, tmp_path / "bent"))


@pytest.mark.parametrize(
    "write",
    [
        lambda content: content.replace(b'"version":1}', b'"version":1,"version":1}'),
        lambda content: content.replace(b'{"entries"', b'{"software":"a","entries"'),
        lambda content: content + b"\n",
        lambda content: content.replace(b":", b": ", 1),
        lambda content: b"[" * 100_000 + content,
        lambda _: b"\xff",
        lambda _: b"NaN",
        lambda _: b'"\\ud800"',
    ],
)
def test_json_in_another_form_is_refused(
    audited: AuditedSite, bundle: Path, tmp_path: Path, write: Callable[[bytes], bytes]
) -> None:
    content = bundle.read_bytes()
    assert write(content) != content
    with pytest.raises(ReceiptError, match="one form"):
        audited.check(audited.sign(write(content), tmp_path / "bent"))


def test_what_is_too_large_is_not_read(
    audited: AuditedSite, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = bundle.stat().st_size
    monkeypatch.setattr(form, "MAX_BYTES", size - 1)
    with pytest.raises(AlteredError, match=f"{size} bytes"):
        audited.check(bundle)
    line = ("--site", audited.folder, "audit", "--output", tmp_path / "large")
    code, _, said = run_here(owner, *line)
    assert (code, "an auditor reads at most" in said) == (SettingError.exit_code, True)
    monkeypatch.undo()
    monkeypatch.setattr(form, "_MOST_MARKS", 10)
    with pytest.raises(ReceiptError, match="one form"):
        audited.check(bundle)


def test_whoever_else_signs_it_is_found(
    audited: AuditedSite, bundle: Path, tmp_path: Path, authority: Authority
) -> None:
    content = bundle.read_bytes()
    for role, name in ((Role.OWNER, "clinic"), (Role.CURATOR, "hospital")):
        signed = audited.sign(content, tmp_path / "other", authority.issue(role, name))
        with pytest.raises(SignatureError, match="is of site hospital"):
            audited.check(signed)
    stranger = new_authority().issue(Role.OWNER, "hospital")
    with pytest.raises(SignatureError, match="not signed by the authority"):
        audited.check(audited.sign(content, tmp_path / "stranger", stranger))
    signer = make_signer(audited.credentials)
    write_signed(tmp_path / "audit.json", sign_file("audit.json", content, Claim.MODEL, {}, signer))
    with pytest.raises(ReceiptError, match="another kind of file"):
        audited.check(tmp_path / "audit.json")
    changed = Path(shutil.copytree(bundle.parent, tmp_path / "changed")) / bundle.name
    changed.write_bytes(content[:-1] + b" ")
    with pytest.raises(AlteredError):
        audited.check(changed)
    changed.with_name(bundle.name + SUFFIX).unlink()
    with pytest.raises(ReceiptError, match="no envelope"):
        audited.check(changed)


def test_parts_of_two_sites_do_not_mix(
    audited: AuditedSite, bundle: Path, tmp_path: Path, authority: Authority
) -> None:
    other = make_audited_site(tmp_path / "other", authority)
    theirs = json.loads(other.export(tmp_path / "theirs").read_bytes())

    def mix(document: dict[str, Any]) -> None:
        last = document["entries"][-1]["sha256"]
        following = [{**each, "previous": last} for each in theirs["entries"][-1:]]
        document["entries"] += following

    with pytest.raises(ReceiptError, match="does not follow"):
        audited.check(audited.bent(bundle, mix, tmp_path / "bent", again=False))
    with pytest.raises(ReceiptError, match="sent before"):
        audited.check(audited.bent(bundle, mix, tmp_path / "bent"))
    with pytest.raises(ReceiptError, match="says otherwise"):
        audited.check(
            audited.bent(
                bundle, lambda d: d.update(receipts=theirs["receipts"]), tmp_path / "receipts"
            )
        )
    signed_by_other = audited.bent(bundle, lambda d: d.update(owner="clinic"), tmp_path / "renamed")
    with pytest.raises(SignatureError, match="is of site clinic"):
        audited.check(signed_by_other)
    clinic = AuditedSite(tmp_path, authority, authority.issue(Role.OWNER, "clinic"))
    renamed = clinic.bent(bundle, lambda d: d.update(owner="clinic"), tmp_path / "renamed")
    with pytest.raises(ReceiptError, match="roles of another site"):
        clinic.check(renamed)

    def rename(document: dict[str, Any]) -> None:
        document.update(owner="clinic", roles=[])

    with pytest.raises(ReceiptError, match="statement is of another site"):
        clinic.check(clinic.bent(bundle, rename, tmp_path / "renamed"))


UNSIGNED: dict[str, tuple[Bend, str]] = {
    "nobody": (_without("reserve", "consent"), "nobody has signed it"),
    "another statement": (
        lambda d: entry_of(d, "reserve", 1).update(consent=entry_of(d, "reserve")["consent"]),
        "used for something else",
    ),
    "another kind": (
        lambda d: entry_of(d, "published").update(consent=entry_of(d, "vote")["consent"]),
        "used for something else",
    ),
    "another release": (_of("reserve", 1, release_id="ab" * 16), "signed something else"),
    "another price": (_of("reserve", 1, charged_epsilon="0.5"), "signed something else"),
    "another study": (_of("vote", study="other"), "signed something else"),
    "another set": (_of("published", rows_sha256="8" * 64), "signed something else"),
    "an opening of another set": (_of("open", set_digest="8" * 64), "used for something else"),
    "too late": (_of("reserve", 1, time="2026-06-02T03:04:05+00:00"), "had expired"),
    "one signature": (
        lambda d: d["entries"].remove(entry_of(d, "approved", 10)),
        "too few people have signed it",
    ),
}


@pytest.mark.parametrize("what", UNSIGNED)
def test_what_left_without_its_signatures_is_named(
    audited: AuditedSite, bundle: Path, tmp_path: Path, what: str
) -> None:
    bend, said = UNSIGNED[what]
    report = audited.check(audited.bent(bundle, bend, tmp_path / "bent"))
    lacking = [each for each in report.releases if each.lacks is not None]
    assert tuple(each.entry for each in lacking) == report.unsigned
    assert [each.lacks or "" for each in lacking if said in (each.lacks or "")], lacking
    assert len(report.unsigned) <= 2


def _of_contribution(kind: str, **changes: Any) -> Bend:
    """Something that was signed with its own statement, under the contribution's."""

    def bend(document: dict[str, Any]) -> None:
        mine = entry_of(document, "reserve")["consent"]
        entry_of(document, kind).update(consent=mine, **changes)

    return bend


BEFOREHAND: dict[str, tuple[Bend | None, str]] = {
    "as it was signed": (None, ""),
    "more rows": (_of("published", n_rows=6), "used for something else"),
    "another form": (_of("published", forms="decoded"), "used for something else"),
    "another study": (_of("published", study_digest="8" * 64), "used for something else"),
    "another study's key": (_of("vote", study_digest="8" * 64), "used for something else"),
    "an opening of another set": (_of("open", set_digest="8" * 64), "used for something else"),
    "too late": (_of("published", time="2026-09-02T03:04:05+00:00"), "had expired"),
}


@pytest.mark.parametrize("what", BEFOREHAND)
def test_what_was_signed_beforehand_is_found_and_nothing_else(
    beforehand: AuditedSite, tmp_path: Path, what: str
) -> None:
    bend, said = BEFOREHAND[what]
    bundle = beforehand.export(tmp_path / "bundle")
    if bend is None:
        assert beforehand.check(bundle).unsigned == ()
        return
    report = beforehand.check(beforehand.bent(bundle, bend, tmp_path / "bent"))
    assert [each for each in report.releases if said in (each.lacks or "")], report.releases


def test_a_plain_contribution_allows_no_opening_and_no_rows(
    audited: AuditedSite, bundle: Path, tmp_path: Path
) -> None:
    for kind in ("vote", "published"):
        bent = audited.bent(bundle, _of_contribution(kind), tmp_path / kind)
        assert audited.check(bent).unsigned


def test_a_record_that_does_not_continue_the_one_that_was_kept_is_refused(
    fresh: AuditedSite, tmp_path: Path
) -> None:
    bundle = fresh.export(tmp_path / "first")
    with fresh.open() as ledger:
        add_model(ledger, "later")
    later = fresh.export(tmp_path / "later")
    report = fresh.check(later, since=bundle)
    assert (report.continues, report.number, report.replaced) == (1, 2, ())
    n_before = len(parsed(bundle).entries)

    def drop(document: dict[str, Any]) -> None:
        del document["entries"][n_before - 1 :]

    for bend, said in (
        (drop, "last ones were taken away"),
        (_of("offer", time="2026-01-02T03:04:06+00:00"), "entry 5 of the ledger is not the one"),
        (lambda d: d["looks"][0].update(caller="nobody"), "export 1 of the bundle is not the one"),
        (lambda d: d["looks"][0].update(entries=3), "export 1 of the bundle is not the one"),
    ):
        bent = fresh.bent(later, bend, tmp_path / "bent")
        with pytest.raises(ChainError, match=said):
            fresh.check(bent, since=bundle)
    for old in (later, fresh.export(tmp_path / "third")):
        with pytest.raises(ChainError, match="not earlier"):
            fresh.check(later, since=old)
    (fresh.folder / "looks.jsonl").unlink()
    with pytest.raises(ChainError, match="not earlier"):
        fresh.check(fresh.export(tmp_path / "forgotten"), since=bundle)
    fresh.export(tmp_path / "forgotten-2")
    with pytest.raises(ChainError, match="log of exports is another one"):
        fresh.check(fresh.export(tmp_path / "forgotten-3"), since=bundle)


def test_another_ledger_at_an_earlier_export_is_shown_without_an_earlier_bundle(
    fresh: AuditedSite, tmp_path: Path
) -> None:
    fresh.export(tmp_path / "first")
    with fresh.open() as ledger:
        add_model(ledger, "later")
    later = fresh.export(tmp_path / "later")

    other = _of("sent", time="2026-01-02T03:04:06+00:00")
    assert fresh.check(fresh.bent(later, other, tmp_path / "bent")).replaced == (1,)


def test_both_commands_end_with_a_code_for_what_is_wrong(
    fresh: AuditedSite, tmp_path: Path
) -> None:
    bundle = fresh.export(tmp_path / "first")
    ca = tmp_path / "ca.pem"
    ca.write_bytes(fresh.authority.pem)

    def run(path: Path, *more: object) -> tuple[int, Any]:
        return answer_of("dppca-verify", cli, "audit", path, "--ca", ca, *more)

    second = fresh.export(tmp_path / "second")
    code, found = run(second, "--since", bundle)
    assert (code, found["continues"], found["unsigned"]) == (0, 1, [])
    assert answer_of("dppca-verify", cli, "audit", second)[0] == 52
    unsigned = fresh.bent(second, UNSIGNED["nobody"][0], tmp_path / "unsigned")
    code, found = run(unsigned)
    assert (code, len(found["unsigned"])) == (NotApprovedError.exit_code, 1)
    for bend, again, error in (
        (_swap, False, ReceiptError),
        (MEANINGS["above its budget"][0], True, ReceiptError),
        (lambda d: d.update(owner="clinic"), True, SignatureError),
    ):
        bent = fresh.bent(second, bend, tmp_path / "bent", again=again)  # type: ignore[arg-type]
        code, found = run(bent)
        assert (code, found["error"]["class"]) == (error.exit_code, error.__name__)
    code, found = run(bundle, "--since", second)
    assert (code, found["error"]["class"]) == (ChainError.exit_code, "ChainError")
    old = fresh.bent(second, lambda d: d["looks"][0].update(head="a" * 64), tmp_path / "old")
    code, found = run(old)
    assert (code, found["replaced"]) == (ChainError.exit_code, [1])


BENT_LOGS: list[Callable[[str], str]] = [
    lambda text: text[:-2],
    lambda text: text.replace('"number":1', '"number":2'),
    lambda text: text.replace('"entries":', '"entries": '),
    lambda text: text + text,
    lambda _: "[]\n",
    lambda _: "\ud800",
]


def test_a_site_whose_log_of_exports_was_bent_exports_nothing(
    fresh: AuditedSite, tmp_path: Path
) -> None:
    fresh.export(tmp_path / "first")
    log = fresh.folder / "looks.jsonl"
    line = ("--site", fresh.folder, "audit", "--output", tmp_path / "no")
    sound = log.read_text()
    for bend in BENT_LOGS:
        bent = bend(sound).encode(errors="surrogatepass")
        log.write_bytes(bent)
        code, found = answer_of("dppca-owner", owner, *line)
        assert (code, "looks.jsonl was changed" in found["error"]["message"]) == (10, True)
        assert log.read_bytes() == bent
        assert not (tmp_path / "no").exists()


def test_the_form_is_the_one_that_is_written(bundle: Path) -> None:
    content = bundle.read_bytes()
    assert canonical_json(parsed(bundle).model_dump()) == content
    assert issubclass(ReceiptError, DppcaError)
