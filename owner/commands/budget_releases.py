"""Releases as `budget verify` and `budget plan` need them: checked, and still to come."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from dppca.common.analysis.estimators.base.settings import parse_delta, parse_epsilon
from dppca.common.analysis.study_file import study_from_yaml
from dppca.common.kernel.attestation.claims import require_implied
from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.errors import (
    ArtefactError,
    NotReadyError,
    ReceiptError,
    SchemaMismatchError,
    SettingError,
)
from dppca.common.kernel.privacy.accounting import NO_COST, PrivacyCost, rho_from_epsilon_delta
from dppca.common.kernel.privacy.release import calibrate, receipt_from_bytes
from dppca.common.kernel.study import Study
from dppca.owner.ledger import tools
from dppca.owner.ledger.chain import History, damaged
from dppca.owner.ledger.entries import Recovery, Reservation
from dppca.owner.ledger.file import LedgerArchive
from dppca.owner.render.ledger import VerifiedRelease
from dppca.owner.site.config import Site
from dppca.owner.site.kept_studies import kept_study


def planned_charges(
    history: History, epsilon: str | None, delta: str | None, files: tuple[Path, ...]
) -> list[tuple[str, PrivacyCost]]:
    """Return the description and the charge of each further release."""
    if (epsilon is None) == (not files) or (delta is not None and epsilon is None):
        raise SettingError(
            "give --epsilon (with --delta for Gaussian noise), or --study-file, not both"
        )
    if epsilon is None:
        return [_find_charge(history, study_from_yaml(path)) for path in files]
    amount = parse_epsilon(epsilon)
    if delta is None:
        return [(f"Laplace, epsilon {epsilon}", PrivacyCost(epsilon=amount, rho=Decimal(0)))]
    rho = rho_from_epsilon_delta(amount, parse_delta(delta))
    what = f"Gaussian, epsilon {epsilon} at delta {delta}"
    return [(what, PrivacyCost(epsilon=Decimal(0), rho=rho))]


def _find_charge(history: History, study: Study) -> tuple[str, PrivacyCost]:
    if (history.reservation_for(study.digest) or history.settled_for(study.digest)) is not None:
        return f"study {study.name} (charged already)", NO_COST
    cost = calibrate(study)
    what = f"study {study.name}, epsilon {decimal_text(cost.epsilon)}"
    what += f" at delta {decimal_text(cost.delta)}" if cost.delta else ""
    return what, cost.charge


def verify_release(
    site: Site, archive: LedgerArchive, charged: Reservation | Recovery
) -> VerifiedRelease:
    """Return the state of a release and the comparisons that its receipt passed."""
    request, history = charged.request, archive.history
    verified = VerifiedRelease(
        sequence=charged.sequence,
        study=request.study,
        model=request.name or None,
        release_id=charged.release_id,
    )
    receipt = archive.receipts.get(charged.release_id)
    if receipt is None or isinstance(charged, Recovery):  # its receipt is not kept here
        return verified
    tools.check_receipt(charged, history, receipt)
    study = None if request.makes_file else _kept(site, request.study, request.request_digest)
    if study is not None:
        _check_implied(study, charged, receipt)
    return replace(verified, receipt="as charged", recomputed=study is not None)


def _check_implied(study: Study, reservation: Reservation, receipt: bytes) -> None:
    """Recompute a contribution's sensitivity and noise; `LedgerCorruptError` if they differ."""
    try:
        require_implied(study, calibrate(study), receipt_from_bytes(receipt), owner="this site")
    except (ReceiptError, ArtefactError) as error:
        raise damaged(reservation.sequence, str(error)) from error


def _kept(site: Site, name: str, digest: str) -> Study | None:
    """Return the charged study if its document is kept here and is undamaged, else None."""
    try:
        study = kept_study(site, name)
    except (NotReadyError, ArtefactError, SchemaMismatchError):
        return None
    return study if study.digest == digest else None
