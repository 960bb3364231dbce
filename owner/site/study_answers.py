"""A steward's answers to a study other than contributing, kept at the site alone.

The file ``studies/NAME/answer.json`` sorts the site's own list of studies. The curator is never
told, and it refuses nothing: a contribution that is agreed to later is made all the same.
"""

from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, ValidationError

from dppca.common.kernel.errors import ArtefactError
from dppca.owner.site.config import Site
from dppca.owner.site.kept_studies import save
from dppca.owner.site.source_documents import StrictDocument

AnswerKind = Literal["declined", "later"]


class SiteAnswer(StrictDocument):
    """``answer.json``: the answer, and when it was given."""

    version: Literal[1] = 1
    answer: AnswerKind
    time: AwareDatetime


def keep_answer(site: Site, study: str, answer: AnswerKind | None, *, now: datetime) -> None:
    """Keep an answer in place of the one before; None takes it back."""
    path = _path(site, study)
    if answer is None:
        path.unlink(missing_ok=True)
        return
    save(path, SiteAnswer(answer=answer, time=now).model_dump_json().encode())


def kept_answer(site: Site, study: str) -> SiteAnswer | None:
    """Return the answer to a study; None without one. `ArtefactError` if its file is damaged."""
    path = _path(site, study)
    try:
        return SiteAnswer.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise ArtefactError(f"{path} is damaged: remove it, and answer again") from error


def _path(site: Site, study: str) -> Path:
    return site.study_folder(study) / "answer.json"
