"""What may leave of a statement that people sign (`dppca.common.kernel.consent.statements`)."""

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StrictInt,
    model_serializer,
    model_validator,
)

from dppca.common.kernel.consent.statement_kinds import StatementKind

MOST_DAYS = 90  # a statement is open: a quarter
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Amount = Annotated[str, Field(pattern=r"^\d{1,40}(\.\d{1,400})?$")]
_Text = Annotated[str, Field(max_length=256)]


class AlsoRows(BaseModel):
    """Synthetic rows that a contribution's statement lets out, once.

    ``forms`` are their forms in order; ``number`` is the most rows of each form, or ``"result"``:
    as many as are drawn of the result where nobody says a number.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    forms: Annotated[tuple[Literal["coded", "decoded"], ...], Field(min_length=1, max_length=2)]
    number: Annotated[StrictInt, Field(ge=1)] | Literal["result"]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if list(self.forms) != sorted(set(self.forms)):
            raise ValueError("forms that stand twice, or in another order")
        return self

    def cover(self, forms: str, n_rows: int) -> bool:
        """Return True if it lets out tables: forms as a ledger has them, and rows of all."""
        names = forms.split(" and ")
        is_few = self.number == "result" or n_rows <= self.number * len(names)
        return is_few and set(names) <= set(self.forms)

    @property
    def words(self) -> str:
        """What it lets out, in words."""
        most = "as the result says" if self.number == "result" else f"as {self.number}"
        return f"publish {' and '.join(self.forms)} rows of its result, as many of each {most}"


class Also(BaseModel):
    """What people sign beforehand with a contribution: of this study, each once.

    ``opening`` is the one vote and opening of the study's one set; ``rows`` are synthetic rows.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    opening: bool
    rows: AlsoRows | None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.opening and self.rows is None:
            raise ValueError("nothing beside the contribution")
        return self

    @property
    def words(self) -> list[str]:
        """What it allows, in words."""
        opening = ["vote for and open the one set of this study, whoever is in it"]
        return (opening if self.opening else []) + ([self.rows.words] if self.rows else [])


class StatementTerms(BaseModel):
    """What may leave of a statement: it has exactly these keys, null where one has no meaning.

    ``content_digest`` names what is allowed beside the study: the request of a model, the set of an
    opening, the published tables. Only version 2 has ``also``: what a contribution allows further.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    version: Literal[1, 2]
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
    also: Also | None = None

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document: dict[str, Any] = handler(self)
        if self.also is None:
            document.pop("also", None)
        return document

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.version == 2) != (self.also is not None):
            raise ValueError("another version than its keys")
        if self.also is not None and self.kind is not StatementKind.CONTRIBUTION:
            raise ValueError("only a contribution allows something else")
        begin, end = datetime.fromisoformat(self.proposed), datetime.fromisoformat(self.expires)
        if begin.utcoffset() != timedelta() or end.utcoffset() != timedelta():
            raise ValueError("a time that is not of UTC")
        if (begin.minute, begin.second, end.minute, end.second) != (0, 0, 0, 0):
            raise ValueError("a time that is no whole hour")  # it would time the reading of rows
        if not timedelta() < end - begin <= timedelta(days=MOST_DAYS):
            raise ValueError(f"open for longer than {MOST_DAYS} days, or not at all")
        return self
