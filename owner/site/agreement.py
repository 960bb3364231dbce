"""Verification that a study's document, with its keys, is the one its owners have agreed on.

With ``trust: aggregate`` a study's document holds the key of every owner and opener. An attacker
who could change it unnoticed could take the place of the others and see this site's sums. So the
curator, which sends the document, is not trusted: the steward gives ``--digest``, the whole SHA-256
of the document, obtained from another owner's steward. ``peers.yaml`` keeps the owners' keys of
each document that was compared so. If it lists all owners of a study with the same keys, only they
can have signed for them, and ``--digest`` may be left out. The steward reads the rest of the
document (quorum, colluders, openers) in the review, and the openers' seals hold for one document
only: owners that were shown different documents make no sum together.

Limits: only stewards can know that a name is an institution, and which ones share one roof.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import yaml
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from pydantic import AfterValidator

from dppca.common.kernel.aggregation.terms import Terms, key_bytes
from dppca.common.kernel.documents.names import require_party_name
from dppca.common.kernel.durable.files import KEY, require_absent, write_file, writing
from dppca.common.kernel.errors import (
    IdentityError,
    NoPolicyError,
    SchemaMismatchError,
    SettingError,
)
from dppca.common.kernel.study import Base64, Study, Trust
from dppca.owner.site import POLICY_FILE
from dppca.owner.site.config import Site
from dppca.owner.site.file_forms import parse_document
from dppca.owner.site.policy import DataSet
from dppca.owner.site.source_documents import StrictDocument

PEERS_FILE = "peers.yaml"
_DIGEST = re.compile("[0-9a-fA-F]{64}")
_HEAD = """\
# Keys of owners that this site's steward has verified, by comparing the digest of a study with
# another owner's steward. `dppca-owner review` and `contribute` write it; a key that changes is an
# error. Remove an owner's line if its steward tells you, by telephone, that its key has changed.
"""


@dataclass(frozen=True, slots=True)
class Agreement:
    """State of the verification of a study's keys.

    ``compared`` is True if the steward gave the document's digest. ``unknown`` are owners whose
    keys are not in ``peers.yaml``, ascending; none once ``compared``.
    """

    terms: Terms
    compared: bool
    unknown: tuple[str, ...]

    @property
    def is_verified(self) -> bool:
        """True if a contribution may be based on it."""
        return not self.unknown


class PeersDocument(StrictDocument):
    """``peers.yaml``: the owners' keys that the steward has verified.

    Attributes
    ----------
    version
        Version of this format.
    peers
        Public key of each owner, in base64, as in the study's document.
    """

    version: Literal[1] = 1
    peers: dict[Annotated[str, AfterValidator(require_party_name)], Base64]


def agree(site: Site, study: Study, *, digest: str | None) -> Agreement | None:
    """Compare a study's keys with the known ones; return None for a study with ``trust: owner``.

    A matching ``digest``, 64 hexadecimal digits from another steward, enters all owners' keys in
    ``peers.yaml``.

    Raises
    ------
    SettingError
        ``digest`` is malformed, or ``peers.yaml`` is not valid or cannot be written.
    SchemaMismatchError
        ``digest`` is another document's.
    IdentityError
        The document has another key of this site than the one in use, or another key of an owner
        than ``peers.yaml``.
    StudyError
        A key in the document is invalid.
    """
    require_digest(study, digest)
    if study.trust is not Trust.AGGREGATE:
        return None
    terms = Terms.from_study(study)
    _require_own_key(site, terms)
    keys = {member.name: member.key for member in terms.members}
    peers = read_peers(site)
    changed = sorted(name for name, key in keys.items() if peers.get(name, key) != key)
    if changed:
        raise IdentityError(
            f"study {study.name} has another key than {PEERS_FILE} for {', '.join(changed)}: "
            "somebody may be standing in for them. Ask their stewards by telephone; only if a key "
            f"was renewed, remove its line from {PEERS_FILE}. Nothing was drawn or charged"
        )
    unknown = tuple(sorted(keys.keys() - peers.keys()))
    if digest is None:
        return Agreement(terms, compared=False, unknown=unknown)
    if unknown:
        _write_peers(site, {**peers, **keys})
    return Agreement(terms, compared=True, unknown=())


def knows_all_keys(site: Site, study: Study) -> bool:
    """Return True if ``peers.yaml`` has the keys of all owners of an aggregate study."""
    peers = read_peers(site)
    return all(peers.get(each.name) == each.key for each in Terms.from_study(study).members)


def require_digest(study: Study, digest: str | None) -> None:
    """Require a given digest to be the study's; `SchemaMismatchError` or `SettingError` if not."""
    if digest is None:
        return
    if not _DIGEST.fullmatch(digest):
        raise SettingError("--digest takes the whole digest, 64 hexadecimal digits")
    if digest.lower() != study.digest:
        raise SchemaMismatchError(
            f"the curator's document of study {study.name} does not have the digest that you "
            "gave: it is not the document that the other steward has. Nothing was drawn or "
            "charged; tell the other owners' stewards"
        )


def require_verified(study: Study, agreement: Agreement) -> None:
    """Refuse a study with unverified keys; `SettingError` says what to do."""
    if agreement.is_verified:
        return
    raise SettingError(
        f"nobody has verified the keys of {', '.join(agreement.unknown)} in study {study.name}: "
        "ask another owner's steward (not the curator's operator) for the digest of the study, "
        "64 digits, and give it with --digest. Nothing was drawn, charged or sent"
    )


def find_refusal(study: Study, terms: Terms, data_set: DataSet) -> str | None:
    """Reason why the policy refuses an aggregate study for a data set; None if it accepts it."""
    rule, about = data_set.aggregate, f"study {study.name} has trust: aggregate"
    if rule is None:
        return (
            f"{about}, and {POLICY_FILE} does not mention this for data set {data_set.name}: if "
            "you accept it, enter how many colluding owners it must protect against, such as "
            f"`aggregate: {{colluders: {terms.colluders}}}`"
        )
    if terms.colluders < rule.colluders:
        return (
            f"{about} and protects against {terms.colluders} colluding owners; {POLICY_FILE} asks "
            f"for {rule.colluders} for data set {data_set.name}"
        )
    if rule.trusted_openers and not set(rule.trusted_openers) & set(terms.openers):
        return (
            f"{about}, and none of its openers ({', '.join(terms.openers)}) is among the "
            f"trusted_openers of data set {data_set.name} in {POLICY_FILE} "
            f"({', '.join(rule.trusted_openers)})"
        )
    return None


def find_unsaid(study: Study, data_set: DataSet) -> str | None:
    """Reason why the policy refuses a study for what it does not say; None if it does not."""
    unsaid = ", ".join(name for name in study.stated.unsaid if name in data_set.must_say)
    if not unsaid:
        return None
    return (
        f"study {study.name} does not say: {unsaid}. {POLICY_FILE} asks for it (must_say) for data "
        f"set {data_set.name}: ask the operator for a study that says it, if only that there is "
        "none"
    )


def require_said(study: Study, data_set: DataSet) -> None:
    """Raise `NoPolicyError` if the policy refuses a study for what it does not say."""
    refusal = find_unsaid(study, data_set)
    if refusal is not None:
        raise NoPolicyError(refusal)


def require_allowed(study: Study, terms: Terms, data_set: DataSet) -> None:
    """Raise `NoPolicyError` if the policy refuses a study with ``trust: aggregate``."""
    refusal = find_refusal(study, terms, data_set)
    if refusal is not None:
        raise NoPolicyError(f"{refusal}. Nothing was drawn, charged or sent")


def read_peers(site: Site) -> dict[str, bytes]:
    """Verified keys by owner; raise `SettingError` if ``peers.yaml`` is not valid."""
    try:
        text = site.peers.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        require_absent(site.peers, error)
        return {}
    return parse_document(text, PeersDocument, PEERS_FILE).peers


def own_key(site: Site) -> ec.EllipticCurvePrivateKey:
    """Key of this site's certificate; raise `IdentityError` if there is none."""
    return _load(site, site.key)


def signing_key(site: Site, terms: Terms) -> ec.EllipticCurvePrivateKey:
    """The key that a study names for this site: the one in use, or the one before a renewal.

    An opener may have renewed its key since the study began; the study goes on with the old one.
    Raise `IdentityError` if neither matches, `PermissionDeniedError` if the study does not name
    this site.
    """
    study_key = key_bytes(terms.public_key(site.name))
    for path in (site.key, site.previous / KEY):
        if (
            path.exists()
            and key_bytes((certificate := _load(site, path)).public_key()) == study_key
        ):
            return certificate
    raise IdentityError(_ANOTHER_KEY)


_ANOTHER_KEY = (
    "the study has another key of this site than the one in use: the key was renewed since, or "
    "the document is not the one that was agreed on. Ask the operator for a new study with what "
    "`dppca-owner identity` prints now"
)


def require_sending_key(site: Site, study: Study) -> None:
    """Raise `IdentityError` if a masked contribution was signed with a key no longer in use."""
    if study.trust is not Trust.AGGREGATE:
        return
    if key_bytes(Terms.from_study(study).public_key(site.name)) != key_bytes(
        own_key(site).public_key()
    ):
        raise IdentityError(
            "this contribution was charged and signed before the site's key was renewed. The "
            f"curator takes it only with the key that study {study.name} names: put key.pem and "
            "certificate.pem of the folder `previous` back, send it with this command, then put "
            "the new ones in again. Was the old key stolen? Then ask the operator to abort the "
            "study. What was charged stays charged"
        )


def _require_own_key(site: Site, terms: Terms) -> None:
    study_key = key_bytes(terms.public_key(site.name))
    if study_key != key_bytes(own_key(site).public_key()):
        raise IdentityError(f"{_ANOTHER_KEY}. Nothing was drawn or charged")


def _write_peers(site: Site, peers: dict[str, bytes]) -> None:
    document = PeersDocument.model_construct(peers=dict(sorted(peers.items())))
    text = yaml.safe_dump(document.model_dump(mode="json"), sort_keys=False, width=200)
    with writing(site.peers):
        write_file(site.peers, (_HEAD + text).encode())


def _load(site: Site, path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise IdentityError(f"{path} is not a private key: {site.key_advice}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise IdentityError(f"{path} is not a key on an elliptic curve")
    return key
