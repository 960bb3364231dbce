"""The sealed set of a study with ``trust: aggregate``, and what is still wanted to open it: pure.

The openers come in any order and in several visits. What is wanted of one follows from what is
stored: first its vote, where the study has spares; once enough have voted, a sum over those of its
streams that nobody has opened. First come, first served: an opener is asked for all that it holds
and nobody has, so one that goes later does not keep the others waiting.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from dppca.common.aggregation.terms import Terms
from dppca.common.documents.messages import StudyState
from dppca.common.errors import NotReadyError, StudyStateError
from dppca.common.study import Study, Trust
from dppca.curator.study.study_record import Sealing, StudyRecord


@lru_cache(maxsize=128)
def make_terms(study: Study) -> Terms:
    """Who holds what in a study with ``trust: aggregate``; `StudyError` where keys do not fit.

    Reading a thousand keys takes a tenth of a second, so the last studies' are kept.
    """
    return Terms.from_study(study)


def require_opener(record: StudyRecord, caller: str) -> Terms:
    """The terms of a study that names the caller as an opener.

    Raises
    ------
    StudyStateError
        It has another trust.
    PermissionDeniedError
        The caller is no opener.
    """
    if record.study.trust is not Trust.AGGREGATE:
        raise StudyStateError(f"study {record.study.name} has no masked contributions")
    terms = make_terms(record.study)
    terms.opener_key(caller)
    return terms


def require_sealed(record: StudyRecord) -> Sealing:
    """The sealed set of a study.

    Raises
    ------
    NotReadyError
        The study still waits for owners.
    StudyStateError
        It was aborted: nothing more is opened.
    """
    if record.state is StudyState.ABORTED:
        raise StudyStateError(f"study {record.study.name} was aborted: {record.reason}")
    if record.sealing is None:
        raise NotReadyError(
            f"study {record.study.name} is not sealed yet: it waits for {len(record.missing)} "
            "owners or its deadline"
        )
    return record.sealing


def open_by_passed(study: Study, now: datetime) -> bool:
    """Whether a study has stopped waiting for its openers; ``now`` is aware."""
    return study.open_by is not None and now >= study.open_by


def is_opened(record: StudyRecord) -> bool:
    """Whether every stream of masks is opened."""
    return len(record.opened) == len(make_terms(record.study).holders)


def wanted_streams(record: StudyRecord, opener: str) -> tuple[int, ...]:
    """Streams that an opener holds and no opening has, ascending; none while votes are missing."""
    terms = make_terms(record.study)
    if record.state is not StudyState.SEALED or len(record.votes) < terms.votes_needed:
        return ()
    return tuple(stream for stream in terms.held(opener) if stream not in record.opened)


def missing_openers(record: StudyRecord) -> tuple[str, ...]:
    """Openers of a sealed study whose vote, or whose sum, is still wanted; ascending."""
    if record.state is not StudyState.SEALED:
        return ()
    terms = make_terms(record.study)
    if len(record.votes) < terms.votes_needed:
        voted = {vote.opener for vote in record.votes}
        return tuple(opener for opener in terms.openers if opener not in voted)
    return tuple(opener for opener in terms.openers if wanted_streams(record, opener))
