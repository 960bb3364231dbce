"""Check, vote, open, destroy, send: the steps of an opener with the one set that it opens.

::

    sealed set ──▶ check ──▶ (vote) ──▶ open ──▶ destroy ──▶ send ──▶ opened
                                │         │         │          └─ killed here: sent again
                                │         │         └─ killed here: the stored sums are sent
                                │         └─ killed here: the key is destroyed by the next command
                                └─ killed here: the same vote is made again, for no other set

``open`` writes the ledger's entry and the sums in one transaction. Before it nothing has left the
site except a vote, and after it the key can open nothing else. There is a vote only if the study
has spare openers. Nothing is drawn, and nothing charged.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from cryptography.hazmat.primitives.asymmetric import ec

from dppca.common.kernel.aggregation.opening import answer, open_set, vote
from dppca.common.kernel.aggregation.seals import OpenerKey, make_opener_key
from dppca.common.kernel.aggregation.sum_messages import Opening, SealedSet, Vote
from dppca.common.kernel.aggregation.terms import OfferedKey, Terms
from dppca.common.kernel.durable.checkpoints import checkpoint
from dppca.common.kernel.errors import OpeningRefusedError
from dppca.common.kernel.privacy.noise.entropy import EntropySource
from dppca.common.kernel.signing import Purpose, sign
from dppca.common.kernel.study import Study
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.database import Ledger
from dppca.owner.ledger.openers import OpenerRecord
from dppca.owner.site.agreement import own_key, signing_key
from dppca.owner.site.config import Site
from dppca.owner.site.opener_keys import create_opener_key, destroy_opener_key, read_opener_key


@dataclass(frozen=True, slots=True)
class Opener:
    """A site as an opener of one study.

    ``key``, which the study names for this site, signs votes and openings. ``key_id`` is the
    SHA-256 of the public opener key that the study names, hexadecimal.
    """

    site: Site
    study: Study
    terms: Terms
    key: ec.EllipticCurvePrivateKey
    key_id: str

    @property
    def name(self) -> str:
        """Name of the site."""
        return self.site.name

    def record(self, history: History) -> OpenerRecord:
        """The ledger's record of the key.

        Raise `OpeningRefusedError` if the ledger does not know the key, or this site offered it for
        another study.
        """
        opener = history.openers.get(self.key_id)
        if opener is None:
            raise OpeningRefusedError(
                f"this site's ledger does not contain the opener key that study {self.study.name} "
                "has for it. A site whose ledger was lost cannot open: it could have opened "
                "another set before. Tell the operator"
            )
        if opener.offer.study != self.study.name:
            raise OpeningRefusedError(
                f"study {self.study.name} has an opener key that this site offered for study "
                f"{opener.offer.study}: it opens that one and no other. Tell the operator"
            )
        return opener

    def secret(self) -> OpenerKey:
        """The opener key; raise `OpeningRefusedError` if its file is gone."""
        key = read_opener_key(self.site.openers, self.key_id)
        if key is None:
            raise OpeningRefusedError(
                f"the opener key of study {self.study.name} is not in {self.site.openers}: without "
                "it this site cannot open. Tell the operator: the study continues without it if it "
                "has spare openers, and must otherwise be aborted and made again"
            )
        return key

    def discard_key(self) -> bool:
        """Destroy the opener key after its use; return False if that was done before."""
        return destroy_opener_key(self.site.openers, self.key_id)


def find_opener(site: Site, study: Study, terms: Terms) -> Opener:
    """The site as an opener of a study.

    Raise `PermissionDeniedError` if the study does not name it as an opener, `IdentityError` if it
    no longer has the key that the study names.
    """
    key_id = hashlib.sha256(terms.opener_key(site.name)).hexdigest()
    return Opener(site, study, terms, signing_key(site, terms), key_id)


def offer_key(
    site: Site,
    ledger: Ledger,
    study: str,
    *,
    entropy: EntropySource,
    clock: Callable[[], datetime],
) -> tuple[str, OfferedKey]:
    """Offer an opener key for a study: an unused one that was offered before, or a new one.

    Return the SHA-256 of the public key, hexadecimal, and the offered key for the study's document.
    Raise `SettingError`, `LedgerError` or `ChainError` if key or ledger cannot be written.
    """
    signer = own_key(site)
    secret = _unused_key(site, ledger.history(), study)
    if secret is None:
        secret = make_opener_key(entropy)
        ledger.offer(study, secret.key_id, now=clock())
        checkpoint("offer")
        create_opener_key(site.openers, secret)
    return secret.key_id, OfferedKey(secret.public, sign(signer, Purpose.OPENER, secret.public))


def cast_vote(
    opener: Opener, ledger: Ledger, shown: SealedSet, *, clock: Callable[[], datetime]
) -> Vote:
    """Vote for a set, and record in the ledger that no other set can be voted for or opened.

    Raises as `dppca.common.kernel.aggregation.opening.vote`, and `OpeningRefusedError` if the
    ledger is bound to another set.
    """
    bound = opener.record(ledger.history()).bound
    ballot = vote(
        opener.terms,
        shown,
        opener=opener.name,
        secret=opener.secret(),
        key=opener.key,
        bound=None if bound is None else bound.set_digest,
    )
    checkpoint("check")
    ledger.vote(opener.study, opener.key_id, shown.digest, now=clock())
    checkpoint("vote")
    return ballot


def open_once(
    opener: Opener,
    ledger: Ledger,
    shown: SealedSet,
    votes: Iterable[Vote],
    *,
    clock: Callable[[], datetime],
) -> None:
    """Open a set: store the sums of this site's streams over it, then destroy the opener key.

    Raises as `dppca.common.kernel.aggregation.opening.open_set`, and `OpeningRefusedError` if the
    ledger is bound to another set. Raise `SettingError` if the sums are stored but the key cannot
    be destroyed; the next command tries again.
    """
    bound = opener.record(ledger.history()).bound
    sums = open_set(
        opener.terms,
        shown,
        votes,
        opener=opener.name,
        secret=opener.secret(),
        bound=None if bound is None else bound.set_digest,
    )
    checkpoint("check")
    ledger.open_set(opener.study, opener.key_id, sums, n_owners=len(shown.entries), now=clock())
    checkpoint("open")
    opener.discard_key()
    checkpoint("destroy")


def make_answer(opener: Opener, ledger: Ledger, wanted: Sequence[int]) -> Opening:
    """Opening to be sent, made from stored sums; the same bytes for the same streams.

    Raise `OpeningRefusedError` if a wanted stream is not this site's, `LedgerError` if nothing was
    opened.
    """
    sums = ledger.sums(opener.key_id)
    return answer(opener.terms, sums, wanted, opener=opener.name, key=opener.key)


def _unused_key(site: Site, history: History, study: str) -> OpenerKey | None:
    """Newest opener key of a study that was offered, is still on disk, and is bound to no set."""
    for key_id, record in reversed(list(history.openers.items())):
        if record.offer.study == study and record.bound is None:
            key = read_opener_key(site.openers, key_id)
            if key is not None:
                return key
    return None
