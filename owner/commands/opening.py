"""The command `open`: the second visit of an opener, and its vote if the study has spares."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from dppca.common.kernel.aggregation.sum_messages import SealedSet, Vote
from dppca.common.kernel.aggregation.terms import Terms
from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.documents.values import DigestText
from dppca.common.kernel.durable.checkpoints import checkpoint
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.errors import NotReadyError, PeerError, SettingError, StudyStateError
from dppca.common.kernel.study import Study, Trust
from dppca.common.shell.console import tell
from dppca.common.transport.channels import Patience
from dppca.owner.client.calls import (
    CuratorClient,
    OpenAnswer,
    StudyProgress,
    agreed_study,
    compare_with_curator,
    connect,
    countdown,
)
from dppca.owner.commands.consent import ask
from dppca.owner.ledger.database import open_ledger
from dppca.owner.ledger.file import read_history
from dppca.owner.ledger.openers import OpenerRecord
from dppca.owner.ledger.pins import find_consent_of, require_pinned
from dppca.owner.release.opening import Opener, cast_vote, find_opener, make_answer, open_once
from dppca.owner.site.agreement import Agreement, agree, require_digest, require_verified
from dppca.owner.site.config import Site

POLL_S = 1.0  # between two looks


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDocument:
    """Steps of an opener for a study."""

    study: Annotated[str, "name of the study"]
    digest: Annotated[DigestText, "digest of the study"]
    owner: Annotated[str, "name of this site"]
    state: Annotated[StudyState, "state of the study"]
    opener_key: Annotated[DigestText, "SHA-256 of the public opener key"]
    set_digest: Annotated[DigestText | None, "digest of the set that was opened; null if none was"]
    owners: Annotated[int | None, "owners in that set; null if none was opened"]
    votes: Annotated[list[str], "openers that have voted for the set; none without spares"]
    streams: Annotated[tuple[int, ...], "streams whose sum was sent by this command"]
    already_stored: Annotated[bool, "whether the curator had the opening, or needs none, already"]


def open_sum(
    site: Site,
    study_name: str,
    *,
    digest: str | None,
    wait_s: float,
    polled: Callable[[], None] = lambda: None,
    agree_to: Callable[[SealedSet | None], None] = lambda _: None,
) -> OpenDocument:
    """Carry out `open`, on a terminal or on a page.

    ``wait_s`` is the longest time to wait, for owners and for votes; ``polled`` is called after
    each request that found some missing. ``agree_to`` is called with the set before it is voted for
    or opened, and with None before the opener key is destroyed or the sum of an earlier opening is
    sent; it raises to stop the command.
    """
    left = countdown(wait_s)
    with connect(site, Patience(left, tell)) as client:
        study, _ = agreed_study(site, client, study_name, study_file=None)
        opener = find_opener(site, study, _agreed_terms(site, study, digest))
        history = read_history(site.ledger)
        opener.record(history)
        require_pinned(history.approvals, study, site.name)
        compare_with_curator(site, client)
        run = OpeningRun(opener, client, left, polled, agree_to)
        standing = run.wait_for_seal()
        if standing.state is StudyState.SEALED:
            run.open()
            answer, sent = run.send()
        else:
            agree_to(None)
            answer, sent = OpenAnswer(standing.state, already_stored=True), ()
            opener.discard_key()
    if standing.state is StudyState.ABORTED:
        raise StudyStateError(
            f"study {study.name} was aborted: {standing.reason.rstrip('.')}. The opener key of "
            "this site is destroyed; what was charged stays charged"
        )
    with open_ledger(site.ledger, lock=site.lock) as ledger:
        record = opener.record(ledger.history())
        if record.opening is not None:
            ledger.mark_opened(opener.key_id, now=utc_now())
    opening = record.opening
    return OpenDocument(
        study=study.name,
        digest=study.digest,
        owner=site.name,
        state=answer.state,
        opener_key=opener.key_id,
        set_digest=None if opening is None else opening.set_digest,
        owners=None if opening is None else opening.n_owners,
        votes=sorted({each.opener for each in answer.votes}),
        streams=sent,
        already_stored=answer.already_stored or not sent,
    )


@dataclass(frozen=True, slots=True)
class OpeningPreview:
    """Information for an opener before it opens.

    ``shown`` is the sealed set, None if the study is not sealed, or if this site has opened it;
    ``record`` the record of the opener key in the ledger; ``agreement`` that on the keys of the
    study, None if this site has contributed, and so has verified them.
    """

    study: Study
    found: StudyProgress
    shown: SealedSet | None
    record: OpenerRecord
    agreement: Agreement | None


def preview_opening(site: Site, study_name: str, *, digest: str | None = None) -> OpeningPreview:
    """Fetch the set that would be opened, without a vote, opening or charge.

    Raise as `agreed_study`, `agree`, `find_opener` and `Opener.record`.
    """
    with connect(site) as client:
        study, _ = agreed_study(site, client, study_name, study_file=None)
        terms = _masked_terms(study)
        history = read_history(site.ledger)
        opener = find_opener(site, study, terms)
        record = opener.record(history)
        require_pinned(history.approvals, study, site.name)
        progress = client.progress(study.digest)
        wanted = progress.state is StudyState.SEALED and record.opening is None
        shown = client.download_sealed(study, terms) if wanted else None
    known = history.contribution_for(study.digest) is not None
    agreement = None if known else agree(site, study, digest=digest)
    return OpeningPreview(study, progress, shown, record, agreement)


def _agreed_terms(site: Site, study: Study, digest: str | None) -> Terms:
    """Return the terms of a study whose keys this site has verified, now or at its contribution."""
    require_digest(study, digest)
    terms = _masked_terms(study)
    if read_history(site.ledger).contribution_for(study.digest) is None:
        agreement = agree(site, study, digest=digest)
        assert agreement is not None  # noqa: S101 - there is one for every study with terms
        require_verified(study, agreement)
    return terms


def _masked_terms(study: Study) -> Terms:
    if study.trust is not Trust.AGGREGATE:
        raise SettingError(f"study {study.name} has trust: owner, and nothing to open")
    return Terms.from_study(study)


@dataclass(frozen=True, slots=True)
class OpeningRun:
    """One `open`; the time that is ``left``, ``polled`` and ``agree_to`` are as in `open_sum`."""

    opener: Opener
    client: CuratorClient
    left: Callable[[], float]
    polled: Callable[[], None]
    agree_to: Callable[[SealedSet | None], None]

    def wait_for_seal(self) -> StudyProgress:
        """Return a study's progress once uploads are closed; raise as `_pause`."""
        study = self.opener.study
        while True:
            progress = self.client.progress(study.digest)
            if progress.state is not StudyState.OPEN:
                return progress
            awaited = ", ".join(progress.missing) or "its deadline"
            self._pause(f"study {study.name} still takes contributions, and waits for {awaited}")

    def open(self) -> None:
        """Vote if votes are needed, wait for other votes, and open; skip an opening made before."""
        opener, site, terms = self.opener, self.opener.site, self.opener.terms
        if opener.record(read_history(site.ledger)).opening is not None:
            self.agree_to(None)
            opener.discard_key()  # an earlier command may have been killed before this step
            return
        shown = self.client.download_sealed(opener.study, terms)
        self.agree_to(shown)
        votes = self._votes(shown) if terms.votes_needed else ()
        with open_ledger(site.ledger, lock=site.lock) as ledger:
            open_once(opener, ledger, shown, votes, clock=utc_now)

    def _votes(self, shown: SealedSet) -> Sequence[Vote]:
        opener, site, terms = self.opener, self.opener.site, self.opener.terms
        with open_ledger(site.ledger, lock=site.lock) as ledger:
            own = cast_vote(opener, ledger, shown, clock=utc_now)
        consent = self._consent()
        while True:
            votes = self.client.open(opener.study, terms, vote=own, consent=consent).votes
            voted = {each.opener for each in votes}
            if len(voted) >= terms.votes_needed:
                return votes
            missing = ", ".join(name for name in terms.openers if name not in voted)
            self._pause(
                f"this site has voted, and {terms.votes_needed} openers of study "
                f"{opener.study.name} must; {missing} have not"
            )

    def _consent(self) -> Mapping[str, Any] | None:
        """Return what people of this site signed of its set, if the study pins them."""
        opener = self.opener
        history = read_history(opener.site.ledger)
        bound = opener.record(history).bound
        by = "" if bound is None else bound.consent
        return find_consent_of(history.approvals, opener.study, opener.name, by)

    def _pause(self, awaited: str) -> None:
        """Wait before the curator is asked again; raise `NotReadyError` if time has run out."""
        if not self.left():
            raise NotReadyError(
                f"{awaited}: run `dppca-owner open {self.opener.study.name}` again later, or with "
                "a longer --wait"
            )
        self.polled()
        time.sleep(min(POLL_S, self.left()))

    def send(self) -> tuple[OpenAnswer, tuple[int, ...]]:
        """Send the sum over streams that the curator wants of this site, until it wants none."""
        opener, site, sent = self.opener, self.opener.site, tuple[int, ...]()
        answer = self.client.open(opener.study, opener.terms)
        for _ in range(len(opener.terms.held(opener.name)) + 1):
            if not answer.wanted:
                break
            with open_ledger(site.ledger, lock=site.lock) as ledger:
                opening = make_answer(opener, ledger, answer.wanted)
            sent = opening.streams
            answer = self.client.open(
                opener.study, opener.terms, opening=opening, consent=self._consent()
            )
        else:
            raise PeerError(
                f"the curator does not store the opening of study {opener.study.name}: run the "
                "command again; if that does not help, tell the operator"
            )
        checkpoint("acknowledge")
        return answer, sent


def ask_to_open(study: str, *, yes: bool) -> Callable[[SealedSet | None], None]:
    """Return what asks at a terminal before a set is voted for or opened (`open_sum`).

    A program, which has no terminal, is not asked: an opening charges nothing.
    """

    def agree_to(shown: SealedSet | None) -> None:
        if shown is None or yes or not sys.stdin.isatty():
            return
        owners = ", ".join(sorted(entry.statement.owner for entry in shown.entries))
        ask(
            f"The set of study {study} has the uploads of {owners}. Its digest is {shown.digest}. "
            "This site votes for this set and opens it; it can never open another one.",
            "Open it?",
        )

    return agree_to


def opening_text(document: OpenDocument) -> str:
    """Return a text on the opening and the next step."""
    study = document.study
    if document.owners is None:
        opened = f"Study {study} needs no opening of this site: it had enough other openers."
    else:
        again = " (the curator needed nothing more)" if document.already_stored else ""
        opened = (
            f"Opened study {study}, once, over the uploads of {many(document.owners, 'owners')}"
        )
        still = document.state is StudyState.SEALED
        opened += f"{again}. {'It waits for other openers.' if still else 'The result is ready.'}"
    return (
        f"{opened}\nThe opener key is destroyed; no other set can be opened with it. Nothing was "
        f"charged.\nNext: dppca-owner components {study}"
    )
