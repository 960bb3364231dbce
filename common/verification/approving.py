"""``dppca-verify approve``: a person of a site reads a statement and signs it, elsewhere.

What is shown comes from the statement, its facts and the study, which are checked against each
other; what an author of the study wrote is quoted, at the end. OpenSSH signs: it asks for the
passphrase, or for a touch of the token.
"""

import base64
import binascii
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from dppca.common.kernel.consent.openssh import PersonKey
from dppca.common.kernel.consent.statement_kinds import StatementKind
from dppca.common.kernel.consent.statements import (
    MAX_FACTS,
    MAX_STATEMENT,
    SignableStatement,
    encoded,
    find_signer,
    read_facts,
    read_signable,
    write_approval,
)
from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.documents.values import DigestText, canonical_json
from dppca.common.kernel.errors import DppcaError, SettingError, SignatureError
from dppca.common.kernel.study import Study, study_from_canonical

MOST_STUDY = 4 << 20  # bytes, as of a file that a person writes
_MOST = 2 * (MAX_STATEMENT + MAX_FACTS + MOST_STUDY)  # JSON within JSON escapes every quote
_DAY = timedelta(days=1)  # clocks of two machines may differ so far
_ARMOUR = re.compile(
    rb"\s*-----BEGIN SSH SIGNATURE-----\n([A-Za-z0-9+/=\n]+)-----END SSH SIGNATURE-----\s*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDocument:
    """A signature that a person made."""

    statement: Annotated[DigestText, "SHA-256 of the statement"]
    kind: Annotated[str, "what it allows"]
    owner: Annotated[str, "the site that it is of"]
    fingerprint: Annotated[str, "OpenSSH's fingerprint of the key"]
    approval: Annotated[Path, "file to hand back to the site"]


@dataclass(frozen=True, slots=True)
class ReadProposal:
    """A statement as it came, checked: its facts, and its study if that came with it."""

    statement: SignableStatement
    facts: dict[str, Any]
    study: Study | None


def read_proposal(content: bytes, *, now: datetime) -> ReadProposal:
    """Read and check what a site has written to be signed.

    Raise `SignatureError` if its parts do not belong together, the study has another price than is
    stated, it has expired, or it was proposed more than a day from now.
    """
    found = _parse(content)
    statement, facts, study = found.statement, found.facts, found.study
    terms = statement.terms
    if study is not None and study.digest != terms.study_digest:
        raise SignatureError("the study beside the statement is not the one that it names")
    if study is None and terms.kind is StatementKind.CONTRIBUTION:
        raise SignatureError("a contribution is signed with its study beside it: ask for it again")
    if facts["authority_sha256"] != terms.authority:
        raise SignatureError("the facts name another authority than the statement")
    if study is not None and terms.kind is StatementKind.CONTRIBUTION:
        _require_price(statement, study)
    if now >= statement.expires:
        raise SignatureError(f"the statement has expired on {terms.expires}")
    if datetime.fromisoformat(terms.proposed) > now + _DAY:
        raise SignatureError(
            f"the statement was proposed on {terms.proposed}, which is more than a day ahead of "
            "this machine's clock: correct the clock that is wrong"
        )
    return found


def _parse(content: bytes) -> ReadProposal:
    wrong = "this is no statement that a site has written to be signed"
    if len(content) > _MOST:
        raise SignatureError(wrong)
    try:
        document = json.loads(content)
        parts = {key: document.pop(key) for key in ("statement", "facts", "study")}
        statement, facts = parts["statement"].encode(), parts["facts"].encode()
        given = None if parts["study"] is None else parts["study"].encode()
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise SignatureError(wrong) from error
    if document:
        raise SignatureError(wrong)
    read = read_signable(statement)
    try:
        study = None if given is None else study_from_canonical(given)
    except (DppcaError, ValueError) as error:
        raise SignatureError(f"the study beside the statement is not valid: {error}") from error
    return ReadProposal(read, read_facts(facts, read), study)


def _require_price(statement: SignableStatement, study: Study) -> None:
    """Compute a contribution's price from the study again, as the ledger will charge it."""
    from dppca.common.kernel.privacy.release import calibrate

    noise, terms = calibrate(study), statement.terms
    computed: dict[str, object] = {**noise.price.fields(), "mechanism": noise.law.name}
    computed["honest"] = noise.n_honest_owners
    stated = terms.model_dump()
    wrong = [key for key, value in computed.items() if stated[key] != value]
    if terms.study != study.name or terms.content_digest != study.digest or wrong:
        raise SignatureError(
            "the statement has another price or noise than the study, computed here: "
            f"{', '.join(wrong) or 'another study'}"
        )


def describe_statement(found: ReadProposal) -> str:
    """Return what is signed: first what was checked, last what an author chose."""
    terms, facts = found.statement.terms, found.facts
    lines = [f"Statement {found.statement.sha256[:12]} of site {one_line(terms.owner)}"]
    lines.append(f"It allows, once: {terms.kind.value}")
    if terms.also is not None:
        lines += [f"It allows beforehand, once: {words}" for words in terms.also.words]
    named = terms.model_dump(mode="json", exclude={"version", "kind", "owner", "also"})
    lines += [f"  {key}: {value}" for key, value in named.items() if value is not None]
    if found.study is not None and terms.kind is StatementKind.CONTRIBUTION:
        lines.append("Checked here: the study has this digest and this price.")
    else:
        lines.append("Not checked here: a price is as the site states it.")
    lines.append("Facts of the site, which must not leave it:")
    shown = {key: value for key, value in facts.items() if key != "salt"}
    lines += [f"  {key}: {_value(value)}" for key, value in sorted(shown.items())]
    if terms.kind in (StatementKind.CONTRIBUTION, StatementKind.MODEL) and not facts.get("rows"):
        lines.append("Others may write to these rows: they may change after you have signed.")
    if found.study is not None:
        lines.append("Words of the study's author, quoted:")
        for name in ("title", "purpose"):
            text = getattr(found.study, name, None)
            lines += [f'  {name}: "{one_line(str(text))}"'] if text else []
    return "\n".join(lines)


def _value(value: object) -> str:
    return one_line(
        canonical_json(value).decode() if isinstance(value, dict | list) else str(value)
    )


def sign_with_openssh(statement: SignableStatement, key: Path) -> tuple[bytes, PersonKey]:
    """Return the approval of one key over a statement; ``ssh-keygen`` may ask for touch or PIN.

    Raise `SettingError` if there is no ``ssh-keygen`` or it does not sign, and `SignatureError` if
    its signature is by a key of another kind.
    """
    program = shutil.which("ssh-keygen")
    if program is None:
        raise SettingError("ssh-keygen is not installed: install OpenSSH's client")
    with TemporaryDirectory() as folder:
        message = Path(folder) / "statement"
        message.write_bytes(encoded(statement.content))
        namespace = statement.terms.kind.namespace
        command = [program, "-Y", "sign", "-n", namespace, "-f", str(key), str(message)]
        done = subprocess.run(command, check=False)
        armoured = message.with_name("statement.sig")
        if done.returncode or not armoured.is_file():
            raise SettingError(f"ssh-keygen has not signed with {key}")
        signature = read_armour(armoured.read_bytes())
    person = find_signer(statement, signature)
    return write_approval(statement.content, [signature]), person


def read_armour(content: bytes) -> bytes:
    """Return the signature in a file of ``ssh-keygen -Y sign``; raise `SignatureError` if none."""
    found = _ARMOUR.fullmatch(content)
    try:
        return base64.b64decode(found[1].replace(b"\n", b""), validate=True) if found else b""
    except binascii.Error as error:
        raise SignatureError("this is no file of ssh-keygen -Y sign") from error
