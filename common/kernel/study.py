"""A study: who takes part, under which privacy, to find which components.

One canonical JSON document, named by its SHA-256. All parties hold the same bytes or do not talk.
Amounts of privacy are exact decimals. No number that privacy depends on has a default.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from dppca.common.kernel.consent.signed_people import MOST_PEOPLE
from dppca.common.kernel.documents.amounts import decimal_text, parse_positive
from dppca.common.kernel.documents.faults import explain_faults
from dppca.common.kernel.documents.stated import Stated
from dppca.common.kernel.documents.stated_fields import (
    NUMBER,
    WHOLE,
    Line,
    PartyName,
    Purpose,
    Question,
    Sector,
    Title,
)
from dppca.common.kernel.documents.tables import html_table
from dppca.common.kernel.documents.values import canonical_json, differing_keys
from dppca.common.kernel.documents.yaml_text import MAX_DOCUMENT_BYTES, NotYamlError, load_yaml
from dppca.common.kernel.errors import SettingError, StudyError, TooManyRowsError
from dppca.common.kernel.schema.attributes import Name
from dppca.common.kernel.schema.document import Schema
from dppca.common.kernel.schema.partitions import MAX_LEAVES, MAX_TABLES
from dppca.common.kernel.schema.units import (
    LimitedRows,
    NeighbourRelation,
    Person,
    PrivacyUnit,
    Unit,
)

MAX_OWNERS = 10_000  # of a study
MAX_QUESTIONS = 50  # of a study: all are shown before a steward agrees
_MANY_ROWS = 1_000_000_000  # more than any study's owners have
_SHOWN = 8  # differences in a message
AGGREGATE_ONLY_FIELDS = ("identities", "openers", "spares", "open_by")
"""Fields that belong to ``trust: aggregate``."""
_UNSAID_ROWS = (
    "the schema must say max_rows_per_person: write `max_rows_per_person: 1` if no person has more "
    "than one row at one owner, or the largest number of rows that one person may have; every "
    "sensitivity is multiplied by it. With `unit: person` a person may have any number of rows"
)
ExactDecimal = Annotated[
    Decimal, BeforeValidator(parse_positive), PlainSerializer(decimal_text, return_type=str)
]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Questions = Annotated[tuple[Question, ...], Field(min_length=1, max_length=MAX_QUESTIONS)]
_Groups = tuple[tuple[str, ...], ...]


def _overlap(value: object) -> bool | _Groups:
    """False, true, or groups of owners; groups and the names in them in one order."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, list | tuple) or not value:
        raise ValueError("must be false, true, or a list of groups such as [[owner-1, owner-2]]")
    groups = []
    for group in value:
        names = group if isinstance(group, list | tuple) else []
        names = [name for name in names if isinstance(name, str)]
        if len(names) < 2 or len(names) < len(group) or len(set(names)) < len(names):
            raise ValueError("a group is a list of the names of two or more different owners")
        groups.append(tuple(sorted(names)))
    if len(set(groups)) < len(groups):
        raise ValueError("groups must differ")
    return tuple(sorted(groups))


def _overlap_document(value: bool | _Groups) -> bool | list[list[str]]:
    return value if isinstance(value, bool) else [list(group) for group in value]


Overlap = Annotated[bool | _Groups, PlainValidator(_overlap), PlainSerializer(_overlap_document)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Trust(StrEnum):
    """Whom an owner has to trust with its own noised sums."""

    OWNER = "owner"
    """Nobody: each owner adds all of the noise, and the curator sees each owner's sums."""
    AGGREGATE = "aggregate"
    """Enough other owners: they add the noise together, and the curator sees one sum alone."""


def _from_base64(value: object) -> bytes:
    if not isinstance(value, str):
        raise ValueError("must be text in base64, on one line")  # noqa: TRY004 - pydantic's
    try:
        content = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("must be text in base64, on one line") from error
    if _to_base64(content) != value:
        raise ValueError("is not the one form that these bytes have in base64")
    return content


def _to_base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


Base64 = Annotated[
    bytes, PlainValidator(_from_base64), PlainSerializer(_to_base64, return_type=str)
]


class OpenerEntry(_Strict):
    """An opener's key for this study; ``dppca-owner identity STUDY --opener`` prints both.

    Attributes
    ----------
    key
        The key that seeds are sealed to, 1216 bytes.
    signature
        The opener's signature of it (DER).
    """

    key: Base64
    signature: Base64


class _Privacy(_Strict):
    """Fields of a study's noise that every law has."""

    halves_products: ClassVar[bool] = False
    is_joint: ClassVar[bool] = False
    mechanism: str
    trust: Trust = Trust.OWNER
    colluders: Annotated[int, Field(ge=1), WHOLE] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.trust is Trust.AGGREGATE) != (self.colluders is not None):
            raise ValueError("colluders belongs to trust: aggregate, which needs it")
        return self


class _ScaledPrivacy(_Privacy):
    """Fields of a law with one scale, which may be set by hand."""

    epsilon: ExactDecimal | None = None
    scale: ExactDecimal | None = None
    nominal_epsilon: ExactDecimal | None = None

    @model_validator(mode="after")
    def _one_width(self) -> Self:
        if (self.epsilon is None) == (self.scale is None):
            raise ValueError(f"{self.mechanism} needs either epsilon or a scale set by hand")
        if self.nominal_epsilon is not None and self.scale is None:
            raise ValueError("nominal_epsilon stands beside a scale set by hand")
        return self


class LaplacePrivacy(_ScaledPrivacy):
    """Pure differential privacy by discrete Laplace noise: ``epsilon`` or ``scale``.

    Attributes
    ----------
    mechanism
        The kind of noise.
    epsilon
        What one owner's release may cost a person. The noise follows from it and the schema.
    scale
        The noise's scale b on a column sum or a product in coded units, set by hand. Its cost is
        computed from the schema and charged.
    nominal_epsilon
        The epsilon that a source states for ``scale``. It is only printed.
    trust
        ``owner``: each owner adds all of the noise. ``aggregate``: the owners' shares add up to it,
        and the curator sees one sum.
    colluders
        With ``aggregate``: the number of owners that may collude with the curator without breaking
        the guarantee.
    """

    mechanism: Literal["laplace"]
    delta: ClassVar[None] = None


class GaussianPrivacy(_ScaledPrivacy):
    """(epsilon, delta)-differential privacy by discrete Gaussian noise: ``epsilon`` or ``scale``.

    Attributes
    ----------
    mechanism
        The kind of noise.
    epsilon
        What one owner's release may cost a person at ``delta``.
    delta
        Below 1, and far below 1 divided by the number of people.
    scale
        The noise's standard deviation in coded units, set by hand. Its cost is charged.
    nominal_epsilon
        The epsilon that a source states for ``scale``. It is only printed.
    trust, colluders
        As for Laplace noise.
    """

    halves_products: ClassVar[bool] = True
    mechanism: Literal["gaussian"]
    delta: ExactDecimal

    @model_validator(mode="after")
    def _below_one(self) -> Self:
        if self.delta >= 1:
            raise ValueError("delta must be below 1")
        return self


class MatrixLaplacePrivacy(_Privacy):
    """Pure differential privacy by noise of all sums and products at once: ``epsilon`` alone.

    It is less noise than ``laplace`` where there are many columns. It does not go with a
    ``square_weight``, a ``count_weight``, or a study that continues another.

    Attributes
    ----------
    mechanism
        The kind of noise.
    epsilon
        What one owner's release may cost a person.
    trust, colluders
        As for Laplace noise.
    """

    is_joint: ClassVar[bool] = True
    mechanism: Literal["matrix-laplace"]
    epsilon: ExactDecimal
    delta: ClassVar[None] = None
    scale: ClassVar[None] = None
    nominal_epsilon: ClassVar[None] = None


Privacy = Annotated[
    LaplacePrivacy | GaussianPrivacy | MatrixLaplacePrivacy, Field(discriminator="mechanism")
]
PRIVACIES: tuple[type[BaseModel], ...] = get_args(get_args(Privacy)[0])
"""The forms in which a study asks for each law of noise."""


def make_privacy(**fields: object) -> Privacy:
    """Make the privacy part of a study; None is as if left out."""
    given = {name: value for name, value in fields.items() if value is not None}
    return TypeAdapter[Privacy](Privacy).validate_python(given)


class ComponentRule(_Strict):
    """How many components are kept: one of ``contribution_rate``, ``count``, ``above_noise``.

    Attributes
    ----------
    contribution_rate
        Keep the fewest components whose eigenvalues reach this share of their sum.
    trace
        That sum: of the positive eigenvalues, or of all (``signed``; Gu et al. 2022).
    count
        Keep this number; at most the number of coded columns less one.
    above_noise
        Keep the components with an eigenvalue above the simulated threshold of the noise.
    """

    contribution_rate: Annotated[float, Field(gt=0, lt=1), NUMBER] | None = None
    trace: Literal["positive", "signed"] = "positive"
    count: Annotated[int, Field(ge=1), WHOLE] | None = None
    above_noise: Literal[True] | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        rules = [self.contribution_rate, self.count, self.above_noise]
        if sum(value is not None for value in rules) != 1:
            raise ValueError("components needs one of contribution_rate, count, above_noise: true")
        return self


class FaultRule(_Strict):
    """The share of faults above which a review refuses.

    Attributes
    ----------
    refuse_if_above
        A share of the rows. `check` and `review` refuse if more values of an attribute are faults,
        or more rows of a CSV file are malformed. No release depends on it.
    """

    refuse_if_above: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False), NUMBER]


class GrownTrees(_Strict):
    """How the tables were grown on published rows, so that anybody can do it again.

    Attributes
    ----------
    rows
        SHA-256 of the file of rows, hexadecimal.
    target
        The attribute that the trees predict.
    trees
        Number of trees.
    leaves
        The most leaves of each.
    seed
        Decides which attributes and rows each tree takes. It protects nothing.
    """

    rows: Sha256
    target: Name
    trees: Annotated[int, Field(ge=1, le=MAX_TABLES), WHOLE]
    leaves: Annotated[int, Field(ge=2, le=MAX_LEAVES), WHOLE]
    seed: Annotated[int, Field(ge=0, lt=1 << 63), WHOLE]


class Continued(_Strict):
    """The study that a study continues, by its document and its result.

    Attributes
    ----------
    study
        Digest of its document, hexadecimal.
    result
        SHA-256 of its result file, hexadecimal.
    grown
        How the tables were grown on rows drawn from that result, if they were.
    """

    study: Sha256
    result: Sha256
    grown: GrownTrees | None = None


class PinnedRoles(_Strict):
    """People of an owner who must sign.

    Attributes
    ----------
    needed
        How many.
    roles
        SHA-256 of their signed roles, hexadecimal; later versions that they sign count too.
    """

    needed: Annotated[int, Field(ge=2, le=MOST_PEOPLE), WHOLE]
    roles: Sha256


class Covariance(StrEnum):
    """What is decomposed: the covariance of all rows, or the mean of the owners' own."""

    POOLED = "pooled"
    WITHIN = "within"


class Study(BaseModel):
    """Everything the parties agree on before a row is read.

    Attributes
    ----------
    version
        Version of this format.
    name
        The study's name in commands; no two studies of a curator share one.
    title
        Its title for people. This and the next five are shown, as the operator's words, before a
        steward agrees, and beside the result.
    purpose
        Why it is made, in one paragraph.
    contact
        Whom to ask about it.
    approval
        Who has approved it, such as an ethics board, and under which number.
    region
        Where its people live, or whose law applies.
    sector
        Its field.
    owners
        Who takes part, by the names in their certificates.
    quorum
        Owners needed once the deadline has passed. Default: all owners.
    deadline
        When the study stops waiting. A quorum below all owners needs it.
    overlap
        True if one person may have rows at several owners: the federation's figure is then the sum
        of the owners' and not the largest. Or groups of such owners: the largest of their sums.
    max_rows
        Most rows of all owners together, of which each has an equal part. It bounds the exact
        integers and changes no noise. Give the rows of the largest owner times the number of
        owners, or more. With ``neighbours: added`` at least 1,000,000,000: who does not take part
        for want of room tells, without noise, that it has more rows than its part.
    privacy
        The noise of each owner's release.
    components
        How many components are kept; null with ``continues``.
    covariance
        What is decomposed: the covariance of all rows, or ``within``, the mean of the owners' own
        covariances, which needs column sums.
    faults
        When a site's review refuses.
    questions
        What it is to answer, each as `estimate` asks it, such as ``median age by sex``. `estimate`
        without a question answers them all, with intervals for all at once.
    identities
        With ``trust: aggregate``: each owner's public key, as `dppca-owner identity` prints it.
    openers
        With ``trust: aggregate``: owners that come back once after the deadline to take the masks
        away, each with its key for this study.
    spares
        The number of openers that may never come back. The study needs at least ``colluders + 1 + 2
        * spares`` openers.
    open_by
        When the study stops waiting for openers.
    continues
        An earlier study of the same owners, attributes, overlap and rows per person. This study
        releases only the counts of its tables; synthetic rows are made of both results.
    signatories
        Owners at which several people must sign (`dppca-owner proposals` prints the line). Curator
        and verifiers refuse contributions and models without their signatures, whatever runs there.
    table
        The attributes, and how a row becomes integers. It needs ``max_rows_per_person``, or
        ``unit: person``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    version: Literal[1] = 1
    name: PartyName
    title: Title | None = None
    purpose: Purpose | None = None
    contact: Line | None = None
    approval: Line | None = None
    region: Line | None = None
    sector: Sector | None = None
    owners: Annotated[tuple[PartyName, ...], Field(min_length=1, max_length=MAX_OWNERS)]
    quorum: Annotated[int, Field(ge=1), WHOLE] | None = None
    deadline: AwareDatetime | None = None
    overlap: Overlap = False
    max_rows: Annotated[int, Field(ge=1, le=1 << 40), WHOLE] = _MANY_ROWS
    privacy: Privacy
    components: ComponentRule | None
    covariance: Covariance = Covariance.POOLED
    faults: FaultRule | None = None
    questions: _Questions | None = None
    identities: dict[PartyName, Base64] | None = None
    openers: dict[PartyName, OpenerEntry] | None = None
    spares: Annotated[int, Field(ge=0), WHOLE] = 0
    open_by: AwareDatetime | None = None
    continues: Continued | None = None
    signatories: Annotated[dict[PartyName, PinnedRoles], Field(min_length=1)] | None = None
    table: Annotated[Schema, Field(alias="schema")]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.table.max_rows_per_person is None and self.table.unit is Unit.ROW:
            raise ValueError(_UNSAID_ROWS)
        if len(set(self.owners)) != len(self.owners):
            raise ValueError(f"owners must differ: {max(self.owners, key=self.owners.count)} twice")
        asked = self.questions or ()
        if len(set(asked)) != len(asked):
            raise ValueError(f"questions must differ: {max(asked, key=asked.count)} twice")
        if self.quorum is not None and self.quorum > len(self.owners):
            raise ValueError(f"quorum {self.quorum} is above the {len(self.owners)} owners")
        if self.required_contributions < len(self.owners) and self.deadline is None:
            raise ValueError("a quorum below all owners needs a deadline")
        if isinstance(self.overlap, tuple):
            strangers = {name for group in self.overlap for name in group} - set(self.owners)
            if strangers:
                raise ValueError(
                    f"overlap names {', '.join(sorted(strangers))}, who are not among owners"
                )
        if strangers := set(self.signatories or ()) - set(self.owners):
            raise ValueError(
                f"signatories names {', '.join(sorted(strangers))}, who are not among owners"
            )
        if self.rows_per_owner < 1:
            raise ValueError(
                f"max_rows is {self.max_rows}, but there are {len(self.owners)} owners: each has "
                "an equal part of it, of 1 row at least"
            )
        if self.continues is not None:
            self._check_continuing()
        elif self.components is None:
            raise ValueError("components is null, which only a study that continues another has")
        elif self.table.only_tables:
            raise ValueError("only_tables is for a study that continues another")
        elif (count := self.components.count or 0) > (most := self.table.layout.n_columns - 1):
            raise ValueError(f"count {count} is above {most} (coded columns minus one)")
        if self.has_secret_rows:
            self._check_secret_rows()
        if self.covariance is Covariance.WITHIN and not self.table.layout.with_sums:
            raise ValueError("covariance: within needs column sums (row_norm: include_sums: true)")
        if self.table.layout.halved_products and not self.privacy.halves_products:
            raise ValueError("row_norm: halved_products: true is for mechanism: gaussian")
        if self.privacy.is_joint:
            self.require_joint()
        return self

    def _check_secret_rows(self) -> None:
        added = self.table.neighbours is NeighbourRelation.ADDED
        by = "neighbours: added" if added else "rows_counted above 1"
        if self.max_rows < _MANY_ROWS:
            raise ValueError(
                f"max_rows is {self.max_rows}, but {by} keeps numbers of rows secret, "
                "and who does not take part for want of room tells that it has more than its part: "
                f"take {_MANY_ROWS} or more, or leave it out"
            )
        if self.covariance is Covariance.WITHIN:
            raise ValueError(
                f"covariance: within divides by each owner's number of rows, which {by} keeps "
                "secret: take covariance: pooled"
            )

    def require_joint(self) -> None:
        """Raise `ValueError` where noise of a whole release does not go with what is asked."""
        table = self.table
        reasons = {
            "a study that continues another, which counts cells alone: take laplace": (
                table.only_tables
            ),
            "square_weight": table.square_weight > 1,
            "count_weight: the number of rows is an entry of the matrix": table.count_weight != 1,
            "neighbours: added without column sums, whose constant counts the rows (row_norm: "
            "include_sums: true)": table.layout.with_count and not table.layout.with_sums,
            "a sum_weight below 0.354, whose square is below 1/8": (
                table.row_norm is None and 8 * Fraction(table.sum_weight) ** 2 < 1
            ),
        }
        for what, holds in reasons.items():
            if holds:
                raise ValueError(f"mechanism: matrix-laplace does not go with {what}")

    def _check_continuing(self) -> None:
        if not self.table.only_tables:
            raise ValueError("a study that continues another releases tables alone: only_tables")
        if self.components is not None or self.covariance is not Covariance.POOLED:
            raise ValueError("a study that continues another has no components and no covariance")
        if self.questions is not None:
            raise ValueError("questions belong to the study that is continued, with its sums")

    @model_validator(mode="after")
    def _trust_said(self) -> Self:
        if self.trust is Trust.AGGREGATE:
            _check_aggregate(self)
        elif self.spares or (self.identities, self.openers, self.open_by) != (None, None, None):
            raise ValueError("identities, openers, spares and open_by belong to trust: aggregate")
        return self

    @classmethod
    def from_yaml(cls, text: str | Path) -> "Study":
        """Read a study file, by its text or its path. ``No`` and ``010`` are labels.

        It must have its trees written out as ``tables``: `dppca.study_from_yaml` also reads a file
        that asks for ``random_trees``, and writes them out. Raise `StudyError` if it is no study,
        or cannot be read; the message names every field at fault.
        """
        document, text = load_study_file(text)
        return study_from_mapping(document, text=text)

    @property
    def stated(self) -> Stated:
        """What the study is for, in its operator's words."""
        return Stated(**{each.name: getattr(self, each.name) for each in fields(Stated)})

    @property
    def has_secret_rows(self) -> bool:
        """Whether the owners' numbers of rows are secret, and leave with noise alone."""
        return self.table.has_secret_rows

    @property
    def shows_rows(self) -> bool:
        """Whether owners' numbers of rows are public: not by person, nor with neighbours: added."""
        return self.table.unit is Unit.ROW and not self.has_secret_rows

    @property
    def trust(self) -> Trust:
        """Whom owners trust."""
        return self.privacy.trust

    def require_components(self) -> ComponentRule:
        """How many components are kept; `SettingError` for a study that releases tables alone."""
        if self.components is None:
            raise SettingError(
                f"study {self.name} counts rows in tables and has no components: "
                "use the study that it continues"
            )
        return self.components

    @property
    def n_honest_owners(self) -> int | None:
        """h, owners whose shares of noise make one mechanism; None where each adds all of it."""
        return (
            None
            if self.privacy.colluders is None
            else self.required_contributions - self.privacy.colluders
        )

    @property
    def required_contributions(self) -> int:
        """Contributions needed once the deadline has passed."""
        return len(self.owners) if self.quorum is None else self.quorum

    @property
    def unit(self) -> PrivacyUnit:
        """What of the rows belongs to one person."""
        if self.table.unit is Unit.PERSON:
            return Person(self.table.rows_counted)
        return LimitedRows(self.max_rows_per_person)

    @property
    def max_rows_per_person(self) -> int:
        """The most rows one person may have at one owner.

        Raise `StudyError` for a study of people, who may have any number: what needs a number of
        rows does not know such studies.
        """
        if self.table.unit is Unit.PERSON:
            raise StudyError(f"study {self.name} has unit: person, and this needs unit: row")
        if self.table.max_rows_per_person is None:
            raise StudyError(_UNSAID_ROWS)
        return self.table.max_rows_per_person

    @property
    def rows_per_owner(self) -> int:
        """Most rows of one owner: an equal part of ``max_rows``, whatever others bring."""
        return self.max_rows // len(self.owners)

    def require_room(self, owner: str, n_rows: int) -> None:
        """Raise `TooManyRowsError` where an owner has more than `rows_per_owner`.

        ``n_rows`` is what the study counts (`PrivacyUnit.counts`): rows, or people. A secret number
        is not in the message, nor what follows from it.
        """
        if n_rows <= self.rows_per_owner:
            return
        counts, owners = self.unit.counts, len(self.owners)
        limit = (
            f"study {self.name} takes at most {self.rows_per_owner} from each of its {owners} "
            f"owners (max_rows is {self.max_rows})"
        )
        if self.has_secret_rows:
            raise TooManyRowsError(
                f"{owner} has more {counts} than fit: {limit}. How many it has is secret, and who "
                "hears that it does not take part for this reason knows on which side of the "
                "limit it is: do not pass this message on"
            )
        raise TooManyRowsError(
            f"{owner} has {n_rows} {counts}, but {limit}: it needs a max_rows of "
            f"{n_rows * owners} or more"
        )

    def deadline_passed(self, now: datetime) -> bool:
        """Whether the study has stopped waiting; ``now`` is aware."""
        return self.deadline is not None and now >= self.deadline

    def __hash__(self) -> int:
        """By the digest: equal studies have equal documents. The fields are many."""
        return hash(self.digest)

    def _repr_html_(self) -> str:
        """Notebooks show what every person is promised first, then who takes part."""
        privacy = self.privacy.model_dump(mode="json", exclude_none=True)
        rows = [
            *self.stated.said.items(),
            ("privacy of each owner's release", ", ".join(f"{k}: {v}" for k, v in privacy.items())),
            ("rows per person", self.unit.text),
            ("owners", ", ".join(self.owners)),
            ("attributes", ", ".join(each.name for each in self.table.attributes)),
            ("digest", self.digest),
        ]
        return html_table((), rows, caption=f"Study {self.name}")

    def canonical_bytes(self) -> bytes:
        """The document that is hashed, stored and sent."""
        document = self.model_dump(mode="json", by_alias=True)
        for name, time in (("deadline", self.deadline), ("open_by", self.open_by)):
            document[name] = None if time is None else time.astimezone(UTC).isoformat()
        for name in (*self.stated.unsaid, "faults", "questions", "continues", "signatories"):
            if document[name] is None:
                del document[name]
        if self.trust is Trust.OWNER:
            del document["privacy"]["trust"], document["privacy"]["colluders"]
            for name in AGGREGATE_ONLY_FIELDS:
                del document[name]
        return canonical_json(document)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical document, in hexadecimal: the study's name among machines."""
        return hashlib.sha256(self.canonical_bytes()).hexdigest()


def _check_aggregate(study: Study) -> None:
    """Raise `ValueError` where the numbers or names of a masked sum do not fit.

    Keys are checked where a study begins
    (`dppca.common.kernel.aggregation.terms.Terms.from_study`).
    """
    colluders = study.privacy.colluders or 0
    identities, openers = study.identities or {}, study.openers or {}
    if set(identities) != set(study.owners):
        wrong = sorted(set(identities) ^ set(study.owners))
        raise ValueError(
            f"identities must name every owner and nobody else: {', '.join(wrong)}: leave "
            "identities and openers out, and `dppca-curator study assemble` puts them in"
        )
    if not set(openers) <= set(study.owners):
        strangers = ", ".join(sorted(set(openers) - set(study.owners)))
        raise ValueError(f"openers names {strangers}, who are not among owners")
    if study.required_contributions - colluders < 2:
        raise ValueError(
            f"quorum {study.required_contributions} less colluders {colluders} must be 2 "
            "or more: the shares of that number of owners make the noise"
        )
    least = colluders + 1 + 2 * study.spares
    if len(openers) < least:
        raise ValueError(
            f"{len(openers)} openers; {colluders} colluders and {study.spares} spares need {least}"
        )
    if study.open_by is None:
        raise ValueError("trust: aggregate needs open_by, when the study stops waiting for openers")
    if study.deadline is not None and study.open_by <= study.deadline:
        raise ValueError("open_by must be later than the deadline")
    if study.covariance is Covariance.WITHIN:
        raise ValueError("covariance: within needs each owner's own sums, so trust: owner")


def require_continues(first: Study, second: Study, *, result_sha256: bytes | None) -> None:
    """Raise `StudyError` unless a study continues another one, and the result that it has.

    ``result_sha256`` None leaves the result out, which is not known.
    """
    continues = second.continues
    if continues is None or continues.study != first.digest:
        raise StudyError(f"study {second.name} does not continue study {first.name}")
    if result_sha256 is not None and continues.result != result_sha256.hex():
        raise StudyError(f"study {second.name} continues another result of study {first.name}")
    wrong = [
        name
        for name, one, other in (
            ("owners", set(first.owners), set(second.owners)),
            ("attributes", first.table.attributes, second.table.attributes),
            ("resolution_bits", first.table.resolution_bits, second.table.resolution_bits),
            ("overlap", first.overlap, second.overlap),
            *(
                (each, getattr(first.table, each), getattr(second.table, each))
                for each in ("unit", "rows_counted", "max_rows_per_person", "neighbours")
            ),
        )
        if one != other
    ]
    if wrong:
        raise StudyError(
            f"study {second.name} continues study {first.name} but differs in: {', '.join(wrong)}"
        )
    if first.continues is not None:
        raise StudyError(f"study {first.name} continues another study itself")


def study_from_mapping(document: Mapping[str, Any], *, text: str = "") -> Study:
    """Validate a document; `StudyError` names every field at fault.

    ``text`` is the YAML that it was read from, if any: its lines are named.
    """
    try:
        return Study.model_validate(dict(document))
    except ValidationError as error:
        explanation = explain_faults(error, document, kind=Study, title="the study", text=text)
        raise StudyError(explanation) from error


def load_study_file(text: str | Path) -> tuple[dict[str, Any], str]:
    """Return the fields of a study file, not yet validated, and its text; the path may be given.

    Raise `StudyError` if the file cannot be read, or is not a mapping in YAML.
    """
    if isinstance(text, Path):
        try:
            text = text.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "not text in UTF-8: save it so"
            raise StudyError(f"the study file {text} cannot be read: {why}") from error
    if len(text) > MAX_DOCUMENT_BYTES:
        raise StudyError(f"the study file is larger than {MAX_DOCUMENT_BYTES} bytes")
    try:
        document = load_yaml(text)
    except NotYamlError as error:
        raise StudyError(f"the study file is not YAML: {error}") from error
    if not isinstance(document, dict):
        hint = ""
        if isinstance(document, str):
            hint = "; this is a word: give the file's text, or its pathlib.Path"
            if "\n" in text.strip():
                hint = "; this is other text, such as a table: a study is YAML"
        raise StudyError(
            f"the study file must be a mapping with name, owners, privacy, components, schema{hint}"
        )
    return document, text


def study_from_canonical(content: bytes) -> Study:
    """Read a canonical document; refused unless its own canonical form is the same bytes."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise StudyError("the study document is not JSON") from error
    if not isinstance(document, dict):
        raise StudyError("the study document is not an object")
    study = study_from_mapping(document)
    if study.canonical_bytes() != content:
        raise StudyError("the study document is not in canonical form")
    return study


def differences(ours: Study, theirs: Study) -> str:
    """Names of the fields that differ, the first few of them; empty where the documents are one.

    Attributes go by their name.
    """
    documents = [json.loads(each.canonical_bytes()) for each in (ours, theirs)]
    mine, other = (
        {each["name"]: each for each in document["schema"].pop("attributes")}
        for document in documents
    )
    places = list(differing_keys(*documents))
    for name in sorted({*mine, *other}):
        if name not in mine or name not in other:
            places.append(f"attribute {name} (only one side has it)")
        elif mine[name] != other[name]:
            places.append(f"attribute {name}")
    if list(mine) != list(other) and set(mine) == set(other):
        places.append("the order of the attributes")
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return ", ".join(places[:_SHOWN]) + more
