"""A curator's answers to operators: each value is one dataclass that is read, shown and printed.

`dppca.common.transport.codec.read_message` fills the fields from message fields of the same names;
`dppca.common.kernel.documents.values.to_document` makes the JSON that the commands print.
"""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated

from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.documents.values import DigestText, JsonBytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NameList:
    """The first of some names."""

    first: Annotated[tuple[str, ...], "the first eight, ascending"]
    total: Annotated[int, "how many there are"]

    def __str__(self) -> str:
        """Return the names as text, with the number of those that are left out."""
        more = self.total - len(self.first)
        return ", ".join(self.first) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedStudy:
    """Summary of a study."""

    name: Annotated[str, "name of the study"]
    title: Annotated[str | None, "its title, in its operator's words; null without one"]
    digest: Annotated[DigestText, "digest of the study"]
    state: Annotated[StudyState, "state of the study"]
    contributions: Annotated[int, "owners that have contributed"]
    owners: Annotated[int, "owners of the study"]
    created: Annotated[datetime, "when it was created"]
    epsilon: Annotated[Decimal | None, "epsilon of a release; null if its noise has a given scale"]
    delta: Annotated[Decimal | None, "delta of a release; null for pure differential privacy"]
    deadline: Annotated[
        datetime | None,
        "when it stops waiting for owners or, while sealed, for openers; null for never",
    ]
    missing: Annotated[NameList, "of an open study: owners that have not contributed"]
    unheard: Annotated[NameList, "those of them that may have no certificate"]

    @property
    def cost(self) -> str:
        """Epsilon and delta as text; empty if the study gives the noise's scale instead."""
        amounts = (self.epsilon, self.delta) if self.epsilon is not None else ()
        return ", delta ".join(decimal_text(each) for each in amounts if each is not None)

    @property
    def hint(self) -> str:
        """Advice for owners that may have no certificate; empty if there are none."""
        if not self.unheard.total:
            return ""
        return (
            f"Not heard of since the curator was started: {self.unheard}. `dppca-curator pki list` "
            "says who has a certificate, and `pki sign` enrols"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Studies:
    """All studies of a curator."""

    studies: Annotated[tuple[ListedStudy, ...], "newest first"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerStatus:
    """Contribution, synthetic rows and openings of one owner in a study."""

    name: Annotated[str, "name of the owner"]
    n_rows: Annotated[int, "rows of its contribution; 0: none, or secret"]
    bytes: Annotated[int, "bytes of its contribution"]
    received: Annotated[datetime | None, "when its contribution came; null without one"]
    synthetic_coded_rows: Annotated[int, "coded synthetic rows that it published"]
    synthetic_decoded_rows: Annotated[int, "decoded synthetic rows that it published"]
    opener: Annotated[bool, "whether it is an opener (`trust: aggregate`)"]
    voted: Annotated[datetime | None, "when its vote for the sealed set came"]
    opened: Annotated[datetime | None, "when its last opening came"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyDetails:
    """A study with its owners."""

    summary: Annotated[ListedStudy, "the study in short"]
    reason: Annotated[str, "why it was aborted; empty if it was not"]
    sealed: Annotated[datetime | None, "when the set of contributions was sealed"]
    set_digest: Annotated[DigestText | None, "digest of the sealed set"]
    missing_openers: Annotated[tuple[str, ...], "openers that a sealed study waits for"]
    owners: Annotated[tuple[OwnerStatus, ...], "what each owner has sent"]
    document: Annotated[JsonBytes, "the study file, in canonical form"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContributionRecord:
    """A contribution of an owner, with the ledger that came with it, not the envelope."""

    study: Annotated[str, "name of the study"]
    received: Annotated[datetime, "when it was received"]
    ledger_length: Annotated[int, "entries of the ledger"]
    ledger_head: Annotated[DigestText, "SHA-256 of the ledger's last entry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledLedger:
    """A ledger that was set aside."""

    settled: Annotated[datetime, "when"]
    by: Annotated[str, "the operator, or the owner itself"]
    reason: Annotated[str, "why"]
    seen_length: Annotated[int, "entries of the ledger that was set aside"]
    seen_head: Annotated[DigestText, "SHA-256 of its last entry"]
    ledger_length: Annotated[int, "entries of the ledger that follows; 0 if none was named"]
    ledger_head: Annotated[DigestText, "SHA-256 of its last entry; empty if none was named"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenOwner:
    """Record of an owner's ledger at the curator."""

    ledger_length: Annotated[int, "entries of the ledger seen last; 0 if none counts"]
    ledger_head: Annotated[DigestText, "SHA-256 of its last entry; empty if none counts"]
    contributions: Annotated[tuple[ContributionRecord, ...], "contributions of the owner"]
    settlements: Annotated[tuple[SettledLedger, ...], "ledgers that were set aside"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRefusal:
    """Calls of one party that one rule has refused."""

    time: Annotated[datetime, "when the last of them was"]
    times: Annotated[int, "how many they were"]
    party: Annotated[
        str | None, "`ROLE:NAME`, such as `owner:hospital`; null without a good certificate"
    ]
    study: Annotated[str | None, "name of the study; null if the call named none"]
    method: Annotated[str, "what was called"]
    error: Annotated[str, "name of the error"]
    sentence: Annotated[str, "what it means"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedLook:
    """A call that an auditor made; the same ones of an hour are one."""

    number: Annotated[int, "its number, from 1"]
    time: Annotated[datetime, "when it was"]
    auditor: Annotated[str, "name of the auditor"]
    method: Annotated[str, "what was called"]
    study: Annotated[str | None, "name of the study; null if the call named none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusals:
    """Calls that a curator has refused since it was started, and what auditors looked at."""

    since: Annotated[datetime, "when it was started"]
    refusals: Annotated[tuple[ListedRefusal, ...], "newest first"]
    dropped: Annotated[int, "older entries that it had no room for"]
    looks: Annotated[tuple[ListedLook, ...], "what auditors looked at last, newest first"]
    broken_look: Annotated[int, "the first look that does not follow the one before it; 0: none"]
    looks_head: Annotated[DigestText, "SHA-256 of the last look; empty from earlier versions"]
