"""What an auditor is told of a site's bundle, as a document and in words."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from dppca.common.kernel.attestation.parties import KnownParties, MetCertificate
from dppca.common.kernel.attestation.signatures import UNVOUCHED, UNVOUCHED_WHY, VouchingAuthority
from dppca.common.kernel.consent.openssh import read_line
from dppca.common.kernel.consent.roles import Roles
from dppca.common.kernel.documents.amounts import decimal_text, spent_text
from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.documents.values import DecimalText, DigestText, TimeText
from dppca.common.kernel.errors import ReceiptError
from dppca.common.kernel.identity.revoked import RevocationList
from dppca.common.verification.audit.chain import Chain, Spent
from dppca.common.verification.audit.form import AUDIT, AuditDocument, PastLook, read_audit
from dppca.common.verification.audit.looks import find_replaced, require_continued, require_looks
from dppca.common.verification.audit.people import SignedEntry, SignedRecord, roles_by_digest

_DONE = {
    "vote": "vote on a set of study",
    "open": "opening of a set of study",
    "published": "synthetic rows of study",
    "recovered": "recovered contribution to study",
    "disowned": "disowned contribution to study",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedPopulation:
    """People whose rows were released, by the names and places of the ledger."""

    population: Annotated[str, "name of the population"]
    also: Annotated[tuple[str, ...], "other populations that the ledger ties to it"]
    releases: Annotated[int, "releases that count for it"]
    promise: Annotated[str, "promise of its budget that all of them keep"]
    spent: Annotated[DecimalText | None, "epsilon spent at the budget's delta; null if not finite"]
    budget_epsilon: Annotated[DecimalText, "epsilon of the budget at its last charge"]
    budget_delta: Annotated[DecimalText, "delta of that budget"]
    within: Annotated[bool, "whether that budget covers what was spent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedRoles:
    """Roles of the site that are in force."""

    version: Annotated[int, "their version"]
    sha256: Annotated[DigestText, "their SHA-256, which a study may pin"]
    needed: Annotated[int, "how many people must sign"]
    people: Annotated[list[list[str]], "fingerprints of the keys of each person, in order"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedRelease:
    """Something that left the site or was charged there, and who has signed it."""

    entry: Annotated[int, "number of the ledger's entry"]
    time: Annotated[TimeText, "when it was entered"]
    what: Annotated[str, "what it was, in words"]
    epsilon: Annotated[DecimalText | None, "epsilon of its guarantee; null if it has none"]
    delta: Annotated[DecimalText | None, "delta of its guarantee; null if it has none"]
    signed: Annotated[tuple[int, ...], "numbers of the people who have signed, from 1"]
    needed: Annotated[int, "how many had to sign by the roles of that time; 0 without roles"]
    lacks: Annotated[str | None, "what is missing of the signatures; null if nothing is"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedLook:
    """An earlier export of the site's record."""

    number: Annotated[int, "its number, from 1"]
    time: Annotated[TimeText, "when it was made"]
    account: Annotated[str, "account that ran the command, as the site states it"]
    caller: Annotated[str, "who asked for it, as `sudo` stated it; empty without"]
    entries: Annotated[int, "entries of the ledger at that time"]
    sha256: Annotated[DigestText, "SHA-256 of its audit.json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """A site's bundle whose signature, ledger and receipts hold."""

    file: Annotated[Path, "the bundle"]
    sha256: Annotated[DigestText, "SHA-256 of the bundle, which the next one names"]
    owner: Annotated[str, "name of the site"]
    authority: Annotated[
        VouchingAuthority | None, "who certified the site; null: nobody vouches for the bundle"
    ]
    software: Annotated[str, "version that made the bundle"]
    number: Annotated[int, "number of the export, from 1"]
    time: Annotated[TimeText, "when it was made, as the site states it"]
    entries: Annotated[int, "entries of the ledger"]
    withheld: Annotated[int, "entries with a part that stays at the site"]
    head: Annotated[DigestText, "hash of the last entry"]
    continues: Annotated[int | None, "export that it continues, which was given; null for none"]
    populations: Annotated[tuple[AuditedPopulation, ...], "what was spent"]
    roles: Annotated[AuditedRoles | None, "who signs at the site; null without roles"]
    releases: Annotated[tuple[AuditedRelease, ...], "what left or was charged, in order"]
    unsigned: Annotated[tuple[int, ...], "entries that lack signatures which the roles ask for"]
    looks: Annotated[tuple[AuditedLook, ...], "exports before this one"]
    replaced: Annotated[tuple[int, ...], "of these, the ones whose ledger is no part of this one"]
    certificates: Annotated[tuple[MetCertificate, ...], "certificates whose keys signed"]


def check_audit(
    path: Path,
    *,
    ca: bytes | None,
    revoked: RevocationList | None = None,
    since: Path | None = None,
) -> AuditReport:
    """Verify a site's bundle, and that it continues the one at ``since``.

    Raise `SignatureError`, `AlteredError` or `ReceiptError` if it does not hold, `ChainError` if it
    does not continue the other, and `SettingError` if a file cannot be read.
    """
    parties = KnownParties(ca, revoked=revoked)
    document, sha256 = read_audit(path, parties)
    chain, people = _replay(document)
    continues = None
    if since is not None:
        # Its holder's own note: whether its key was revoked later changes nothing about it.
        before, noted = read_audit(since, KnownParties(ca))
        require_continued(document, before, noted)
        continues = before.look.number
    releases = tuple(map(_released, people.entries))
    return AuditReport(
        file=path,
        sha256=sha256,
        owner=document.owner,
        authority=parties.authority(),
        software=document.software,
        number=document.look.number,
        time=document.look.time,
        entries=len(chain.entries),
        withheld=sum(each.withheld is not None for each in chain.entries),
        head=chain.head,
        continues=continues,
        populations=tuple(map(_population, chain.spent())),
        roles=None if people.in_force is None else _roles(people.in_force),
        releases=releases,
        unsigned=tuple(each.entry for each in releases if each.lacks is not None),
        looks=tuple(map(_look, document.looks)),
        replaced=tuple(find_replaced(document.looks, chain)),
        certificates=parties.certificates(now=datetime.now(UTC), deadline=None),
    )


def _replay(document: AuditDocument) -> tuple[Chain, SignedRecord]:
    """Verify all that a bundle says of itself."""
    chain = Chain()
    people = SignedRecord(document.owner, roles_by_digest(document.roles, document.owner))
    for each in document.entries:
        people.add(chain.add(each))
    chain.require_receipts(document.receipts)
    require_looks(document.looks, document.look)
    if (document.look.entries, document.look.head) != (len(chain.entries), chain.head):
        raise ReceiptError("the export names another ledger than the one in the bundle")
    return chain, people


def audit_text(report: AuditReport, *, ca: Path | None) -> str:
    """Say in words what holds of a bundle, and what does not."""
    return "\n".join(one_line(line) for _, lines in _parts(report, ca=ca) for line in lines)


def audit_page(report: AuditReport, *, ca: Path | None) -> str:
    """Return the same words as a page that prints on A4; it loads nothing."""
    from dppca.common.verification.dossier.sheets import Fact, Section, Sheet
    from dppca.common.verification.dossier.writing import html_page

    def fact(line: str) -> Fact:
        name, _, text = one_line(line.strip()).partition(": ")
        return Fact(name, text, AUDIT)

    sections = tuple(
        Section(heading, tuple(map(fact, found)))
        for heading, lines in _parts(report, ca=ca)
        if (found := list(lines))
    )
    whose = "Checked here, by who printed it, not by the site: what the site signed, and no more."
    title, origin = f"Record of site {report.owner}", f"{AUDIT}, SHA-256 {report.sha256}"
    return html_page(Sheet(title, whose, sections, origin))


def _parts(report: AuditReport, *, ca: Path | None) -> Iterator[tuple[str, Iterator[str]]]:
    """Headings of the page, each with its lines of text."""
    yield "The record", _record_lines(report, ca)
    yield "What was spent", map(_population_line, report.populations)
    yield "Who signs", _roles_lines(report)
    yield "What left or was charged", _release_lines(report)
    yield "Exports before it, and certificates", _look_lines(report)


def _record_lines(report: AuditReport, ca: Path | None) -> Iterator[str]:
    if report.authority is None:
        yield f"{UNVOUCHED}: {UNVOUCHED_WHY} --ca"
    yield f"export {report.number} of site {report.owner}, {report.time}, SHA-256 {report.sha256}"
    if report.authority is not None:
        yield f"  vouched for by {report.authority} ({ca})"
    yield (
        f"  ledger: {report.entries} entries, each follows the one before it, to the head "
        f"{report.head}; {report.withheld} with a part that stays at the site"
    )
    if report.continues is None:
        yield (
            "  whether entries were taken from its end, or it is another ledger, nobody can see "
            "without an earlier bundle (--since)"
        )
    else:
        yield f"  it continues export {report.continues}, which you hold"


def _release_lines(report: AuditReport) -> Iterator[str]:
    yield from map(_release_line, report.releases)
    if report.unsigned:
        yield f"  SIGNATURES ARE MISSING: entries {', '.join(map(str, report.unsigned))}"


def _look_lines(report: AuditReport) -> Iterator[str]:
    for each in report.looks:
        asked = f" for {each.caller}" if each.caller else ""
        other = "; ITS LEDGER IS NO PART OF THIS ONE" if each.number in report.replaced else ""
        yield (
            f"  export {each.number}: {each.time}, by account {each.account}{asked}, "
            f"{each.entries} entries{other}"
        )
    for met in report.certificates:
        yield from (f"  the certificate of {met.party}, {met.serial}, {r}" for r in met.remarks)


def _population_line(each: AuditedPopulation) -> str:
    also = f", with {', '.join(each.also)}" if each.also else ""
    over = "" if each.within else "; ABOVE ITS BUDGET"
    return (
        f"  population {each.population}{also}: epsilon {spent_text(each.spent)} of "
        f"{each.budget_epsilon} spent at delta {each.budget_delta}, by {each.releases} releases "
        f"({each.promise}){over}"
    )


def _roles_lines(report: AuditReport) -> Iterator[str]:
    roles = report.roles
    if roles is None:
        yield "  the site has no roles: nobody was asked to sign"
        return
    yield (
        f"  roles, version {roles.version}: {roles.needed} of {len(roles.people)} people must "
        f"sign; SHA-256 {roles.sha256}"
    )
    for number, keys in enumerate(roles.people, start=1):
        yield f"    p{number}: {', '.join(keys)}"


def _release_line(each: AuditedRelease) -> str:
    cost = "" if each.epsilon is None else f", epsilon {each.epsilon}, delta {each.delta}"
    who = ", ".join(f"p{number}" for number in each.signed) or "nobody"
    if each.lacks is not None:
        signed = f"LACKS SIGNATURES: {each.lacks}"
    elif each.needed:
        signed = f"signed by {who} ({each.needed} had to)"
    else:
        signed = "the site had no roles then"
    return f"  entry {each.entry}, {each.time}, {each.what}{cost}: {signed}"


def _population(spent: Spent) -> AuditedPopulation:
    return AuditedPopulation(
        population=spent.population,
        also=spent.tied,
        releases=spent.releases,
        promise=spent.promise.value,
        spent=_decimal(spent.epsilon),
        budget_epsilon=decimal_text(spent.budget.epsilon),
        budget_delta=decimal_text(spent.budget.delta),
        within=spent.is_within,
    )


def _decimal(value: Decimal | None) -> str | None:
    return None if value is None else decimal_text(value)


def _roles(roles: Roles) -> AuditedRoles:
    form = roles.document
    return AuditedRoles(
        version=form.version,
        sha256=roles.sha256,
        needed=form.needed,
        people=[[read_line(line).fingerprint for line in each.keys] for each in form.people],
    )


def _released(signed: SignedEntry) -> AuditedRelease:
    entry = signed.entry
    charged = entry.kind in ("reserve", "recovered")
    what = _DONE.get(entry.kind, "contribution to study")
    if entry.model:
        what = f"{entry.model} of study"
    return AuditedRelease(
        entry=entry.sequence,
        time=entry.time,
        what=f"{what} {entry.study}",
        epsilon=entry.epsilon if charged else None,
        delta=entry.delta if charged else None,
        signed=signed.signed,
        needed=signed.needed,
        lacks=signed.lacks,
    )


def _look(look: PastLook) -> AuditedLook:
    return AuditedLook(**look.model_dump(exclude={"head", "previous"}))
