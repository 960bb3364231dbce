"""The commands of a site with roles: `roles`, `policy propose`, `proposals`, `approve`, `withdraw`.

None of them signs, and no key of a person is ever read here: people sign elsewhere, with
``dppca-verify approve``, and hand over what that writes.
"""

from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from dppca.common.kernel.documents.values import DigestText
from dppca.common.shell.console import FILE, CommandGroup, emit, prints
from dppca.common.shell.outputs import claiming, output_folder

if TYPE_CHECKING:
    from dppca.owner.ledger.approvals import Approvals, ProposalRecord
    from dppca.owner.site.config import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedStatement:
    """A statement that people of the site sign, by its ledger."""

    statement: Annotated[DigestText, "SHA-256 of the statement"]
    kind: Annotated[str, "what it allows"]
    also: Annotated[list[str], "what a contribution's statement allows beside it"]
    study: Annotated[str | None, "name of the study; null if it is of none"]
    expires: Annotated[datetime, "when it allows nothing any more"]
    state: Annotated[str, "`waits`, `enough`, `used`, `in force`, `withdrawn`, `expired`, `stale`"]
    signed: Annotated[list[int], "numbers of the people who have signed, from 1"]
    needed: Annotated[int, "how many people must sign"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalsDocument:
    """Statements of a site."""

    roles: Annotated[int, "version of the roles in force; 0 without roles"]
    roles_sha256: Annotated[
        DigestText | None, "SHA-256 of the roles, for a study that pins them; null without roles"
    ]
    people: Annotated[list[list[str]], "fingerprints of the keys of each person, in order"]
    statements: Annotated[list[ProposedStatement], "statements of the ledger, in order"]
    written: Annotated[list[Path], "files that were written for people to sign"]


@click.group("roles", cls=CommandGroup)
def roles() -> None:
    """Say which people sign for this site, and how many must.

    `roles propose` names them. From then on each command that charges, or lets something leave,
    first makes a statement and ends with 34. `proposals --output FOLDER` writes it; each person
    runs `dppca-verify approve` on a machine of theirs; `approve` enters the signatures; then the
    command is run again. People sign with keys of ssh-keygen that they use for nothing else, never
    at the site.

    Name three people of whom two sign: if one is away, the others go on. A statement lasts 14 days.
    If a key is lost, the others sign roles without it. If fewer are left than must sign, no command
    helps: enrol a new site. So keep one person's key in a safe. If the ledger is lost, `roles
    restore` comes before `ledger recover`.

    \b
    Example:
      dppca-owner roles propose people.yaml
    """


@roles.command("propose")
@click.argument("file", type=FILE)
@prints(ProposalsDocument)
@click.pass_obj
def propose_roles_command(folder: Path, file: Path, *, as_json: bool) -> None:
    """Propose the people in FILE, whose keys then sign.

    The first time every key signs. FILE is YAML: `needed`, how many must sign; `review_by`, a day
    within 400 days; `people`, a list with the `group` and the `keys` of each; `one_of_each`, groups
    of which one person must sign, if you want that. Keys are lines of ssh-keygen, of -t ecdsa or -t
    ecdsa-sk. Name three people if two must sign: if fewer are left than must sign, no command lets
    anything leave. Compare the fingerprints by telephone before you sign. Later versions are signed
    by as many people as the old and the new one ask for, and by new keys.

    \b
    Example:
      dppca-owner roles propose people.yaml
      dppca-owner proposals --output to-sign
    """
    from dppca.common.kernel.durable.clock import utc_now
    from dppca.owner.ledger.database import open_ledger
    from dppca.owner.site.config import load_site
    from dppca.owner.site.policy import load_policy

    site = load_site(folder)
    load_policy(site)  # the first roles bring it into force
    stated = _read_people(site, file)
    with open_ledger(site.ledger, lock=site.lock) as ledger:
        ledger.propose_roles(stated, now=utc_now())
    _show(site, None, as_json=as_json)


@roles.command("restore")
@prints(ProposalsDocument)
@click.pass_obj
def restore_roles_command(folder: Path, *, as_json: bool) -> None:
    """Enter roles.json again in a ledger that was lost.

    Every signature in the file is verified. Run it before `ledger recover`.

    \b
    Example:
      dppca-owner roles restore
    """
    from dppca.owner.ledger.database import open_ledger
    from dppca.owner.site.config import load_site

    site = load_site(folder)
    with open_ledger(site.ledger, lock=site.lock) as ledger:
        ledger.restore_roles()
    _show(site, None, as_json=as_json)


@click.group("policy", cls=CommandGroup)
def policy() -> None:
    """Put a changed policy in force at a site with roles.

    \b
    Example:
      dppca-owner policy propose
    """


@policy.command("propose")
@prints(ProposalsDocument)
@click.pass_obj
def propose_policy_command(folder: Path, *, as_json: bool) -> None:
    """Propose policy.yaml as it is now.

    It is in force once enough people have signed. Until then nothing is charged, voted for, opened
    or published. A budget is a part of it.

    \b
    Example:
      dppca-owner policy propose
    """
    from dppca.common.kernel.durable.clock import utc_now
    from dppca.owner.ledger.database import open_ledger
    from dppca.owner.site.config import load_site
    from dppca.owner.site.policy import load_policy

    site = load_site(folder)
    load_policy(site)  # what is no policy is not put before people
    with open_ledger(site.ledger, lock=site.lock) as ledger:
        ledger.propose_policy(now=utc_now())
    _show(site, None, as_json=as_json)


@click.command("proposals")
@output_folder("--output", help="Folder for the statements that wait, a file for each.")
@prints(ProposalsDocument)
@click.pass_obj
def proposals(folder: Path, output: Path | None, *, as_json: bool) -> None:
    """List what waits for people to sign, and write it for them.

    The files hold facts that must not leave the site's people: hand them over as you would hand
    over the policy.

    \b
    Example:
      dppca-owner proposals
      dppca-owner proposals --output to-sign
    """
    from dppca.owner.site.config import load_site

    _show(load_site(folder), output, as_json=as_json)


@click.command("approve")
@click.argument("files", type=FILE, nargs=-1, required=True)
@prints(ProposalsDocument)
@click.pass_obj
def approve(folder: Path, files: tuple[Path, ...], *, as_json: bool) -> None:
    """Enter signatures that people have made with `dppca-verify approve`.

    Nothing leaves by this command. Once enough people have signed, run the command again that asked
    for them.

    \b
    Example:
      dppca-owner approve approval-1.json approval-2.json
    """
    from dppca.common.kernel.consent.statements import MAX_APPROVAL
    from dppca.common.kernel.durable.clock import utc_now
    from dppca.owner.ledger.database import open_ledger
    from dppca.owner.site.config import load_site

    site = load_site(folder)
    with open_ledger(site.ledger, lock=site.lock) as ledger:
        for path in files:
            ledger.approve(_read_some(path, MAX_APPROVAL), now=utc_now())
    _show(site, None, as_json=as_json)


@click.command("withdraw")
@click.argument("statement")
@prints(ProposalsDocument)
@click.pass_obj
def withdraw(folder: Path, statement: str, *, as_json: bool) -> None:
    """Withdraw a STATEMENT that was not used, for ever; its first digits are enough.

    To stop something never needs two people.

    \b
    Example:
      dppca-owner withdraw 3f9a12c0
    """
    from dppca.common.kernel.durable.clock import utc_now
    from dppca.common.kernel.errors import SettingError
    from dppca.owner.ledger.database import open_ledger
    from dppca.owner.site.config import load_site

    site = load_site(folder)
    with open_ledger(site.ledger, lock=site.lock) as ledger:
        known = ledger.history().approvals.records
        found = [digest for digest in known if statement and digest.startswith(statement)]
        if len(found) != 1:
            raise SettingError(f"{len(found)} statements begin so: see `dppca-owner proposals`")
        ledger.withdraw(found[0], now=utc_now())
    _show(site, None, as_json=as_json)


def _read_some(path: Path, most: int) -> bytes:
    """Read a file up to one byte more than any such file has."""
    from dppca.common.kernel.durable.files import open_regular
    from dppca.common.kernel.errors import SettingError

    try:
        with open_regular(path) as (file, _):
            return file.read(most + 1)
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror or error}") from error


def _read_people(site: "Site", file: Path) -> dict[str, Any]:
    """Read the people of FILE; raise `SettingError` if it is none, or a key is a machine's."""
    from dppca.common.kernel.consent.openssh import read_line
    from dppca.common.kernel.documents.yaml_text import MAX_DOCUMENT_BYTES, NotYamlError, load_yaml
    from dppca.common.kernel.errors import SettingError

    content = _read_some(file, MAX_DOCUMENT_BYTES)
    try:
        stated = load_yaml(content.decode())
        assert isinstance(stated, dict)  # noqa: S101 - made a refusal below
        people = [
            {**each, "keys": [read_line(line).line for line in each["keys"]]}
            for each in stated["people"]
        ]
        points = [read_line(line).point for each in people for line in each["keys"]]
    except (UnicodeDecodeError, NotYamlError, AssertionError, LookupError, TypeError) as error:
        raise SettingError(f"{file} is no YAML with people, their keys and groups") from error
    except AttributeError as error:
        raise SettingError(f"{file} has a key that is no text") from error
    machines = _machine_keys(site)
    if any(point in content for point in points for content in machines):
        raise SettingError(
            "a person's key is one of this site, its peers or the authority: people sign with keys "
            "of their own, which lie on no site's machine"
        )
    day = stated.get("review_by")
    return {
        "one_of_each": [],
        **stated,
        "people": people,
        "owner": site.name,
        "review_by": day.isoformat() if isinstance(day, date) else day,
    }


def _machine_keys(site: "Site") -> list[bytes]:
    """Bytes with the public points of this site's, its peers' and the authority's keys."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    from dppca.owner.site.agreement import read_peers

    found = list(read_peers(site).values())
    for path in (site.ca, site.certificate, *site.next.glob("*.pem"), *site.previous.glob("*.pem")):
        content = path.read_bytes() if path.is_file() else b""
        for name, load in (
            (b"CERTIFICATE REQUEST", x509.load_pem_x509_csr),
            (b"CERTIFICATE", x509.load_pem_x509_certificate),
        ):
            if b"BEGIN " + name + b"-" in content:
                found.append(load(content).public_bytes(Encoding.DER))
    return found


def _show(site: "Site", output: Path | None, *, as_json: bool) -> None:
    from dppca.common.kernel.consent.openssh import read_line
    from dppca.common.kernel.durable.clock import utc_now
    from dppca.common.kernel.durable.files import write_file
    from dppca.owner.ledger.file import read_history

    approvals = read_history(site.ledger).approvals
    stated = [_state(approvals, each, utc_now()) for each in approvals.records.values()]
    written: list[Path] = []
    if output is not None:
        waiting = [each.statement for each in stated if each.state == "waits"]
        files = {f"statement-{each[:12]}.json": each for each in waiting}
        with claiming(output, files):
            for name, each in files.items():
                write_file(output / name, _to_sign(site, approvals.records[each]))
                written.append(output / name)
    version, people = 0, list[list[str]]()
    digest: str | None = None
    if approvals.in_force is not None:
        form = approvals.in_force.document
        version, digest = form.version, approvals.in_force.sha256
        people = [[read_line(line).fingerprint for line in each.keys] for each in form.people]
    document = ProposalsDocument(
        roles=version, roles_sha256=digest, people=people, statements=stated, written=written
    )
    emit(document, _text(document, approvals), as_json=as_json)


def _state(approvals: "Approvals", record: "ProposalRecord", now: datetime) -> ProposedStatement:
    from dppca.common.kernel.consent.statement_kinds import StatementKind

    terms = record.statement.terms
    roles_of = record.roles if terms.kind is StatementKind.ROLES else approvals.in_force
    assert roles_of is not None  # noqa: S101 - only roles are proposed without roles
    if record.is_withdrawn:
        state = "withdrawn"
    elif record.is_in_force or record.uses:
        state = "in force" if record.is_in_force else "used"
    elif not approvals.is_current(record):
        state = "stale"
    elif now >= record.statement.expires:
        state = "expired"
    else:
        state = "enough" if approvals.is_enough(record) else "waits"
    return ProposedStatement(
        statement=record.statement.sha256,
        kind=terms.kind.value,
        also=[] if terms.also is None else terms.also.words,
        study=terms.study,
        expires=record.statement.expires,
        state=state,
        signed=sorted(number + 1 for number in roles_of.signed_by(record.points)),
        needed=roles_of.document.needed,
    )


def _to_sign(site: "Site", record: "ProposalRecord") -> bytes:
    """Return a statement with its facts, and its study if this site keeps it."""
    from dppca.common.kernel.documents.values import canonical_json
    from dppca.common.kernel.errors import DppcaError
    from dppca.owner.site.kept_studies import kept_study

    study = None
    if record.statement.terms.study is not None:
        try:
            found = kept_study(site, record.statement.terms.study)
            same = found.digest == record.statement.terms.study_digest
            study = found.canonical_bytes().decode() if same else None
        except DppcaError:
            study = None  # the signer is told that the study is not there
    return canonical_json(
        {
            "statement": record.statement.content.decode(),
            "facts": canonical_json(dict(record.facts)).decode(),
            "study": study,
        }
    )


def _text(document: ProposalsDocument, approvals: "Approvals") -> str:
    lines = ["This site has no roles."]
    if approvals.in_force is not None:
        form = approvals.in_force.document
        lines = [f"Roles {document.roles}. A study pins them by:"]
        pin = f"{{needed: {form.needed}, roles: {document.roles_sha256}}}"
        lines.append(f"  signatories: {{{form.owner}: {pin}}}")
    for number, keys in enumerate(document.people, start=1):
        lines.append(f"  p{number}: {', '.join(keys)}")
    for each in document.statements:
        study = f" of study {each.study}" if each.study else ""
        signed = ", ".join(f"p{number}" for number in each.signed) or "nobody"
        lines.append(
            f"{each.statement[:12]} {each.kind}{study}: {each.state}; signed by {signed}, "
            f"{each.needed} must; until {each.expires:%Y-%m-%d %H:%M} UTC"
        )
        lines += [f"  beforehand, once: {words}" for words in each.also]
    lines += [f"Written: {path}. To sign it: dppca-verify approve" for path in document.written]
    return "\n".join(lines)
