"""Verify a released file: one entry for all kinds."""

import warnings
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from dppca.common.kernel.attestation.claims import SumMechanism, describe_mechanism, use_text
from dppca.common.kernel.attestation.components import VerifiedReceipt
from dppca.common.kernel.attestation.documents import ProvedModel, Verification
from dppca.common.kernel.attestation.envelopes import (
    SUFFIX,
    Claim,
    FileStatement,
    open_envelope,
    read_envelope,
)
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.signatures import UNVOUCHED, UNVOUCHED_WHY
from dppca.common.kernel.attestation.sums import require_sum
from dppca.common.kernel.attestation.verify import verify_result_file
from dppca.common.kernel.consent.signed_people import SignedByPeople
from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.durable.files import digest_file
from dppca.common.kernel.errors import ArtefactError, SettingError
from dppca.common.kernel.identity.revoked import RevocationList
from dppca.common.kernel.privacy.collusion import foresee_collusion
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.privacy.laws import every_law
from dppca.common.kernel.privacy.noise_law import NoiseLaw
from dppca.common.kernel.study import Study

_MODEL, _COMPONENTS, _TABLE = "model", "components", "synthetic"
_SUFFIXES = {
    ".npz": _COMPONENTS,
    ".parquet": _TABLE,
    ".arrow": _TABLE,
    ".csv": _TABLE,
    ".skops": _MODEL,
}


class UnvouchedWarning(UserWarning):
    """Nobody vouches for a file: it is consistent, and anybody may have made it."""


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A released file that was verified, what was found, and its study."""

    path: Path
    report: Verification
    study: Study


def verify_file(
    path: Path | str,
    *,
    ca: bytes | None = None,
    revoked: RevocationList | None = None,
    held_since: datetime | None = None,
    now: datetime | None = None,
    uploads: Path | None = None,
) -> Verification:
    """Return the verified claims of a released file: each signature, digest and claim is checked.

    Parameters
    ----------
    path
        The file or its envelope, which lies beside it.
    ca
        PEM of the authority that certified the parties. Without it the certificates in the
        envelope are accepted; this shows that the file is complete and consistent but not who made
        it: a warning (`UnvouchedWarning`) says so, and ``authority`` of the result is None.
    revoked
        The authority's revocation list.
    held_since
        Aware: time since which the holder has had the file; certificates revoked later are
        accepted.
    now
        Aware; the clock's by default. Dates are shown against it, and decide nothing.
    uploads
        Folder of the uploads, to add them up again
        (`dppca.common.kernel.attestation.sums.require_sum`); for components only, else
        `SettingError`.

    Raises
    ------
    ArtefactError
        The file cannot be read, or is not of this software.
    ReceiptError, SignatureError, AlteredError
        A check fails; the message names the part at fault.
    """
    found = check_file(
        path, ca=ca, revoked=revoked, held_since=held_since, now=now, uploads=uploads
    )
    return found.report


def check_file(
    path: Path | str,
    *,
    ca: bytes | None = None,
    revoked: RevocationList | None = None,
    held_since: datetime | None = None,
    now: datetime | None = None,
    uploads: Path | None = None,
) -> CheckedFile:
    """Return a released file with its study; everything is as in `verify_file`."""
    path, parties = Path(path), KnownParties(ca, revoked=revoked, held_since=held_since)
    beside = path.with_name(path.name.removesuffix(SUFFIX))
    kind = _SUFFIXES.get(beside.suffix)
    if kind is None:
        raise ArtefactError(
            f"{beside.name} is not a released file: components end in .npz, synthetic tables in "
            ".parquet, .arrow or .csv, models in .skops"
        )
    if uploads is not None and kind != _COMPONENTS:
        raise SettingError(f"--uploads adds up a sum, and {beside.name} holds none: leave it out")
    try:
        beside.stat()
        checked, statement, own = _verify_kind(kind, beside, parties, uploads)
    except OSError as error:
        raise ArtefactError(f"{beside} cannot be read: {error.strerror or error}") from error
    if parties.authority() is None:
        warnings.warn(f"{path}: {UNVOUCHED}: {UNVOUCHED_WHY} ca=", UnvouchedWarning, stacklevel=3)
    study, who = checked.study, statement.signed_by
    first = checked.first_round
    openings = () if checked.evidence is None else checked.evidence.openings
    report = Verification(
        file=str(path),
        label=Label.RELEASED.value,
        signed_by=f"{who.role.value} {who.name}",
        authority=parties.authority(),
        study=study.name,
        stated=study.stated,
        study_digest=study.digest,
        continues=None if first is None else first.study.name,
        schema_digest=study.table.digest,
        owners=tuple(each.share for each in checked.releases),
        missing=tuple(checked.document["missing"]),
        guarantee=checked.guarantee,
        mechanism=describe_mechanism(study, checked.calibration),
        countersigned_by=checked.curator.name,
        if_more_collude=foresee_collusion(study, checked.calibration, first),
        signatories=checked.signatories,
        opening_signatories=checked.opening_signatories,
        opened_by=tuple(sorted({each.opener for each in openings})) or None,
        certificates=parties.certificates(now=now or utc_now(), deadline=study.deadline),
        **own,
    )
    return CheckedFile(beside, report, study)


def _verify_kind(
    kind: str, path: Path, parties: KnownParties, uploads: Path | None
) -> tuple[VerifiedReceipt, FileStatement, dict[str, Any]]:
    """Return the components' receipt, the file's statement, and the findings of its kind."""
    if kind == _COMPONENTS:
        checked, result, _ = verify_result_file(path, parties)
        if uploads is not None:
            require_sum(checked.study, checked.releases, checked.evidence, result.pooled, uploads)
        software = checked.document["software"]
        found = {"kind": checked.document["kind"], "software": software}
        return checked, checked.statement, {**found, "added_up": uploads is not None}
    if kind == _TABLE:
        from dppca.common.kernel.attestation.tables import replicate_in, verify_table

        what = "the envelope of the table"
        statement = open_envelope(read_envelope(path), Claim.ROWS, parties, what=what)
        statement.require_digest(digest_file(path))
        checked, table = verify_table(path, statement, parties)
        found = {"software": table["software"], "form": table["form"], "rows": table["n_rows"]}
        replicate = replicate_in(table)
        use = {"replicate": replicate, "use": use_text(replicate)}
        return checked, statement, {"kind": kind, **found, **use}
    from dppca.common.verification.models import verify_model

    what = "the envelope of the model"
    statement = open_envelope(read_envelope(path), Claim.MODEL, parties, what=what)
    checked, receipt = verify_model(path, statement, parties)
    model = ProvedModel(
        method=receipt.claims.method,
        target=receipt.claims.target,
        n_rows=receipt.n_rows,
        epsilon=receipt.noise.epsilon,
        delta=receipt.noise.delta,
        release_id=receipt.release_id,
    )
    return checked, statement, {"kind": kind, "software": receipt.software, "model": model}


def verification_text(report: Verification, *, ca: Path | None = None) -> str:
    """Describe the checks for people; ``ca`` is the path of the authority's certificate."""
    model, authority = report.model, report.authority
    what = f"{report.kind} of study {report.study}, {report.label}"
    if authority is None:
        lines = [
            f"{UNVOUCHED}: {what}",
            f"  {UNVOUCHED_WHY} --ca",
        ]
    else:
        lines = [
            f"VERIFIED: {what}",
            f"  all parties were certified by {authority}"
            + ("" if ca is None else f", from {ca.resolve()}"),
        ]
    lines += [
        *report.stated.lines(),
        f"  every byte is as {report.signed_by} signed it",
        *([] if report.use is None else [f"  {report.use}"]),
        *_together_lines(report),
    ]
    if model is not None:
        lines.append(
            f"  {model.method} for {model.target}, on top: epsilon {model.epsilon}, delta "
            f"{model.delta}, from {_counted(report, model.n_rows)}; computed again from its "
            "settings"
        )
    lines += [
        f"  acknowledged by curator {each.curator} and listed: {each.owner}"
        for each in report.acknowledged
    ]
    lines += [
        f"  the certificate of {each.party}, {each.serial}, {remark}"
        for each in report.certificates
        for remark in each.remarks
    ]
    return "\n".join(map(one_line, lines))


def _together_lines(report: Verification) -> list[str]:
    noise, guarantee = report.mechanism, report.guarantee
    law, unit = every_law()[noise.name](**noise.parameters), 4**noise.resolution_bits
    whose = "the sum" if isinstance(noise, SumMechanism) else "each owner's sums"
    owners = ", ".join(f"{each.owner} ({_counted(report, each.n_rows)})" for each in report.owners)
    missing, left, together = [], [], "guarantee of the components"
    if report.continues is not None:
        together = f"guarantee, together with study {report.continues}, which it continues"
    if report.if_more_collude is not None:
        left.append(f"  if more owners collude: {report.if_more_collude.words}")
    if report.missing:
        missing.append(
            f"  did not take part, according to the curator: {', '.join(report.missing)} (the "
            "guarantee counts them all the same: nobody can check that a release was not used)"
        )
    return [
        f"  receipts signed by: {owners}",
        *(f"  signed by {_people(each)}" for each in report.signatories),
        *missing,
        *_sum_lines(report),
        f"  countersigned by curator {report.countersigned_by}",
        f"  noise of {whose}, computed again from the study: {noise.name.capitalize()}, standard "
        f"deviation {deviations_text(law, unit)}",
        f"  {together}: epsilon {guarantee.epsilon}, delta {guarantee.delta}, provided that:",
        *(f"    {assumption}" for assumption in guarantee.assumptions),
        *left,
    ]


def _people(each: SignedByPeople) -> str:
    return (
        f"{each.signed} of {many(each.people, 'people')} of {each.owner}, by the roles that the "
        "study pins"
    )


def _counted(report: Verification, number: int) -> str:
    """Return how many rows, or people where these are protected, a release is of."""
    counts = "people" if report.guarantee.max_rows_per_person is None else "rows"
    return many(number, counts) if number else f"a secret number of {counts}"


def deviations_text(law: NoiseLaw, unit: int) -> str:
    """Return the standard deviations of entries of weight 1, in rows; ``unit`` steps are one."""
    (first, deviation), *others = law.deviations().items()
    said = [f"{f'of {first} ' if first else ''}{deviation / unit:.3g} rows"]
    return ", ".join([*said, *(f"of {name} {each / unit:.3g}" for name, each in others)])


def _sum_lines(report: Verification) -> list[str]:
    """Describe the pooled sum: its openers, and an addition again if there was one."""
    lines, noise = [], report.mechanism
    if report.opened_by is not None and isinstance(noise, SumMechanism):
        lines += [
            f"  one masked sum, opened by {', '.join(report.opened_by)}; all statements, votes "
            "and openings signed by the keys in the study",
            *(f"  opening signed by {_people(each)}" for each in report.opening_signatories),
            f"  shares of the noise: {noise.honest} of them make all of it "
            f"({noise.quorum} owners at least, {noise.colluders} of whom may collude)",
        ]
    if report.added_up:
        lines.append("  added up again: the sum is that of what was sent")
    return lines
