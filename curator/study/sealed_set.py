"""Sealed set of a study with ``trust: aggregate``, and the openings that it still needs: pure.

The openers come in any order and in several visits. The stored messages determine what an opener
must send: first its vote, if the study has spares; once enough have voted, a sum over those of its
streams that are not opened yet. First come, first served: an opener is asked for all its streams
that are still closed, so a later one does not delay the others.
"""

from datetime import datetime
from functools import lru_cache

from dppca.common.kernel.aggregation.terms import Terms
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.errors import NotReadyError, StudyStateError
from dppca.common.kernel.study import Study, Trust
from dppca.curator.study.study_record import Sealing, StudyRecord


@lru_cache(maxsize=128)
def make_terms(study: Study) -> Terms:
    """Return the holders of keys and streams, cached; raise `StudyError` if keys do not fit.

    Parsing a thousand keys takes a tenth of a second.
    """
    return Terms.from_study(study)


def require_opener(record: StudyRecord, caller: str) -> Terms:
    """Return the terms of a study that names the caller as an opener.

    Raise `StudyStateError` if it has another trust, `PermissionDeniedError` if the caller is no
    opener.
    """
    if record.study.trust is not Trust.AGGREGATE:
        raise StudyStateError(f"study {record.study.name} has no masked contributions")
    terms = make_terms(record.study)
    terms.opener_key(caller)
    return terms


def require_sealed(record: StudyRecord) -> Sealing:
    """Return the sealed set; raise `NotReadyError` before it, `StudyStateError` if aborted."""
    if record.state is StudyState.ABORTED:
        raise StudyStateError(f"study {record.study.name} was aborted: {record.reason}")
    if record.sealing is None:
        raise NotReadyError(
            f"study {record.study.name} is not sealed yet: it waits for {len(record.missing)} "
            "owners or its deadline"
        )
    return record.sealing


def open_by_passed(study: Study, now: datetime) -> bool:
    """Return True if a study has stopped waiting for its openers; ``now`` is aware."""
    return study.open_by is not None and now >= study.open_by


def is_opened(record: StudyRecord) -> bool:
    """Return True if every stream of masks is opened."""
    return len(record.opened) == len(make_terms(record.study).holders)


def wanted_streams(record: StudyRecord, opener: str) -> tuple[int, ...]:
    """Unopened streams that an opener holds, ascending; none while votes are missing."""
    terms = make_terms(record.study)
    if record.state is not StudyState.SEALED or len(record.votes) < terms.votes_needed:
        return ()
    return tuple(stream for stream in terms.held(opener) if stream not in record.opened)


def missing_openers(record: StudyRecord) -> tuple[str, ...]:
    """Openers of a sealed study whose vote or sum is still wanted, ascending."""
    if record.state is not StudyState.SEALED:
        return ()
    terms = make_terms(record.study)
    if len(record.votes) < terms.votes_needed:
        voted = {vote.opener for vote in record.votes}
        return tuple(opener for opener in terms.openers if opener not in voted)
    return tuple(opener for opener in terms.openers if wanted_streams(record, opener))
