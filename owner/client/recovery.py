"""Recovery of charges from receipts, after a ledger was lost or is old. Pure.

A curator returns its record of this site: receipts in the envelopes that the site signed. They are
not trusted. The charge is computed again from the study's document; the receipt must be the one
that the document implies, and the signature must be of a certificate of this owner that the site's
authority has issued. So a curator cannot invent a release that this site's key did not sign. If a
contribution has no such signature (the authority has changed), the steward names its data set one
by one, or disowns it.

A receipt does not say which data set it was computed from. The steward does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from dppca.common.kernel.attestation.claims import require_implied
from dppca.common.kernel.attestation.contributions import (
    AcknowledgedContribution,
    open_release,
    require_acknowledged,
    unchecked_receipt,
)
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.errors import ReceiptError, SettingError, SignatureError
from dppca.common.kernel.privacy.release import MomentReceipt, calibrate
from dppca.common.kernel.study import Study
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.entries import Disowning, Recovery, time_text
from dppca.owner.ledger.mark import ContributionRecord
from dppca.owner.release.contribution import request_contribution
from dppca.owner.site.policy import DataSet, Policy


@dataclass(frozen=True, slots=True)
class RecoveredContribution:
    """A contribution that a curator holds and the ledger does not know.

    ``receipt`` is as the study implies it. ``unproved`` is the reason why this site's signature
    does not prove it, empty if it does. ``data_set`` is that of its reservation, if the ledger has
    kept one.
    """

    study: Study
    release_id: bytes
    receipt: MomentReceipt
    received_s: int
    unproved: str
    data_set: str | None


def examine(
    contribution: ContributionRecord, study: Study, history: History, *, owner: str, ca: bytes
) -> RecoveredContribution:
    """Check a contribution that a curator holds against its study and this site's signature.

    Raise `ReceiptError`, which names the fault, if it is no contribution to this study.
    """
    if contribution.study_digest != study.digest:
        raise ReceiptError(
            f"the curator holds a contribution to another document of study {study.name}"
        )
    receipt = unchecked_receipt(contribution.envelope)
    require_implied(study, calibrate(study), receipt, owner=owner)
    reserved = history.reserved.get(contribution.release_id)
    return RecoveredContribution(
        study=study,
        release_id=contribution.release_id,
        receipt=receipt,
        received_s=contribution.received_s,
        unproved=_unproved(contribution, owner=owner, ca=ca),
        data_set=None if reserved is None else reserved.request.data_set,
    )


def acknowledgements(
    contributions: Iterable[ContributionRecord], history: History, *, owner: str, ca: bytes
) -> dict[str, bytes]:
    """The curator's signed acknowledgements of recovered contributions, by study.

    Raise `ReceiptError` or `SignatureError` if one is invalid, or is of another contribution than
    the ledger recovered.
    """
    signed = {each.release_id: each.acknowledgement for each in contributions}
    by_study = {}
    for release_id, recovered in history.recoveries.items():
        if release_id not in signed:
            continue
        contribution = AcknowledgedContribution(
            study_digest=recovered.request.request_digest,
            owner=owner,
            release_id=release_id.hex(),
            n_rows=recovered.n_rows,
            payload_sha256=recovered.payload_sha256,
        )
        require_acknowledged(signed[release_id], contribution, ca=ca)
        by_study[recovered.request.study] = signed[release_id]
    return by_study


def _unproved(contribution: ContributionRecord, *, owner: str, ca: bytes) -> str:
    try:
        open_release(contribution.envelope, owner, KnownParties(ca))
    except SignatureError as error:
        return str(error)
    return ""


def assign_data_sets(
    found: Iterable[RecoveredContribution], assignments: Iterable[str], policy: Policy
) -> dict[str, DataSet]:
    """Data set of each study's contribution, according to the steward.

    An item of ``assignments`` is ``NAME`` for every study that this site's signature proves, or
    ``STUDY=NAME`` for one. Raise `SettingError`, naming all of them, if studies are left without;
    raise `NoPolicyError` if the policy does not name a data set.
    """
    by_study: dict[str, str] = {}
    for_all: str | None = None
    for each in assignments:
        study, equals, given = each.rpartition("=")
        if equals:
            by_study[study] = given
        else:
            for_all = given
    chosen: dict[str, DataSet] = {}
    open_ones = []
    for one in found:
        title = one.study.name
        name = one.data_set or by_study.get(title) or (None if one.unproved else for_all)
        if name is None:
            open_ones.append(title)
        else:
            chosen[title] = policy.data_set(name)
    if open_ones:
        raise SettingError(
            f"which data set was contributed to {', '.join(open_ones)}? A receipt does not say: "
            "give --data-set STUDY=NAME for each (--data-set NAME for all that this site's "
            "signature proves), or --disown STUDY for one that this site did not send. Nothing was "
            "charged"
        )
    return chosen


def make_recovery(found: RecoveredContribution, data_set: DataSet, *, now: datetime) -> Recovery:
    """Entry that charges a contribution again; the ledger numbers it."""
    request = request_contribution(found.study, calibrate(found.study), account=data_set.account)
    return Recovery(
        sequence=0,
        time=time_text(now),
        release_id=found.release_id,
        request=request,
        n_rows=found.receipt.n_rows,
        payload_sha256=found.receipt.claims.payload_sha256,
    )


def disownings(
    studies: Iterable[str],
    unknown: Mapping[str, tuple[str, bytes]],
    *,
    reason: str | None,
    now: datetime,
) -> list[Disowning]:
    """Entries for contributions that this site did not make.

    ``unknown`` gives by study its digest, and the release that a curator holds and the ledger does
    not know. Raise `SettingError` without a reason, or for a study without such a release.
    """
    entries = []
    for study in dict.fromkeys(studies):
        if study not in unknown:
            raise SettingError(
                f"--disown {study}: the ledger lacks no contribution to it that the curator holds"
            )
        if not reason or not reason.isprintable():
            raise SettingError("--disown needs --reason: one line, which the ledger keeps")
        digest, release_id = unknown[study]
        entries.append(Disowning(0, time_text(now), release_id, study, digest, reason))
    return entries
