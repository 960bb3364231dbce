"""What may leave of a statement that people sign (`dppca.common.kernel.consent.statements`)."""

from datetime import datetime, timedelta
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictInt, model_validator

from dppca.common.kernel.consent.statement_kinds import StatementKind

MOST_DAYS = 90  # a statement is open: a quarter
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Amount = Annotated[str, Field(pattern=r"^\d{1,40}(\.\d{1,400})?$")]
_Text = Annotated[str, Field(max_length=256)]


class StatementTerms(BaseModel):
    """What may leave of a statement: it has exactly these keys, null where one has no meaning.

    ``content_digest`` names what is allowed beside the study: the request of a model, the set of an
    opening, the published tables.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    version: Literal[1]
    kind: StatementKind
    owner: _Text
    study: _Text | None
    study_digest: _Digest | None
    content_digest: _Digest | None
    mechanism: _Text | None
    epsilon: _Amount | None
    delta: _Amount | None
    charged_epsilon: _Amount | None
    charged_rho: _Amount | None
    colluders: StrictInt | None
    honest: StrictInt | None
    authority: _Digest
    roles_sha256: _Digest
    release_id: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    proposed: str
    expires: str

    @model_validator(mode="after")
    def _check(self) -> Self:
        begin, end = datetime.fromisoformat(self.proposed), datetime.fromisoformat(self.expires)
        if begin.utcoffset() != timedelta() or end.utcoffset() != timedelta():
            raise ValueError("a time that is not of UTC")
        if (begin.minute, begin.second, end.minute, end.second) != (0, 0, 0, 0):
            raise ValueError("a time that is no whole hour")  # it would time the reading of rows
        if not timedelta() < end - begin <= timedelta(days=MOST_DAYS):
            raise ValueError(f"open for longer than {MOST_DAYS} days, or not at all")
        return self
