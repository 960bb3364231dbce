"""``dppca-owner open``: the second visit of an opener, and its vote where there are spares."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import click

from dppca.common.aggregation.messages import SealedSet, Vote
from dppca.common.aggregation.terms import Terms
from dppca.common.checkpoints import checkpoint
from dppca.common.clock import utc_now
from dppca.common.console import emit, prints, progress
from dppca.common.documents import DigestText, Document
from dppca.common.errors import (
    NotReadyError,
    PeerError,
    SettingError,
    StudyStateError,
)
from dppca.common.messages import StudyState
from dppca.common.study import Study
from dppca.owner.client.calls import CuratorClient, OpenAnswer
from dppca.owner.client.queries import StudyProgress
from dppca.owner.client.session import agreed_study, compare_ledger, connect
from dppca.owner.commands.options import digest_option, study_argument
from dppca.owner.ledger.database import open_ledger
from dppca.owner.ledger.openers import OpenerRecord
from dppca.owner.ledger.reading import read_history
from dppca.owner.release.opening import Opener, cast_vote, find_opener, make_answer, open_once
from dppca.owner.site.agreement import agree, require_digest, require_verified
from dppca.owner.site.config import Site, load_site

POLL_S = 1.0


class OpenDocument(Document):
    """What an opener has done for a study."""

    study: Annotated[str, "name of the study"]
    digest: Annotated[DigestText, "digest of the study"]
    owner: Annotated[str, "name of this site"]
    state: Annotated[StudyState, "state of the study"]
    opener_key: Annotated[DigestText, "SHA-256 of the public opener key"]
    set_digest: Annotated[DigestText | None, "digest of the set that was opened; null if none was"]
    owners: Annotated[int | None, "owners in that set; null if none was opened"]
    votes: Annotated[list[str], "openers that have voted for the set; none without spares"]
    streams: Annotated[list[int], "streams whose sum was sent by this command"]
    already_stored: Annotated[bool, "whether the curator had the opening, or needs none, already"]


@click.command("open")
@study_argument
@digest_option
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Longest time to wait, for owners and for votes.",
)
@prints(OpenDocument)
@click.pass_obj
def command(
    folder: Path, study_name: str, digest: str | None, wait: float, *, as_json: bool
) -> None:
    """Open a study with trust: aggregate, once: take this opener's masks away from the sum.

    Fetches the set of uploads, checks every signature and seal and the quorum, stores the sum of
    its masks in the ledger, destroys the opener key, and sends the sum. Nothing is charged. Another
    set is never opened, whoever asks. If it was interrupted, run it again: it sends the same bytes.

    Where the study has spare openers, it votes for the set first, and opens once enough openers
    have voted: --wait waits for them. Exits with 50 while owners or votes are missing, and with 26
    or 27 if the set is refused.

    \b
    Example:
      dppca-owner open nltcs --wait 3600
    """
    site = load_site(folder)
    left = _countdown(wait)
    with connect(site) as client:
        study, _ = agreed_study(site, client, study_name, study_file=None)
        opener = find_opener(site, study, _agreed_terms(site, study, digest))
        opener.record(read_history(site.ledger))
        compare_ledger(site, client)
        with progress(f"Waiting for study {study.name}") as bar:
            found = _wait_for_seal(client, study, left, polled=bar.advance)
            if found.state is StudyState.SEALED:
                _open(opener, client, left, polled=bar.advance)
                answer, sent = _send(opener, client)
            else:
                answer, sent = OpenAnswer(found.state, already_stored=True), ()
                opener.discard_key()
    if found.state is StudyState.ABORTED:
        raise StudyStateError(
            f"study {study.name} was aborted: {found.reason.rstrip('.')}. The opener key of this "
            "site is destroyed; what was charged stays charged"
        )
    with open_ledger(site.ledger, lock=site.lock) as ledger:
        record = opener.record(ledger.history())
        if record.opening is not None:
            ledger.mark_opened(opener.key_id, now=utc_now())
    document = _document(opener, record, answer, sent)
    emit(document, _text(document), as_json=as_json)


def _agreed_terms(site: Site, study: Study, digest: str | None) -> Terms:
    """Terms of a study that this site contributed to, or whose keys it has verified now."""
    require_digest(study, digest)
    if read_history(site.ledger).contribution_for(study.digest) is not None:
        return Terms.from_study(study)
    agreement = agree(site, study, digest=digest)
    if agreement is None:
        raise SettingError(f"study {study.name} has trust: owner: there is nothing to open")
    require_verified(study, agreement)
    return agreement.terms


def _wait_for_seal(
    client: CuratorClient, study: Study, left: Callable[[], float], *, polled: Callable[[], None]
) -> StudyProgress:
    """A study's progress once no more uploads are taken; `NotReadyError` at the end."""
    while True:
        found = client.progress(study.digest)
        if found.state is not StudyState.OPEN:
            return found
        if not left():
            raise NotReadyError(
                f"study {study.name} still takes contributions, and waits for "
                f"{', '.join(found.missing) or 'its deadline'}: run `dppca-owner open "
                f"{study.name}` again later, or with a longer --wait"
            )
        polled()
        time.sleep(min(POLL_S, left()))


def _open(
    opener: Opener, client: CuratorClient, left: Callable[[], float], *, polled: Callable[[], None]
) -> None:
    """Vote if votes are needed, wait for those of others, open; nothing if that was done before."""
    site, terms = opener.site, opener.terms
    if opener.record(read_history(site.ledger)).opening is not None:
        opener.discard_key()  # where a command was killed before it came to that
        return
    shown = client.download_sealed(opener.study, terms)
    votes = _votes(opener, client, shown, left, polled=polled) if terms.votes_needed else ()
    with open_ledger(site.ledger, lock=site.lock) as ledger:
        open_once(opener, ledger, shown, votes, clock=utc_now)


def _votes(
    opener: Opener,
    client: CuratorClient,
    shown: SealedSet,
    left: Callable[[], float],
    *,
    polled: Callable[[], None],
) -> Sequence[Vote]:
    site, terms = opener.site, opener.terms
    with open_ledger(site.ledger, lock=site.lock) as ledger:
        own = cast_vote(opener, ledger, shown, clock=utc_now)
    while True:
        answer = client.open(opener.study, terms, vote=own)
        if len({each.opener for each in answer.votes}) >= terms.votes_needed:
            return answer.votes
        if not left():
            voted = {each.opener for each in answer.votes}
            missing = [name for name in terms.openers if name not in voted]
            raise NotReadyError(
                f"this site has voted, and {terms.votes_needed} openers of study "
                f"{opener.study.name} must; {', '.join(missing)} have not: run `dppca-owner open "
                f"{opener.study.name}` again later, or with a longer --wait"
            )
        polled()
        time.sleep(min(POLL_S, left()))


def _send(opener: Opener, client: CuratorClient) -> tuple[OpenAnswer, tuple[int, ...]]:
    """Send the sum over the streams that are wanted of this site, until none are."""
    site = opener.site
    sent: tuple[int, ...] = ()
    answer = client.open(opener.study, opener.terms)
    for _ in range(len(opener.terms.held(opener.name)) + 1):
        if not answer.wanted:
            break
        with open_ledger(site.ledger, lock=site.lock) as ledger:
            made = make_answer(opener, ledger, answer.wanted)
        sent = made.streams
        answer = client.open(opener.study, opener.terms, opening=made)
    else:
        raise PeerError(
            f"the curator does not store the opening of study {opener.study.name}: run the command "
            "again; if that does not help, tell the operator"
        )
    checkpoint("acknowledge")
    return answer, sent


def _countdown(seconds: float) -> Callable[[], float]:
    """Seconds that are left, 0 at the end."""
    end = time.monotonic() + seconds
    return lambda: max(0.0, end - time.monotonic())


def _document(
    opener: Opener, record: OpenerRecord, answer: OpenAnswer, sent: tuple[int, ...]
) -> OpenDocument:
    opening = record.opening
    return {
        "command": "open",
        "study": opener.study.name,
        "digest": opener.study.digest,
        "owner": opener.name,
        "state": answer.state,
        "opener_key": opener.key_id,
        "set_digest": None if opening is None else opening.set_digest,
        "owners": None if opening is None else opening.n_owners,
        "votes": sorted({each.opener for each in answer.votes}),
        "streams": list(sent),
        "already_stored": answer.already_stored or not sent,
    }


def _text(document: OpenDocument) -> str:
    """What was opened, and what comes next."""
    study = document["study"]
    if document["owners"] is None:
        opened = f"Study {study} is {document['state']} without an opening of this site: it had "
        opened += "enough other openers."
    else:
        again = " (the curator needed nothing more)" if document["already_stored"] else ""
        opened = f"Opened study {study}, once, over the uploads of {document['owners']} owners"
        opened += f"{again}. It is {document['state']}."
    return (
        f"{opened}\nThe opener key is destroyed; no other set can be opened with it. Nothing was "
        f"charged.\nNext: dppca-owner components {study}"
    )
