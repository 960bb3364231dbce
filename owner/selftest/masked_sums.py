"""Attacks on masked sums: shares of noise, masks over marked rows, and a curator that lies.

The federation is in memory and has three owners, one colluder and two openers; keys, seeds and
noise come from the operating system. The attacks call the functions that `contribute` and `open`
call.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log, sqrt
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec

from dppca.common.kernel.aggregation.masking import mask
from dppca.common.kernel.aggregation.opening import answer, open_set
from dppca.common.kernel.aggregation.pooling import show_set, unmask
from dppca.common.kernel.aggregation.seals import OpenerKey, make_opener_key
from dppca.common.kernel.aggregation.sum_messages import SealedSet, Upload
from dppca.common.kernel.aggregation.terms import Member, OfferedKey, Terms, key_bytes
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.errors import DppcaError
from dppca.common.kernel.privacy.mechanisms import add_noise
from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.signing import Purpose, sign
from dppca.owner.ledger.database import begin_ledger, open_ledger
from dppca.owner.ledger.file import read_history
from dppca.owner.ledger.mark import CuratorView
from dppca.owner.release.opening import Opener, make_answer, open_once
from dppca.owner.selftest.draws import Audit, audits
from dppca.owner.selftest.endpoint import study_for_crashes
from dppca.owner.selftest.findings import Finding
from dppca.owner.selftest.judging import LEVEL as WHOLE_LEVEL
from dppca.owner.selftest.laws import dkw, dkw_limit
from dppca.owner.site.config import Site
from dppca.owner.site.opener_keys import create_opener_key, list_opener_keys

_OWNERS = ("owner-1", "owner-2", "owner-3")
_HONEST = 2  # owners whose shares are added
_MARK = 0x4D41524B  # word of every row before masking: it must not be seen after it
_WORDS, _FEW = 200_000, 100  # of a vector for statistics, and of one for single steps
_BITS = 64  # of a word
_LEVEL = WHOLE_LEVEL / 10
"""Level of each of these checks: all checks together accuse an honest site once in 10^6 runs."""


@dataclass(frozen=True)
class _Federation:
    """Federation of three owners; the first two are openers."""

    terms: Terms
    keys: dict[str, ec.EllipticCurvePrivateKey]
    secrets: dict[str, OpenerKey]

    def upload(self, owner: str, n_words: int) -> Upload:
        """Return a masked vector of marked words."""
        marked = np.full(n_words, _MARK, np.int64)
        entropy = OperatingSystemEntropy()
        return mask(self.terms, owner, marked, key=self.keys[owner], entropy=entropy)


def audit_shares(*, n_draws: int) -> list[Finding]:
    """Check that the shares of each law that can be shared add up to that law."""
    shared = (audit for audit in audits() if calibrate(audit.study).law.makes_shares)
    return [_audit_shares(audit, n_draws) for audit in shared]


def attack_masked_sums() -> list[Finding]:
    """Check the words that a curator sees of marked rows, and its lies about the set."""
    federation = _make_federation("0" * 64, _WORDS)
    uploads = [federation.upload(owner, _WORDS) for owner in _OWNERS]
    return [_randomness(uploads), _lies(federation, uploads)]


def attack_opener(folder: Path) -> Finding:
    """Ask an opener with a ledger and a key file for two sets, also after its key was put back.

    The second set has another upload of the colluder. ``folder`` is empty.
    """
    federation = _make_federation("0" * 64, _FEW)
    terms, name = federation.terms, federation.terms.openers[0]
    site, secret = Site(folder, name, "127.0.0.1:1"), federation.secrets[name]
    opener = Opener(site, study_for_crashes("masked"), terms, federation.keys[name], secret.key_id)
    begin_ledger(site.ledger, lock=site.lock)
    with open_ledger(site.ledger, lock=site.lock) as ledger:
        ledger.compare(CuratorView())
        ledger.offer(opener.study.name, secret.key_id, now=utc_now())
    create_opener_key(site.openers, secret)
    uploads = [federation.upload(owner, _FEW) for owner in _OWNERS]
    again = [*uploads[:2], federation.upload(_OWNERS[2], _FEW)]
    first, second = (show_set(terms, each, opener=name) for each in (uploads, again))

    def asked(shown: SealedSet) -> bytes:
        with open_ledger(site.ledger, lock=site.lock) as ledger:
            open_once(opener, ledger, shown, (), clock=utc_now)
            return make_answer(opener, ledger, terms.held(name)).to_bytes()

    asked(first)
    faults = ["the key outlived the opening"] if list_opener_keys(site.openers) else []
    if not _is_refused(lambda: asked(second)):
        faults.append("a second set was opened")
    if not list_opener_keys(site.openers):
        create_opener_key(site.openers, secret)
    if not _is_refused(lambda: asked(second)):
        faults.append("a second set was opened with the key put back")
    openings = [each.opening for each in read_history(site.ledger).openers.values()]
    if [each.set_digest for each in openings if each is not None] != [first.digest]:
        faults.append("the ledger does not hold the one opening")
    says = "one set was opened, no second one with the key put back, and no key outlived it"
    return Finding.of_faults("masked sums: one opening", faults, says)


def _audit_shares(audit: Audit, n_draws: int) -> Finding:
    noise = replace(calibrate(audit.study), n_honest_owners=_HONEST)
    entropy, zeros = OperatingSystemEntropy(), np.zeros(n_draws, np.int64)
    drawn = [add_noise(zeros, noise, entropy=entropy) for _ in range(_HONEST)]
    distance = dkw(np.sum(drawn, axis=0), noise.law.of_entries.sum_of_shares(_HONEST))
    limit = dkw_limit(n_draws, _LEVEL)
    return Finding(
        f"{audit.title}: shares",
        distance <= limit,
        f"{_HONEST} shares add up to the law of one mechanism: distance {distance:.4f} of "
        f"{limit:.4f} allowed, {n_draws} sums",
        _LEVEL,
        {"releases": n_draws, "distance": distance, "limit": limit},
    )


def _randomness(uploads: list[Upload]) -> Finding:
    """Check that every bit of the masked words is a fair coin and no word is left unmasked."""
    words = np.concatenate([np.frombuffer(each.payload, "<u8") for each in uploads])
    ones = [int(((words >> np.uint64(bit)) & np.uint64(1)).sum()) for bit in range(_BITS)]
    off = max(abs(count / len(words) - 0.5) for count in ones)
    limit = sqrt(log(2 * _BITS / _LEVEL) / (2 * len(words)))
    marked = int(np.isin(words, [np.uint64(_MARK)]).sum())
    twice = len(words) - len(np.unique(words))
    good = off <= limit and not marked and not twice
    return Finding(
        "masked words",
        good,
        f"bits of {len(words)} masked words are fair: off by {off:.5f} of {limit:.5f} allowed; "
        f"{marked} words as they were, {twice} came twice",
        2 * _LEVEL,
        {"distance": off, "limit": limit, "repeated": twice},
    )


def _lies(federation: _Federation, uploads: list[Upload]) -> Finding:
    """Try sets that an honest opener must refuse, and an unmasking with one opener's sums alone."""
    terms = federation.terms
    opener = terms.openers[0]
    secret, key = federation.secrets[opener], federation.keys[opener]
    whole = show_set(terms, uploads, opener=opener)
    first, second, third = whole.entries
    sums = open_set(terms, whole, (), opener=opener, secret=secret, bound=None)

    def open_again(shown: SealedSet, bound: str | None = None) -> Callable[[], object]:
        return lambda: open_set(terms, shown, (), opener=opener, secret=secret, bound=bound)

    other = _make_federation("1" * 64, _WORDS)
    foreign = show_set(
        other.terms, [other.upload(owner, _WORDS) for owner in _OWNERS], opener=opener
    )
    changed = replace(second, seal=bytes([second.seal[0] ^ 1]) + second.seal[1:])
    lies: dict[str, Callable[[], object]] = {
        "a set below the quorum": open_again(replace(whole, entries=(first, second))),
        "an owner twice": open_again(replace(whole, entries=(first, second, second))),
        "another owner's seal": open_again(
            replace(whole, entries=(first, second, replace(third, seal=second.seal)))
        ),
        "a changed seal": open_again(replace(whole, entries=(first, changed, third))),
        "an upload without its signature": open_again(
            replace(whole, entries=(first, replace(second, signature=first.signature), third))
        ),
        "uploads of another study": open_again(foreign),
        "a second set": open_again(whole, bound="2" * 64),
        "one opener alone": lambda: unmask(
            terms, uploads, [answer(terms, sums, terms.held(opener), opener=opener, key=key)]
        ),
    }
    opened = [name for name, lie in lies.items() if not _is_refused(lie)]
    return Finding(
        "masked sums: a lying curator",
        not opened,
        f"{len(lies) - len(opened)} of {len(lies)} lies were refused"
        + (f"; NOT refused: {', '.join(opened)}" if opened else ""),
        0.0,
        {"tries": len(lies), "failed": len(opened), "faults": opened},
    )


def _is_refused(lie: Callable[[], object]) -> bool:
    try:
        lie()
    except DppcaError:
        return True
    return False


def _make_federation(study: str, n_entries: int) -> _Federation:
    entropy = OperatingSystemEntropy()
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in _OWNERS}
    secrets = {name: make_opener_key(entropy) for name in _OWNERS[:2]}
    members = tuple(
        Member(name, key_bytes(key.public_key()), _offer(key, secrets.get(name)))
        for name, key in keys.items()
    )
    terms = Terms(study, n_entries, quorum=3, colluders=1, spares=0, members=members)
    return _Federation(terms, keys, secrets)


def _offer(key: ec.EllipticCurvePrivateKey, secret: OpenerKey | None) -> OfferedKey | None:
    if secret is None:
        return None
    return OfferedKey(secret.public, sign(key, Purpose.OPENER, secret.public))
