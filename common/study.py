"""A study: who takes part, under which privacy, to find which components.

One canonical JSON document, named by its SHA-256. All parties hold the same bytes or do not talk.
Numbers that privacy depends on are exact decimals; there is no default for any of them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Hashable, Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    model_validator,
)

from common.errors import StudyError
from common.schema.document import Schema, canonical_json

MAX_OWNERS = 10_000
MAX_DOCUMENT_BYTES = 4 << 20
_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?")


def _decimal(value: object) -> Decimal:
    try:
        number = Decimal(str(value)) if not isinstance(value, bool) else Decimal("NaN")
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or number <= 0:
        message = 'must be a decimal above 0, such as "1.0"'
        raise ValueError(message)
    if len(number.as_tuple().digits) > 30 or abs(number.adjusted()) > 30:
        message = "has more digits than a privacy parameter needs (30)"
        raise ValueError(message)
    return number


def decimal_text(number: Decimal) -> str:
    """A decimal in full: no exponent, no trailing zeros, and no context that could round it."""
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def is_party_name(value: str) -> bool:
    """Whether a study, owner or other party may be called so."""
    return _NAME.fullmatch(value) is not None


def _name(value: str) -> str:
    if not is_party_name(value):
        message = "a name has 1 to 64 of a-z 0-9 . _ - and starts and ends with a letter or digit"
        raise ValueError(message)
    return value


ExactDecimal = Annotated[
    Decimal, BeforeValidator(_decimal), PlainSerializer(decimal_text, return_type=str)
]
PartyName = Annotated[str, AfterValidator(_name)]


def _overlap(value: object) -> bool | tuple[tuple[str, ...], ...]:
    """False, true, or groups of owners; groups and the names in them in one order."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, list | tuple) or not value:
        message = "must be false, true, or a list of groups such as [[owner-1, owner-2]]"
        raise ValueError(message)
    groups = []
    for group in value:
        names = group if isinstance(group, list | tuple) else []
        names = [name for name in names if isinstance(name, str)]
        if len(names) < 2 or len(names) < len(group) or len(set(names)) < len(names):
            message = "a group is a list of the names of two or more different owners"
            raise ValueError(message)
        groups.append(tuple(sorted(names)))
    if len(set(groups)) < len(groups):
        message = "groups must differ"
        raise ValueError(message)
    return tuple(sorted(groups))


def _overlap_document(value: bool | tuple[tuple[str, ...], ...]) -> bool | list[list[str]]:
    return value if isinstance(value, bool) else [list(group) for group in value]


Overlap = Annotated[
    bool | tuple[tuple[str, ...], ...],
    PlainValidator(_overlap),
    PlainSerializer(_overlap_document),
]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LaplacePrivacy(_Strict):
    """Pure differential privacy by discrete Laplace noise.

    Either ``epsilon``, or a ``scale`` set by hand (the noise's scale b on a column sum or a
    product, in coded units), charged what it costs whatever ``nominal_epsilon`` says.
    """

    mechanism: Literal["laplace"]
    epsilon: ExactDecimal | None = None
    scale: ExactDecimal | None = None
    nominal_epsilon: ExactDecimal | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.epsilon is None) == (self.scale is None):
            message = "laplace needs epsilon, or a scale set by hand"
            raise ValueError(message)
        if self.nominal_epsilon is not None and self.scale is None:
            message = "nominal_epsilon stands beside a scale set by hand"
            raise ValueError(message)
        return self


class GaussianPrivacy(_Strict):
    """(epsilon, delta)-differential privacy by discrete Gaussian noise.

    ``delta`` is always needed. Either ``epsilon``, or a standard deviation ``scale`` set by hand.
    """

    mechanism: Literal["gaussian"]
    epsilon: ExactDecimal | None = None
    delta: ExactDecimal
    scale: ExactDecimal | None = None
    nominal_epsilon: ExactDecimal | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.epsilon is None) == (self.scale is None):
            message = "gaussian needs epsilon and delta, or delta and a scale set by hand"
            raise ValueError(message)
        if self.nominal_epsilon is not None and self.scale is None:
            message = "nominal_epsilon stands beside a scale set by hand"
            raise ValueError(message)
        if self.delta >= 1:
            message = "delta must be below 1"
            raise ValueError(message)
        return self


Privacy = Annotated[LaplacePrivacy | GaussianPrivacy, Field(discriminator="mechanism")]


class ComponentRule(_Strict):
    """How many components are kept: exactly one of three rules.

    contribution_rate
        The smallest k whose eigenvalues reach this share of their sum; ``trace: positive`` sums
        positive eigenvalues, ``trace: signed`` all of them (the form of Gu et al. 2022).
    count
        So many.
    above_noise
        As many as have an eigenvalue above the simulated edge of the noise.
    """

    contribution_rate: Annotated[float, Field(gt=0, lt=1)] | None = None
    trace: Literal["positive", "signed"] = "positive"
    count: Annotated[int, Field(ge=1)] | None = None
    above_noise: Literal[True] | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [self.contribution_rate, self.count, self.above_noise]
        if sum(value is not None for value in given) != 1:
            message = "components needs one of contribution_rate, count, above_noise: true"
            raise ValueError(message)
        return self


class Covariance(StrEnum):
    """What is decomposed: the covariance of all rows, or the mean of the owners' own."""

    POOLED = "pooled"
    WITHIN = "within"


class Study(BaseModel):
    """Everything the parties agree on before a row is read.

    Attributes
    ----------
    quorum
        Owners needed once the deadline has passed; all of them unless said otherwise.
    deadline
        When the study stops waiting; needed for a quorum below all owners.
    overlap
        True where one person may have rows at several owners: the federation's figure is then
        the sum of the owners' and not the largest. Or groups of owners, each a list of those at
        which one person may have rows: the figure is then the largest of the groups' sums.
    max_rows
        Most rows of all owners together; bounds the exact integers.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    version: Literal[1] = 1
    name: PartyName
    owners: Annotated[tuple[PartyName, ...], Field(min_length=1, max_length=MAX_OWNERS)]
    quorum: Annotated[int, Field(ge=1)] | None = None
    deadline: AwareDatetime | None = None
    overlap: Overlap = False
    max_rows: Annotated[int, Field(ge=1, le=1 << 40)] = 1_000_000_000
    privacy: Privacy
    components: ComponentRule
    covariance: Covariance = Covariance.POOLED
    table: Annotated[Schema, Field(alias="schema")]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(set(self.owners)) != len(self.owners):
            message = "owners must differ"
            raise ValueError(message)
        if self.quorum is not None and self.quorum > len(self.owners):
            message = f"quorum {self.quorum} is above the number of owners, {len(self.owners)}"
            raise ValueError(message)
        if self.needed < len(self.owners) and self.deadline is None:
            message = "a quorum below all owners needs a deadline"
            raise ValueError(message)
        if isinstance(self.overlap, tuple):
            strangers = {name for group in self.overlap for name in group} - set(self.owners)
            if strangers:
                message = f"overlap names {', '.join(sorted(strangers))}, who are not among owners"
                raise ValueError(message)
        p = self.table.layout.n_columns
        if self.components.count is not None and self.components.count > p - 1:
            message = f"count {self.components.count} is above {p - 1} (coded columns minus one)"
            raise ValueError(message)
        if self.covariance is Covariance.WITHIN and not self.table.layout.with_sums:
            message = "covariance: within needs column sums (row_norm: include_sums: true)"
            raise ValueError(message)
        return self

    @property
    def needed(self) -> int:
        """Contributions needed once the deadline has passed."""
        return len(self.owners) if self.quorum is None else self.quorum

    def deadline_passed(self, now: datetime) -> bool:
        """Whether the study has stopped waiting; ``now`` is aware."""
        return self.deadline is not None and now >= self.deadline

    def __hash__(self) -> int:
        """By the digest: equal studies have equal documents. The fields are many."""
        return hash(self.digest)

    def canonical_bytes(self) -> bytes:
        """The document that is hashed, stored and sent."""
        document = self.model_dump(mode="json", by_alias=True)
        if self.deadline is not None:
            document["deadline"] = self.deadline.astimezone(UTC).isoformat()
        return canonical_json(document)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical document, in hexadecimal: the study's name among machines."""
        return hashlib.sha256(self.canonical_bytes()).hexdigest()


def study_from_mapping(document: Mapping[str, Any]) -> Study:
    """Validate a document; `StudyError` names every field at fault."""
    try:
        return Study.model_validate(dict(document))
    except ValidationError as error:
        raise StudyError(_explain(error)) from error


def study_from_yaml(text: str) -> Study:
    """Read a study file. ``No`` and ``010`` are labels, not false and 8."""
    if len(text) > MAX_DOCUMENT_BYTES:
        message = f"the study file is larger than {MAX_DOCUMENT_BYTES} bytes"
        raise StudyError(message)
    try:
        document = load_yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        message = f"the study file is not YAML: {error}"
        raise StudyError(message) from error
    if not isinstance(document, dict):
        message = "the study file must be a mapping with name, owners, privacy, components, schema"
        raise StudyError(message)
    return study_from_mapping(document)


def study_from_canonical(content: bytes) -> Study:
    """Read a canonical document; refused unless its own canonical form is the same bytes."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        message = "the study document is not JSON"
        raise StudyError(message) from error
    if not isinstance(document, dict):
        message = "the study document is not an object"
        raise StudyError(message)
    study = study_from_mapping(document)
    if study.canonical_bytes() != content:
        message = "the study document is not in canonical form"
        raise StudyError(message)
    return study


def load_yaml(text: str) -> object:
    """Read YAML: only ``true`` and ``false`` are booleans, and no key may come twice.

    Raises
    ------
    yaml.YAMLError, ValueError
        Not YAML of that kind.
    """
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader, see below


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, without the surprises of YAML 1.1.

    ``No`` and ``on`` are text, as are numbers with leading zeros (octal there), colons (base 60)
    and underscores: they are labels such as ``010``.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Refuse a key given twice: the last would silently win, also over a privacy parameter."""
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        if twice:
            message = f"{', '.join(twice)} given twice"
            raise yaml.constructor.ConstructorError(None, None, message, node.start_mark)
        return super().construct_mapping(node, deep=deep)


_PLAIN_SCALARS = {
    "tag:yaml.org,2002:bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "tag:yaml.org,2002:int": (r"[-+]?(0|[1-9][0-9]*)", "-+0123456789"),
    "tag:yaml.org,2002:float": (
        r"[-+]?(0|[1-9][0-9]*)?\.[0-9]+([eE][-+]?[0-9]+)?|[-+]?(0|[1-9][0-9]*)\.",
        "-+.0123456789",
    ),
}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _PLAIN_SCALARS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _tag, (_pattern, _first) in _PLAIN_SCALARS.items():
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), list(_first))


def _explain(error: ValidationError) -> str:
    lines = []
    for fault in error.errors(include_url=False, include_context=False, include_input=False):
        place = ".".join(str(part) for part in fault["loc"]) or "study"
        lines.append(f"{place}: {fault['msg'].removeprefix('Value error, ')}")
    return "the study is not valid:\n  " + "\n  ".join(lines)
